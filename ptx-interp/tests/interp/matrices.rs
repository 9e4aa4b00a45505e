//! Asynchronous copies and matrix instructions, in the ways that kernels use them.

use crate::harness::{kernel, launch, program, run_words, words_at};
use ptx_interp::{FaultKind, Machine, Options};

/// The bits of a small integer as `f16`.
fn half(value: i32) -> u16 {
    let bits = (value as f32).to_bits();
    if value == 0 { 0 } else { ((bits >> 16 & 0x8000) + ((bits >> 13 & 0x3ffff) - (112 << 10))) as u16 }
}

/// C = A·B of 16×64 and 64×8 in four pipelined tiles: `cp.async` into two stages, `ldmatrix`, `mma`.
const GEMM: &str = "
  .shared .align 16 .b8 stages[1536];
  mov.u32 %r1, stages; mov.u32 %r2, 0; mov.u32 %r3, 0; add.u64 %d1, %out, 512; add.u64 %d2, %out, 2560;
  shr.u32 %r4, %t, 1; and.b32 %r5, %t, 1; shl.b32 %r5, %r5, 4;
  mad.lo.u32 %r6, %r4, 128, %r5; cvt.u64.u32 %d3, %r6; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3;
  mad.lo.u32 %r7, %r4, 32, %r5; add.u32 %r7, %r7, %r1; setp.lt.u32 %p1, %t, 16;
  and.b32 %r8, %t, 15; mul.lo.u32 %r8, %r8, 32; shr.u32 %r9, %t, 4; mad.lo.u32 %r8, %r9, 16, %r8; add.u32 %r8, %r8, %r1;
  and.b32 %r10, %t, 7; mul.lo.u32 %r10, %r10, 32; shr.u32 %r11, %t, 3; and.b32 %r11, %r11, 1;
  mad.lo.u32 %r10, %r11, 16, %r10; add.u32 %r10, %r10, %r1; add.u32 %r10, %r10, 512;
  mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
FILL:
  and.b32 %r12, %r2, 1; mad.lo.u32 %r13, %r12, 768, %r7; setp.ge.u32 %p2, %r2, 4; @%p2 bra FILLED;
  cp.async.cg.shared.global [%r13], [%d1], 16; @%p1 cp.async.ca.shared.global [%r13+512], [%d2], 16;
  add.u64 %d1, %d1, 32; add.u64 %d2, %d2, 32;
FILLED:
  cp.async.commit_group; add.u32 %r2, %r2, 1; setp.eq.u32 %p3, %r2, 1; @%p3 bra FILL;
  cp.async.wait_group 1; bar.warp.sync -1;
  and.b32 %r14, %r3, 1; mad.lo.u32 %r15, %r14, 768, %r8; mad.lo.u32 %r16, %r14, 768, %r10;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r15];
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r24, %r25}, [%r16];
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f1, %f2, %f3, %f4};
  bar.warp.sync -1; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 4; @%p4 bra FILL;
  shr.u32 %r30, %t, 2; and.b32 %r31, %t, 3; shl.b32 %r30, %r30, 5; mad.lo.u32 %r30, %r31, 8, %r30;
  cvt.u64.u32 %d4, %r30; add.u64 %d4, %d4, %out;
  st.global.v2.f32 [%d4], {%f1, %f2}; st.global.v2.f32 [%d4+256], {%f3, %f4}; ret;";

#[test]
fn a_pipelined_matrix_product() {
    let (a, b) =
        (|i: usize, k: usize| (i * 7 + k * 3) as i32 % 11 - 5, |k: usize, j: usize| (k * 5 + j) as i32 % 9 - 4);
    let bytes = |v: Vec<i32>| v.into_iter().flat_map(|x| half(x).to_le_bytes()).collect::<Vec<u8>>();
    let mut machine = Machine::new();
    let out = machine.alloc(3584).unwrap();
    machine.write(out + 512, &bytes((0..16 * 64).map(|n| a(n / 64, n % 64)).collect())).unwrap();
    machine.write(out + 2560, &bytes((0..8 * 64).map(|n| b(n % 64, n / 64)).collect())).unwrap();
    launch(&mut machine, &program(&kernel(GEMM)), 1, 32, &out.to_le_bytes(), Options::default()).unwrap();
    for (n, bits) in words_at(&machine, out, 128).into_iter().enumerate() {
        let expected: i32 = (0..64).map(|k| a(n / 8, k) * b(k, n % 8)).sum();
        assert_eq!(f32::from_bits(bits), expected as f32, "row {}, column {}", n / 8, n % 8);
    }
}

/// Runs one warp; each thread stores `%r1`.
fn warp(body: &str) -> Vec<u32> {
    run_words(&format!("{body} mad.wide.u32 %d1, %t, 4, %out; st.global.u32 [%d1], %r1; ret;"), 1, 32, 32).unwrap()
}

#[test]
fn matrices_are_transposed_in_registers_and_in_memory() {
    let value = "mul.lo.u32 %r2, %t, 2; add.u32 %r3, %r2, 1; shl.b32 %r3, %r3, 16; or.b32 %r2, %r2, %r3;";
    let moved = warp(&format!("{value} movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;"));
    let stored = warp(&format!(
        ".shared .align 16 .b8 m[128]; mov.u32 %r4, m; and.b32 %r5, %t, 7; mad.lo.u32 %r4, %r5, 16, %r4; {value}
         stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {{%r2}}; bar.warp.sync -1;
         ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{%r1}}, [%r4];"
    ));
    let expected: Vec<u32> = (0..32)
        .map(|t| {
            let at = t % 4 * 16 + t / 4;
            at | (at + 8) << 16
        })
        .collect();
    assert_eq!(moved, expected);
    assert_eq!(stored, expected);
}

