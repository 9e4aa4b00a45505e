//! Whole kernels: what programs are made of, together.

use crate::harness::{kernel, launch, program, run_words, words_at};
use ptx_interp::{FaultKind, Launch, Machine, Options};

const SAXPY: &str = ".version 7.0\n.target sm_80\n.address_size 64\n
.visible .entry k(.param .f32 alpha, .param .u64 x, .param .u64 y, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %rd<8>; .reg .f32 %f<5>;
  ld.param.f32 %f1, [alpha]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1; @%p bra DONE;
  cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2; mul.wide.u32 %rd5, %r5, 4;
  add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
  ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7]; fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd7], %f4;
DONE: ret;
}";

#[test]
fn saxpy_of_a_million() {
    let n = 1_000_000u32;
    let program = program(SAXPY);
    let mut machine = Machine::new();
    let (x, y) = (machine.alloc(4 * u64::from(n)).unwrap(), machine.alloc(4 * u64::from(n)).unwrap());
    let bytes = |f: fn(u32) -> f32| (0..n).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<u8>>();
    machine.write(x, &bytes(|i| i as f32)).unwrap();
    machine.write(y, &bytes(|i| 1.0 + i as f32)).unwrap();
    let mut params = 3f32.to_le_bytes().to_vec();
    params.extend([0; 4]);
    params.extend(x.to_le_bytes());
    params.extend(y.to_le_bytes());
    params.extend(n.to_le_bytes());
    let start = std::time::Instant::now();
    let stats = launch(&mut machine, &program, n.div_ceil(256), 256, &params, Options::default()).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!("saxpy: {seconds:.3} s, {:.0} M thread instructions/s", stats.instructions as f64 / seconds / 1e6);
    for (i, bits) in words_at(&machine, y, n as usize).into_iter().enumerate() {
        assert_eq!(f32::from_bits(bits), 3f32.mul_add(i as f32, 1.0 + i as f32));
    }
}

#[test]
fn block_reduction_with_shuffles_and_a_barrier() {
    let body = "
  .shared .align 4 .b8 parts[128];
  mov.u32 %r1, %t;
  shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; add.s32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1;  add.s32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 4, 31, -1;  add.s32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 2, 31, -1;  add.s32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;  add.s32 %r1, %r1, %r2;
  mov.u32 %r3, %laneid; setp.ne.u32 %p1, %r3, 0; shr.u32 %r4, %t, 5; shl.b32 %r4, %r4, 2;
  mov.u32 %r5, parts; add.u32 %r5, %r5, %r4;
  @!%p1 st.shared.u32 [%r5], %r1;
  bar.sync 0;
  setp.ge.u32 %p2, %t, 32; @%p2 bra DONE;
  mov.u32 %r7, %ntid.x; shr.u32 %r7, %r7, 5; setp.lt.u32 %p3, %t, %r7;
  mov.u32 %r6, 0; shl.b32 %r8, %t, 2; mov.u32 %r9, parts; add.u32 %r9, %r9, %r8;
  @%p3 ld.shared.u32 %r6, [%r9];
  redux.sync.add.s32 %r10, %r6, -1;
  setp.eq.u32 %p4, %t, 0; @%p4 st.global.u32 [%out], %r10;
DONE: ret;";
    for threads in [32, 64, 256, 1024] {
        assert_eq!(run_words(body, 1, threads, 1).unwrap(), [threads * (threads - 1) / 2]);
    }
}

#[test]
fn histogram_with_shared_atomics() {
    let body = "
  .shared .align 4 .u32 bins[16];
  and.b32 %r1, %t, 15; shl.b32 %r2, %r1, 2; mov.u32 %r3, bins; add.u32 %r3, %r3, %r2;
  setp.lt.u32 %p1, %t, 16; mov.u32 %r4, 0;
  @%p1 st.shared.u32 [%r3], %r4;
  bar.sync 0;
  mul.lo.u32 %r5, %t, %t; and.b32 %r5, %r5, 15; shl.b32 %r5, %r5, 2; mov.u32 %r6, bins; add.u32 %r6, %r6, %r5;
  atom.shared.add.u32 %r7, [%r6], 1;
  barrier.sync 0;
  cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %out;
  @%p1 ld.shared.u32 %r8, [%r3]; @%p1 red.global.add.u32 [%d1], %r8;
  ret;";
    let mut expected = [0; 16];
    (0..200u32).for_each(|t| expected[(t * t % 16) as usize] += 3);
    assert_eq!(run_words(body, 3, 200, 16).unwrap(), expected);
}

