//! Cases outside of the recordings: memory, atomics, warps and barriers, against values computed by hand.

use crate::harness::{kernel, launch, program, run_words, words_at};
use ptx_interp::{FaultKind, Machine, Options};

/// Runs one warp; each thread stores `%r1`.
fn warp(body: &str) -> Vec<u32> {
    run_words(&format!("{body} mad.wide.u32 %d1, %t, 4, %out; st.global.u32 [%d1], %r1; ret;"), 1, 32, 32).unwrap()
}

/// Runs one thread; it stores `words` words itself.
fn one(body: &str, words: usize) -> Vec<u32> {
    run_words(&format!("{body} ret;"), 1, 1, words).unwrap()
}

fn lanes(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(f).collect()
}

#[test]
fn shuffles() {
    let shfl = |form: &str| warp(&format!("shfl.sync.{form}, -1;"));
    assert_eq!(shfl("up.b32 %r1, %t, 3, 0"), lanes(|t| if t >= 3 { t - 3 } else { t }));
    assert_eq!(shfl("down.b32 %r1, %t, 5, 31"), lanes(|t| if t + 5 < 32 { t + 5 } else { t }));
    assert_eq!(shfl("bfly.b32 %r1, %t, 6, 31"), lanes(|t| t ^ 6));
    assert_eq!(shfl("idx.b32 %r1, %t, 2, 0x181f"), lanes(|t| t & 24 | 2));
    assert_eq!(shfl("down.b32 %r1, %t, 1, 0x1807"), lanes(|t| if t % 8 < 7 { t + 1 } else { t }));
    let found = warp("shfl.sync.up.b32 %r2|%p1, %t, 4, 0, -1; selp.u32 %r1, 1, 0, %p1;");
    assert_eq!(found, lanes(|t| u32::from(t >= 4)));
}

#[test]
fn halves_of_a_warp_shuffle_apart() {
    let body = "
  setp.lt.u32 %p1, %t, 16; @%p1 bra LOW;
  shfl.sync.idx.b32 %r1, %t, 20, 31, 0xffff0000; bra MEET;
LOW: shfl.sync.idx.b32 %r1, %t, 3, 31, 0x0000ffff;
MEET: bar.warp.sync -1;";
    assert_eq!(warp(body), lanes(|t| if t < 16 { 3 } else { 20 }));
}

#[test]
fn votes_and_matches() {
    let odd = "and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 1;";
    assert_eq!(warp(&format!("{odd} vote.sync.ballot.b32 %r1, %p1, -1;")), lanes(|_| 0xaaaa_aaaa));
    assert_eq!(warp(&format!("{odd} vote.sync.any.pred %p2, %p1, -1; selp.u32 %r1, 1, 0, %p2;")), lanes(|_| 1));
    assert_eq!(warp(&format!("{odd} vote.sync.all.pred %p2, !%p1, -1; selp.u32 %r1, 1, 0, %p2;")), lanes(|_| 0));
    assert_eq!(warp("and.b32 %r2, %t, 3; match.any.sync.b32 %r1, %r2, -1;"), lanes(|t| 0x1111_1111 << (t % 4)));
    assert_eq!(warp("mov.u32 %r2, 7; match.all.sync.b32 %r1|%p1, %r2, -1;"), lanes(|_| u32::MAX));
    assert_eq!(warp("elect.sync %r2|%p1, -1; selp.u32 %r1, 1, 0, %p1;"), lanes(|t| u32::from(t == 0)));
}

#[test]
fn reductions_of_a_warp() {
    let value = "sub.s32 %r2, %t, 10;";
    let redux = |op: &str| warp(&format!("{value} redux.sync.{op} %r1, %r2, -1;"))[5];
    assert_eq!(redux("add.s32"), (0..32).map(|t| t - 10).sum::<i32>() as u32);
    assert_eq!(redux("min.s32"), -10i32 as u32);
    assert_eq!(redux("max.s32"), 21);
    assert_eq!(redux("min.u32"), 0);
    assert_eq!(redux("max.u32"), u32::MAX);
    assert_eq!(redux("and.b32"), 0);
    assert_eq!(redux("or.b32"), u32::MAX);
    let floats = "cvt.rn.f32.s32 %f1, %r2; redux.sync.min.f32 %f2, %f1, -1; mov.b32 %r1, %f2;";
    assert_eq!(warp(&format!("{value} {floats}"))[0], (-10f32).to_bits());
}

