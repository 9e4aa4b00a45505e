//! Memory that nobody has written is no matter before its value is.

use super::{Case, all_right, case};

/// A tile of 16 rows of 8 words, of which the first 8 are copied from `out`; `%r2` is a row's place for `ldmatrix`.
const TILE: &str = ".shared .align 128 .b8 s[512]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 16, %r1; mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %out; and.b32 %r3, %t, 15; setp.lt.u32 %p1, %r3, 8;
 @%p1 cp.async.cg.shared.global [%r2], [%d1], 16; cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.u32 %r14, 0;
 mul.wide.u32 %d2, %t, 8; add.u64 %d2, %d2, %out;";
/// Rows of three words in places for four.
const ROWS: &str = ".shared .align 16 .b8 s[512]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 16, %r1; st.shared.v2.u32 [%r2], {%t, %t}; st.shared.u32 [%r2+8], %t; bar.warp.sync -1; xor.b32 %r3, %t, 1; mad.lo.u32 %r3, %r3, 16, %r1;
 ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out;";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    // The fourth word: stored, computed with, decided by, as an address; exchanged with other lanes.
    case("W0104", (32, 1), ROWS, "st.global.u32 [%d1], %r7;", "st.global.u32 [%d1], %r6;"),
    case("W0104", (32, 1), ROWS, "add.u32 %r4, %r4, %r7; mul.lo.u32 %r4, %r4, 2; st.global.u32 [%d1], %r4;", "add.u32 %r7, %r4, %r7; mul.lo.u32 %r4, %r4, 2; st.global.u32 [%d1], %r4;"),
    case("W0104", (32, 1), ROWS, "setp.eq.u32 %p1, %r7, 0; @%p1 bra DONE; DONE:", "setp.eq.u32 %p1, %r6, 0; @%p1 bra DONE; DONE:"),
    case("W0104", (32, 1), ROWS, "and.b32 %r8, %r7, %r4; setp.eq.u32 %p1, %r7, %r8; selp.u32 %r8, 1, 2, %p1; @!%p1 st.global.u32 [%d1], %r8;", "mov.u32 %r8, %r7; setp.eq.u32 %p1, %r5, %r6; @!%p1 st.global.u32 [%d1], %r8;"),
    case("W0104", (32, 1), ROWS, "cvt.u64.u32 %d2, %r7; add.u64 %d2, %d2, %out; ld.global.u32 %r8, [%d2];", "cvt.u64.u32 %d2, %r6; shl.b64 %d2, %d2, 2; add.u64 %d2, %d2, %out; ld.global.u32 %r8, [%d2];"),
    case("W0104", (32, 1), ROWS, "shfl.sync.bfly.b32 %r8, %r7, 1, 31, -1; st.global.u32 [%d1], %r8;", "shfl.sync.bfly.b32 %r8, %r7, 1, 31, -1; mov.u32 %r8, %r5; st.global.u32 [%d1], %r8;"),
    case("W0104", (32, 1), ROWS, "red.global.add.u32 [%out], %r7;", "red.global.add.u32 [%out], %r5;"),
    // A tile of which half is there: the rows of the sums that come from the others are not stored.
    case("W0104", (32, 1), TILE, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2]; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, {%r14, %r14}, {%f0, %f1, %f2, %f3}; st.global.v2.f32 [%d2+1024], {%f2, %f3};",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2]; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, {%r14, %r14}, {%f0, %f1, %f2, %f3}; st.global.v2.f32 [%d2+1024], {%f0, %f1};"),
    // The same of B: columns.
    case("W0104", (32, 1), TILE, "and.b32 %r4, %t, 7; mad.lo.u32 %r4, %r4, 64, %r1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4]; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r14, %r14}, {%r10}, {%f0, %f1, %f2, %f3}; st.global.v2.f32 [%d2+1024], {%f0, %f1};",
        "and.b32 %r4, %t, 7; mad.lo.u32 %r4, %r4, 64, %r1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4]; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r14, %r14}, {%r10}, {%f0, %f1, %f2, %f3}; and.b32 %r5, %t, 3; setp.eq.u32 %p2, %r5, 0; @%p2 st.global.v2.f32 [%d2+1024], {%f0, %f1};"),
];

#[test]
fn values_are_followed_to_where_they_matter() {
    super::all(CASES);
    all_right(CASES, 4);
}