#[test]
fn lanes_diverge_and_meet_again() {
    let body = "
  mov.u32 %r1, 0; mov.u32 %r2, %t;
LOOP: setp.eq.u32 %p1, %r2, 0; @%p1 bra DONE;
  and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 1; @%p2 bra ODD;
  add.u32 %r1, %r1, 100; bra NEXT;
ODD: add.u32 %r1, %r1, 1;
NEXT: sub.u32 %r2, %r2, 1; bra LOOP;
DONE: activemask.b32 %r4; vote.sync.ballot.b32 %r5, %p1, -1;
  mad.wide.u32 %d1, %t, 8, %out; st.global.v2.u32 [%d1], {%r1, %r5}; ret;";
    let words = run_words(body, 1, 32, 64).unwrap();
    for t in 0..32 {
        assert_eq!(words[2 * t], (t.div_ceil(2) + t / 2 * 100) as u32, "thread {t}");
        assert_eq!(words[2 * t + 1], u32::MAX);
    }
}

#[test]
fn calls_pass_values_and_come_back() {
    let text = ".version 7.0\n.target sm_80\n.address_size 64\n
.func (.reg .b32 r) square(.reg .b32 x) { mul.lo.u32 r, x, x; ret; }
.func (.param .b32 r) fib(.param .b32 x) {
  .reg .b32 %a<6>; .reg .pred %q;
  ld.param.b32 %a1, [x]; setp.lt.u32 %q, %a1, 2; @%q bra BASE;
  { .param .b32 p; .param .b32 q; sub.u32 %a2, %a1, 1; st.param.b32 [p], %a2; call.uni (q), fib, (p); ld.param.b32 %a3, [q]; }
  { .param .b32 p; .param .b32 q; sub.u32 %a2, %a1, 2; st.param.b32 [p], %a2; call.uni (q), fib, (p); ld.param.b32 %a4, [q]; }
  add.u32 %a5, %a3, %a4; st.param.b32 [r], %a5; ret;
BASE: st.param.b32 [r], %a1; ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %d<4>; .param .b32 a; .param .b32 b;
  mov.u32 %r1, %tid.x; call (%r2), square, (%r1);
  st.param.b32 [a], %r1; call (b), fib, (a); ld.param.b32 %r3, [b];
  mov.u64 %d3, fib; proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  and.b32 %r4, %r1, 7; st.param.b32 [a], %r4; call (b), %d3, (a), proto; ld.param.b32 %r5, [b]; add.u32 %r3, %r3, %r5;
  ld.param.u64 %d1, [out]; mad.wide.u32 %d2, %r1, 8, %d1; st.global.v2.b32 [%d2], {%r2, %r3};
}".to_string();
    let mut machine = Machine::new();
    let out = machine.alloc(16 * 8).unwrap();
    launch(&mut machine, &program(&text), 1, 16, &out.to_le_bytes(), Options::default()).unwrap();
    let fib = |n: usize| [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610][n];
    for (t, pair) in words_at(&machine, out, 32).chunks(2).enumerate() {
        assert_eq!(pair, [(t * t) as u32, fib(t) + fib(t & 7)], "thread {t}");
    }
}

#[test]
fn an_endless_loop_is_named() {
    let program = program(&kernel("mov.u32 %r1, 0; SPIN: add.u32 %r1, %r1, 1; bra SPIN;"));
    let mut machine = Machine::new();
    let options = Options { step_limit: Some(1000), ..Options::default() };
    let fault = launch(&mut machine, &program, 1, 1, &[0; 8], options).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StepLimit);
    assert!(fault.message.contains("`SPIN`"), "{fault}");
}