/// Byte e of lane 4·g + t is that of row g + 8·(e / 2) and column 2·t + e % 2; columns stand in memory one after another.
#[test]
fn matrices_of_bytes_are_stored_by_columns() {
    let stored = warp(
        ".shared .align 16 .b8 m[128]; mov.u32 %r4, m; and.b32 %r5, %t, 7; mad.lo.u32 %r6, %r5, 16, %r4;
         mul.lo.u32 %r2, %t, 4; mad.lo.u32 %r2, %r2, 0x01010101, 0x03020100;
         stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r6], {%r2}; bar.warp.sync -1;
         mad.lo.u32 %r4, %t, 4, %r4; ld.shared.u32 %r1, [%r4];",
    );
    let byte = |at: u32| {
        let (column, row) = (at / 16, at % 16);
        4 * (4 * (row % 8) + column / 2) + column % 2 + 2 * (row / 8)
    };
    let expected: Vec<u32> = (0..32).map(|t| (0..4).fold(0, |word, i| word | byte(4 * t + i) << (8 * i))).collect();
    assert_eq!(stored, expected);
}

#[test]
fn integers_bits_and_doubles_multiply() {
    // Row g of A holds g + 1 everywhere, column n of B n + 1.
    let fill = "shr.u32 %r2, %t, 2; add.u32 %r2, %r2, 1; mul.lo.u32 %r3, %r2, 0x01010101; mul.lo.u32 %r4, %r2, 0x11111111; mov.u32 %r5, 100;";
    let expected = |depth: u32| (0..32).map(|t| 100 + depth * (t / 4 + 1) * (t % 4 * 2 + 1)).collect::<Vec<u32>>();
    let bytes = "mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%r1, %r9}, {%r3}, {%r3}, {%r5, %r5};";
    assert_eq!(warp(&format!("{fill} {bytes}")), expected(16));
    let long = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1, %r9, %r10, %r11}, {%r3, %r3, %r3, %r3}, {%r3, %r3}, {%r5, %r5, %r5, %r5};";
    assert_eq!(warp(&format!("{fill} {long}")), expected(32));
    let nibbles = "mma.sync.aligned.m8n8k32.row.col.s32.u4.u4.s32 {%r1, %r9}, {%r4}, {%r4}, {%r5, %r5};";
    assert_eq!(warp(&format!("{fill} {nibbles}")), expected(32));
    let bits = "mov.u32 %r5, 0; mov.u32 %r6, -1; mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r1, %r9, %r10, %r11}, {%r6, %r6, %r6, %r6}, {%r6, %t}, {%r5, %r5, %r5, %r5};";
    assert_eq!(warp(bits)[0], 128 + (0..4u32).map(u32::count_ones).sum::<u32>());
    let double = "cvt.rn.f64.u32 %g1, %r2; mov.f64 %g2, 0d4059000000000000;
      mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%g3, %g4}, {%g1}, {%g1}, {%g2, %g2}; cvt.rzi.u32.f64 %r1, %g3;";
    assert_eq!(warp(&format!("{fill} {double}")), expected(4));
    let single = "cvt.rn.f32.u32 %f1, %r2; mov.b32 %r6, %f1; mov.f32 %f2, 0f42C80000;
      mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f3, %f4, %f5, %f6}, {%r6, %r6, %r6, %r6}, {%r6, %r6}, {%f2, %f2, %f2, %f2};
      cvt.rzi.u32.f32 %r1, %f3;";
    assert_eq!(warp(&format!("{fill} {single}")), expected(8));
    let eights = "mov.u32 %r6, 0x38383838; mov.f32 %f2, 0f42C80000;
      mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f3, %f4, %f5, %f6}, {%r6, %r6, %r6, %r6}, {%r6, %r6}, {%f2, %f2, %f2, %f2};
      cvt.rzi.u32.f32 %r1, %f3;";
    assert_eq!(warp(eights), [132; 32]);
}

#[test]
fn copies_fill_with_zeros_and_bulk_copies_count_bytes() {
    let body = "
  .shared .align 16 .b8 buffer[64]; .shared .align 8 .b64 bar;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; mov.u32 %r1, buffer; mov.u32 %r2, bar;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 32, [%r2];
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;
  cp.async.ca.shared.global [%r1], [%out], 8, 4; cp.async.mbarrier.arrive.noinc.shared.b64 [bar];
  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1; @!%p1 trap;
  fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%out+32], [%r1], 32;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; ret;";
    let mut machine = Machine::new();
    let out = machine.alloc(64).unwrap();
    machine.write(out, &(1..9u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>()).unwrap();
    launch(&mut machine, &program(&kernel(body)), 1, 1, &out.to_le_bytes(), Options::default()).unwrap();
    assert_eq!(words_at(&machine, out + 32, 8), [1, 0, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn bad_copies_and_broken_warps_are_faults() {
    let kind = |body: &str, threads| {
        run_words(&format!(".shared .align 16 .b8 s[16]; mov.u32 %r1, s; {body} ret;"), 1, threads, 4).unwrap_err().kind
    };
    let written = "st.shared.v2.u64 [%r1], {%out, %out}; fence.proxy.async;";
    assert_eq!(kind("cp.async.ca.shared.global [%r1], [%out+1], 4;", 1), FaultKind::Misaligned);
    assert_eq!(kind("mov.u32 %r2, 9; cp.async.ca.shared.global [%r1], [%out], 8, %r2;", 1), FaultKind::Undefined);
    assert_eq!(
        kind(&format!("{written} cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 32;"), 1),
        FaultKind::OutOfBounds
    );
    assert_eq!(kind("movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;", 16), FaultKind::Sync);
}