#[test]
fn atomics_give_the_old_value() {
    let atomic = |start: u32, op: &str| {
        one(&format!("st.global.u32 [%out], {start}; atom.global.{op}; st.global.u32 [%out+4], %r1;"), 2)
    };
    assert_eq!(atomic(5, "inc.u32 %r1, [%out], 5"), [0, 5]);
    assert_eq!(atomic(4, "inc.u32 %r1, [%out], 5"), [5, 4]);
    assert_eq!(atomic(0, "dec.u32 %r1, [%out], 9"), [9, 0]);
    assert_eq!(atomic(12, "dec.u32 %r1, [%out], 9"), [9, 12]);
    assert_eq!(atomic(u32::MAX, "min.s32 %r1, [%out], 3"), [u32::MAX, u32::MAX]);
    assert_eq!(atomic(u32::MAX, "min.u32 %r1, [%out], 3"), [3, u32::MAX]);
    assert_eq!(atomic(7, "cas.b32 %r1, [%out], 7, 1"), [1, 7]);
    assert_eq!(atomic(8, "cas.b32 %r1, [%out], 7, 1"), [8, 8]);
    assert_eq!(atomic(6, "xor.b32 %r1, [%out], 5"), [3, 6]);
}

#[test]
fn atomic_floats_and_vectors() {
    let body = "
  mov.f32 %f1, 0f3FC00000; st.global.f32 [%out], %f1; atom.global.add.f32 %f2, [%out], 0f40000000;
  st.global.u32 [%out+4], 0x3c003c00; mov.b32 %r2, 0x40003c00; red.global.add.noftz.f16x2 [%out+4], %r2;
  st.global.v2.f32 [%out+8], {%f1, %f1}; red.global.add.v2.f32 [%out+8], {%f1, %f2};";
    assert_eq!(one(body, 4), [3.5f32.to_bits(), 0x4200_4000, 3f32.to_bits(), 3f32.to_bits()]);
}

#[test]
fn loads_extend_and_vectors_keep_their_order() {
    let body = "
  st.global.v4.u8 [%out], {255, 1, 2, 128}; ld.global.s8 %r1, [%out]; ld.global.u8 %r2, [%out+3]; ld.global.s16 %r3, [%out+2];
  st.global.v4.b32 [%out+16], {%r1, %r2, %r3, 77};
  ld.global.v2.u64 {%d1, %d2}, [%out+16]; mov.b64 {%r4, %r5}, %d2; st.global.v2.u32 [%out+8], {%r5, %r4};";
    assert_eq!(one(body, 8)[2..], [77, 0xffff_8002, u32::MAX, 128, 0xffff_8002, 77]);
}

#[test]
fn registers_of_128_bits() {
    let body = "
  .reg .b128 %q<3>; mov.u64 %d1, 0x1111222233334444; mov.u64 %d2, 5; mov.b128 %q1, {%d1, %d2};
  st.global.b128 [%out], %q1; ld.global.b128 %q2, [%out]; mov.b128 {%d3, %d4}, %q2; st.global.v2.u64 [%out+16], {%d4, %d3};";
    let expected = [0x3333_4444, 0x1111_2222, 5, 0, 5, 0, 0x3333_4444, 0x1111_2222];
    assert_eq!(one(body, 8), expected);
}

#[test]
fn variables_have_values_and_addresses() {
    let text = kernel(
        "ld.global.u64 %d1, [pointer]; ld.u32 %r1, [%d1]; ld.const.u32 %r2, [table+8]; mov.u64 %d2, table; cvta.const.u64 %d2, %d2;
  ld.u32 %r3, [%d2+4]; .local .align 4 .b8 frame[16]; mov.u64 %d3, frame; cvta.local.u64 %d4, %d3;
  st.local.u32 [frame+8], 42; ld.u32 %r4, [%d4+8]; isspacep.local %p1, %d4; selp.u32 %r5, 1, 0, %p1;
  ld.global.u8 %r6, [bytes+1]; st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%out+16], {%r5, %r6}; ret;",
    );
    let globals = ".global .u32 values[3] = {10, 20, 30};\n.global .u64 pointer = generic(values)+4;\n\
                   .const .u32 table[4] = {1, 2, 3, 4};\n.global .b8 bytes[3] = {7, 8, 9};\n";
    let text = text.replace(".visible", &format!("{globals}.visible"));
    let mut machine = Machine::new();
    let out = machine.alloc(32).unwrap();
    launch(&mut machine, &program(&text), 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
    assert_eq!(words_at(&machine, out, 6), [20, 3, 2, 42, 1, 8]);
}