#[test]
fn a_lock_held_by_a_later_lane_is_no_deadlock() {
    let body = "
  mov.u32 %r9, 0;
TRY: atom.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra TRY;
  ld.volatile.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%out+4], %r2;
  atom.global.exch.b32 %r3, [%out], 0; ret;";
    assert_eq!(run_words(body, 4, 96, 2).unwrap(), [0, 384]);
}

#[test]
fn blocks_may_wait_for_each_other() {
    let body = "
  mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %t, 0;
  @%p1 red.global.add.u32 [%out], 1;
SPIN: ld.volatile.global.u32 %r2, [%out]; setp.lt.u32 %p2, %r2, 5; @%p2 bra SPIN;
  @%p1 red.global.add.u32 [%out+4], 1; ret;";
    let program = program(&kernel(body));
    for seed in 0..12 {
        let mut machine = Machine::new();
        let out = machine.alloc(8).unwrap();
        machine.write(out, &[0; 8]).unwrap();
        let launch = Launch {
            entry: "k",
            grid: [5, 1, 1],
            block: [64, 1, 1],
            cluster: [1, 1, 1],
            dynamic_shared: 0,
            cooperative: true,
            params: &out.to_le_bytes(),
            options: Options { seed, ..Options::default() },
        };
        machine.launch(&program, &launch).unwrap();
        assert_eq!(words_at(&machine, out, 2), [5, 5]);
    }
}

#[test]
fn an_access_that_leaves_its_allocation_says_how_much_is_left() {
    let fault = run_words("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%out]; ret;", 1, 1, 2).unwrap_err();
    assert!(fault.message.contains("begin in an allocation of 8 bytes"), "{fault}");
    assert!(fault.message.contains("of which 8 are left"), "{fault}");
}

#[test]
fn one_seed_gives_one_order_and_others_give_others() {
    // Each block takes the next number, and writes which it got.
    let body = "
  .shared .align 4 .u32 got; setp.eq.u32 %p1, %t, 0;
  @%p1 atom.global.add.u32 %r1, [%out], 1; @%p1 st.shared.u32 [got], %r1; bar.sync 0;
  mov.u32 %r2, %ctaid.x; shl.b32 %r2, %r2, 2; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %out;
  mov.u32 %r3, 0; SPIN: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 400; @%p2 bra SPIN;
  @%p1 atom.global.add.u32 %r4, [%out], 1; @%p1 st.global.u32 [%d1+4], %r4; ret;";
    let program = program(&kernel(body));
    let order = |seed: u64| {
        let mut machine = Machine::new();
        let out = machine.alloc(64).unwrap();
        machine.write(out, &[0; 64]).unwrap();
        launch(&mut machine, &program, 8, 64, &out.to_le_bytes(), Options { seed, ..Options::default() }).unwrap();
        words_at(&machine, out, 9)
    };
    let orders: Vec<_> = (0..16).map(order).collect();
    assert!((0..16).all(|seed| order(seed) == orders[seed as usize]), "the same again");
    let different: std::collections::HashSet<_> = orders.iter().collect();
    assert!(different.len() > 4, "{} orders", different.len());
}

#[test]
fn faults_say_what_and_where() {
    let outside = run_words("st.global.u32 [%out+4096], 1; ret;", 1, 1, 1).unwrap_err();
    assert_eq!((outside.kind, outside.thread), (FaultKind::OutOfBounds, Some([0, 0, 0])));
    let misaligned = run_words("st.global.u32 [%out+2], 1; ret;", 1, 1, 2).unwrap_err();
    assert_eq!(misaligned.kind, FaultKind::Misaligned);
    let stuck = run_words("setp.eq.u32 %p1, %t, 0; @%p1 bar.sync 1, 64; ret;", 1, 32, 1).unwrap_err();
    assert_eq!(stuck.kind, FaultKind::Deadlock);
    assert!(stuck.message.contains("barrier 1"), "{stuck}");
    assert_eq!(run_words("trap;", 1, 1, 1).unwrap_err().kind, FaultKind::Trap);
}
