//! Results of an H200, and machine code of ptxas 13.5, where neither follows from the manual alone.

use crate::harness::{launch, program, run_words, words_at};
use ptx_interp::{Machine, Options};

/// Runs one thread; it stores `words` words itself.
fn one(body: &str, words: usize) -> Vec<u32> {
    run_words(&format!("{body} ret;"), 1, 1, words).unwrap()
}

/// The `f64` that an instruction writes to `%g1`.
fn double(body: &str) -> u64 {
    let words = one(&format!("{body} st.global.f64 [%out], %g1;"), 2);
    u64::from(words[0]) | u64::from(words[1]) << 32
}

#[test]
fn vector_registers_are_arguments_and_results() {
    let module = "
.version 8.8
.target sm_90
.address_size 64
.func (.reg .v2 .u32 %o) turn (.reg .v2 .u32 %i, .reg .v4 .b16 %h, .reg .v2 .f64 %g, .reg .u32 %n) {
  .reg .b32 %r<4>; .reg .f64 %s;
  mov.b32 %r0, {%h.z, %h.w};
  add.u32 %o.x, %i.y, %r0; add.f64 %s, %g.x, %g.y; cvt.rzi.u32.f64 %r1, %s; add.u32 %o.y, %i.x, %r1; add.u32 %o.y, %o.y, %n;
  ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b64 %out; .reg .v2 .u32 %a, %b; .reg .v4 .b16 %h; .reg .v2 .f64 %g; .reg .u32 %n;
  ld.param.u64 %out, [out];
  mov.u32 %a.x, 100; mov.u32 %a.y, 20; mov.u32 %n, 1000;
  mov.b16 %h.x, 9; mov.b16 %h.y, 9; mov.b16 %h.z, 3; mov.b16 %h.w, 1; mov.f64 %g.x, 2.0; mov.f64 %g.y, 5.0;
  call (%b), turn, (%a, %h, %g, %n);
  st.global.v2.u32 [%out], {%b.x, %b.y};
  ret;
}";
    let mut machine = Machine::new();
    let out = machine.alloc(8).unwrap();
    launch(&mut machine, &program(module), 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
    assert_eq!(words_at(&machine, out, 2), [20 + 0x1_0003, 100 + 7 + 1000]);
}

/// As the manual has it, and as ptxas makes it since 13.5: `PRMT d, result, 0x1054, c`.
#[test]
fn scalar_video_instructions_merge_into_parts_as_the_manual_says() {
    let merged = |part: &str| {
        one(
            &format!(
                "mov.b32 %r1, 0x11223344; mov.b32 %r2, 0x00005566; mov.b32 %r3, 0xaabbccdd; \
        vadd.u32.u32.u32 %r4{part}, %r1.h0, %r2.h0, %r3; st.global.u32 [%out], %r4;"
            ),
            1,
        )[0]
    };
    // 0x3344 + 0x5566 = 0x88aa.
    assert_eq!([".h1", ".h0", ".b3", ".b1"].map(merged), [0x88aa_ccdd, 0xaabb_88aa, 0xaabb_ccdd, 0xaabb_aadd]);
}

#[test]
fn single_literals_are_their_digits_where_doubles_stand() {
    let denormal = f64::from_bits(0x3f80_0000);
    assert_eq!(double("mov.f64 %g2, 0d0000000000000001; add.f64 %g1, 0f3F800000, %g2;"), 0x3f80_0001);
    assert_eq!(double("mov.f64 %g1, 0f3F800000;"), denormal.to_bits());
    assert_eq!(double("mov.f64 %g2, 0.0; fma.rn.f64 %g1, %g2, %g2, 0f3F800000;"), 0x3f80_0000);
    // The other way round a number is rounded: `FADD R2, R2, 1`.
    let single = one("mov.f32 %f1, 0f40000000; add.f32 %f2, %f1, 0d3FF0000000000000; st.global.f32 [%out], %f2;", 1);
    assert_eq!(single, [3f32.to_bits()]);
}

/// `DADD R2, R2, UR6` with the literal's sign changed, the literal always last.
#[test]
fn literals_of_doubles_stand_where_ptxas_puts_them() {
    let (quiet, other) = ("0d7FF8000000000123", "mov.b64 %g2, 0d7FF8000000000456;");
    assert_eq!(double(&format!("{other} sub.f64 %g1, 0d3FF0000000000000, %g2;")), 0x7ff8_0000_0000_0456);
    assert_eq!(double(&format!("mov.f64 %g2, 1.0; sub.f64 %g1, %g2, {quiet};")), 0xfff8_0000_0000_0123);
    assert_eq!(double(&format!("{other} sub.rz.f64 %g1, %g2, {quiet};")), 0xfff8_0000_0000_0123);
    assert_eq!(double(&format!("{other} sub.f64 %g1, {quiet}, %g2;")), 0x7ff8_0000_0000_0123);
    assert_eq!(double(&format!("{other} add.f64 %g1, {quiet}, %g2;")), 0x7ff8_0000_0000_0123);
    assert_eq!(double(&format!("{other} mul.rm.f64 %g1, {quiet}, %g2;")), 0x7ff8_0000_0000_0123);
    assert_eq!(double(&format!("{other} mov.f64 %g3, 1.0; fma.rn.f64 %g1, {quiet}, %g2, %g3;")), 0x7ff8_0000_0000_0123);
    // Of two registers the second one counts.
    assert_eq!(double(&format!("{other} mov.f64 %g3, {quiet}; sub.f64 %g1, %g3, %g2;")), 0x7ff8_0000_0000_0456);
}

/// The H200's results for arguments that are tiny and large: `FMUL.RZ` by 1/2π, then 25 bits of the fraction.
#[test]
fn angles_are_rounded_before_sine_and_cosine() {
    let of = |name: &str, bits: u32| {
        one(&format!("mov.f32 %f1, 0f{bits:08X}; {name}.approx.f32 %f2, %f1; st.global.f32 [%out], %f2;"), 1)[0]
    };
    for (argument, result) in
        [(0x33800000, 0), (0xb431_e8ac, 0x8000_0000), (0x80000181, 0x8000_0000), (0x7f800000, 0x7fff_ffff)]
    {
        assert_eq!(of("sin", argument), result, "{argument:x}");
    }
    let recorded = [
        (0x36d4_78cc, 0x36cf_5a90), // 6.3e-6
        (0xb466_1969, 0xb449_1200), // -2.1e-7
        (0x463d_3b2a, 0x3d4c_1e39), // 12110.8
        (0x4750_8000, 0x3ea9_86c0), // 53376
        (0xc2bc_8340, 0xbc0c_4a7b), // -94.3
    ];
    for (argument, result) in recorded {
        let (ours, theirs) = (f32::from_bits(of("sin", argument)), f32::from_bits(result));
        assert!((ours - theirs).abs() <= 2f32.powi(-21), "{argument:x}: {ours}, the chip {theirs}");
    }
    for (argument, result) in [(0xc7fd_5755, 0x3f56_95e4), (0x463d_3b2a, 0xbf7f_ae92), (0xc4a4_3c08, 0x3f45_6c36)] {
        let (ours, theirs) = (f32::from_bits(of("cos", argument)), f32::from_bits(result));
        assert!((ours - theirs).abs() <= 2f32.powi(-21), "{argument:x}: {ours}, the chip {theirs}");
    }
}

#[test]
fn all_components_of_a_special_register_move_at_once() {
    let body =
        ".reg .v4 .u32 %v; mov.v4.u32 {%r1, %r2, %r3, %r4}, %ntid; mov.v4.u32 %v, %ctaid; add.u32 %r4, %r4, %v.x;
        setp.ne.u32 %p1, %t, 0; @%p1 bra DONE; shl.b32 %r5, %v.x, 4; cvt.u64.u32 %d1, %r5; add.u64 %d1, %out, %d1;
        st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; DONE: ret;";
    assert_eq!(run_words(body, 2, 64, 8).unwrap(), [64, 1, 1, 0, 64, 1, 1, 1]);
}

/// `IADD3` before the instruction.
#[test]
fn sums_are_added_before_an_instruction() {
    let word = |body: &str| one(&format!("mov.u32 %r1, 20; mov.u64 %d1, 0x1ffffffff; mov.u16 %h1, 10; {body}"), 1)[0];
    assert_eq!(word("shr.u32 %r2, %r1+4, 1; st.global.u32 [%out], %r2;"), 12);
    assert_eq!(word("mov.u32 %r2, %r1+-21; st.global.u32 [%out], %r2;"), u32::MAX);
    assert_eq!(word("st.global.u32 [%out], %r1+7;"), 27);
    assert_eq!(
        word("add.u64 %d2, %d1+1, %d1; shr.u64 %d2, %d2, 32; cvt.u32.u64 %r2, %d2; st.global.u32 [%out], %r2;"),
        3
    );
    assert_eq!(word("mul.wide.u16 %r2, %h1+65535, %h1; st.global.u32 [%out], %r2;"), 90);
    assert_eq!(word("setp.eq.u32 %p1, %r1+1, 21; selp.u32 %r2, 1, 0, %p1; st.global.u32 [%out], %r2;"), 1);
}