#[test]
fn barriers_with_counts_and_reductions() {
    let body = "
  .shared .align 4 .b8 box[4]; setp.ge.u32 %p1, %t, 32; @%p1 bra CONSUMER;
  mov.u32 %r2, 99; setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u32 [box], %r2; bar.arrive 3, 64; bra REST;
CONSUMER: bar.sync 3, 64; ld.shared.u32 %r3, [box]; setp.eq.u32 %p3, %t, 32; @%p3 st.global.u32 [%out], %r3;
REST: setp.lt.u32 %p4, %t, 40; barrier.red.popc.u32 %r4, 0, %p4; barrier.red.and.pred %p5, 0, %p4; selp.u32 %r5, 1, 0, %p5;
  setp.eq.u32 %p6, %t, 63; @%p6 st.global.v2.u32 [%out+8], {%r4, %r5}; ret;";
    assert_eq!(run_words(body, 1, 64, 4).unwrap(), [99, 0, 40, 0]);
}

#[test]
fn indexed_branches() {
    let body = "and.b32 %r2, %t, 3; T: .branchtargets A, B, C, A; brx.idx %r2, T;
A: mov.u32 %r1, 100; bra END; B: mov.u32 %r1, 200; bra END; C: mov.u32 %r1, 300; END:";
    assert_eq!(warp(body), lanes(|t| [100, 200, 300, 100][t as usize % 4]));
}

#[test]
fn printf_prints() {
    let text = kernel(
        ".local .align 8 .b8 args[24]; st.local.u32 [args], -7; st.local.f64 [args+8], 0d4004000000000000; st.local.u64 [args+16], 255;
  { .param .b64 f; .param .b64 a; .param .b32 n; mov.u64 %d1, format; cvta.global.u64 %d1, %d1; mov.u64 %d2, args; cvta.local.u64 %d2, %d2;
  st.param.b64 [f], %d1; st.param.b64 [a], %d2; call.uni (n), vprintf, (f, a); ld.param.b32 %r1, [n]; st.global.u32 [%out], %r1; } ret;",
    );
    let head = ".extern .func (.param .b32 n) vprintf(.param .b64 f, .param .b64 a);\n\
                .global .align 1 .b8 format[17] = {37, 53, 100, 124, 37, 46, 50, 102, 124, 37, 35, 108, 120, 37, 37, 10, 0};\n";
    let text = text.replace(".visible", &format!("{head}.visible"));
    let mut machine = Machine::new();
    let out = machine.alloc(4).unwrap();
    let stats = launch(&mut machine, &program(&text), 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
    assert_eq!(stats.printed, "   -7|2.50|0xff%\n");
    assert_eq!(words_at(&machine, out, 1), [3]);
}

#[test]
fn every_seed_gives_the_same_sums() {
    let body =
        "red.global.add.u32 [%out], %t; bar.sync 0; setp.eq.u32 %p1, %t, 0; @%p1 red.global.add.u32 [%out+4], 1; ret;";
    let program = program(&kernel(body));
    for seed in 0..5 {
        let mut machine = Machine::new();
        let out = machine.alloc(8).unwrap();
        machine.write(out, &[0; 8]).unwrap();
        launch(&mut machine, &program, 4, 256, &out.to_le_bytes(), Options { seed, ..Options::default() }).unwrap();
        assert_eq!(words_at(&machine, out, 2), [4 * 255 * 128, 4]);
    }
}

#[test]
fn launches_are_checked() {
    let program = program(&kernel("ret;"));
    let mut machine = Machine::new();
    let mut refused = |grid: u32, block: u32, params: &[u8]| {
        launch(&mut machine, &program, grid, block, params, Options::default()).unwrap_err()
    };
    for fault in [refused(0, 1, &[0; 8]), refused(1, 1025, &[0; 8]), refused(1, 1, &[0; 7])] {
        assert_eq!(fault.kind, FaultKind::Launch);
    }
    assert_eq!(machine.alloc(1 << 60).unwrap_err().kind, FaultKind::OutOfMemory);
}

#[test]
fn endless_recursion_is_refused() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.func f() { .reg .b32 %r; .local .b8 x[64]; call f; ret; }\n\
                .visible .entry k(.param .u64 out) { call f; ret; }\n";
    let mut machine = Machine::new();
    let fault = launch(&mut machine, &program(text), 1, 1, &[0; 8], Options::default()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfMemory, "{fault}");
}

#[test]
fn the_stack_grows_and_shrinks() {
    let body = "
  stacksave.u64 %d1; add.u32 %r1, %t, 3; cvt.u64.u32 %d2, %r1; alloca.u64 %d3, %d2, 64; alloca.u64 %d4, 16;
  st.local.u8 [%d3], %r1; st.local.u32 [%d4+12], %t; and.b64 %d5, %d3, 63; ld.local.u8 %r2, [%d3];
  ld.local.u32 %r3, [%d4+12]; add.u32 %r2, %r2, %r3; cvt.u32.u64 %r3, %d5; add.u32 %r2, %r2, %r3;
  stackrestore.u64 %d1; stacksave.u64 %d6; sub.u64 %d6, %d6, %d1; cvt.u32.u64 %r3, %d6; add.u32 %r1, %r2, %r3;";
    assert_eq!(warp(body), lanes(|t| 2 * t + 3));
    let freed = "stacksave.u64 %d1; alloca.u64 %d2, 64; stackrestore.u64 %d1; ld.local.u32 %r1, [%d2]; ret;";
    assert_eq!(run_words(freed, 1, 1, 1).unwrap_err().kind, FaultKind::OutOfBounds);
    let huge = "mov.u64 %d1, 0x7fffffffffffffff; alloca.u64 %d2, %d1; ret;";
    assert_eq!(run_words(huge, 1, 1, 1).unwrap_err().kind, FaultKind::OutOfMemory);
    let wrong = "mov.u64 %d1, 12; stackrestore.u64 %d1; ret;";
    assert_eq!(run_words(wrong, 1, 1, 1).unwrap_err().kind, FaultKind::Undefined);
}

#[test]
fn conversions_are_scaled_by_powers_of_two() {
    let one = |body: &str| {
        let text = kernel(&format!("{body} st.global.u32 [%out], %r1; ret;")).replace(".version 8.8", ".version 9.1");
        let mut machine = Machine::new();
        let out = machine.alloc(4).unwrap();
        launch(&mut machine, &program(&text), 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
        words_at(&machine, out, 1)[0]
    };
    // 1.5 / 2 and 1.5 · 4 in units of 1/64, the latter clamped.
    let down = "mov.f32 %f1, 0f3FC00000; mov.b16 %h1, 0x807d; cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.f32 %h2, %f1, %f1, %h1;";
    assert_eq!(one(&format!("{down} cvt.u32.u16 %r1, %h2;")), 0x307f);
    // 1 · 2 and -0.5 · 2^-1.
    let up = "mov.b16 %h1, 0x40e0; mov.b16 %h2, 0x807e; cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2 %r1, %h1, %h2;";
    assert_eq!(one(up), 0x4000_be80);
    let nan = "mov.b32 %f1, 0x7fffffff; cvt.rn.satfinite.s2f6x2.f32 %h2, %f1, %f1; cvt.u32.u16 %r1, %h2;";
    assert_eq!(one(nan), 0x7f7f);
}

#[test]
fn what_lies_outside_of_a_tensor_makes_a_product_zero() {
    let fma = |a: u32, b: u32| {
        let body = format!(
            "mov.b32 %r2, {a}; mov.b32 %r3, {b}; mov.b32 %r4, 0x3c003c00; fma.rn.oob.f16x2 %r1, %r2, %r3, %r4;"
        );
        one(&format!("{body} st.global.u32 [%out], %r1;"), 1)[0]
    };
    assert_eq!(fma(0x3c00_7ff7, 0x3c00_3c00), 0x4000_0000);
    assert_eq!(fma(0x7fff_3c00, 0x3c00_7ff7), 0x7fff_0000);
}
