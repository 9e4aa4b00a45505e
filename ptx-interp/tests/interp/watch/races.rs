//! Accesses that nothing orders.

use super::{Case, TILE, case};

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("W0201", (64, 1), TILE, "st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r2];",
        "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r3, [%r2];"),
    case("W0201", (32, 1), TILE, "st.shared.u32 [%r1], 1; ld.shared.u32 %r3, [%r2];",
        "st.shared.u32 [%r1], 1; bar.warp.sync -1; ld.shared.u32 %r3, [%r2];"),
    // The barrier before the tile is written again is missing.
    case("W0201", (64, 1), TILE, "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r1], 2;",
        "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r3, [%r2]; bar.sync 0; st.shared.u32 [%r1], 2;"),
    // Neighbors that write the bytes of one word are no race.
    case("W0201", (64, 1), ".shared .align 4 .b8 b[64]; mov.u32 %r1, b; add.u32 %r1, %r1, %t; mov.b16 %h1, 1;",
        "and.b32 %r1, %r1, 62; st.shared.u8 [%r1], %h1;", "st.shared.u8 [%r1], %h1;"),
    case("W0202", (32, 2), "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out;",
        "ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1;", "red.global.add.u32 [%d1], 1;"),
    // A flag: without release and acquire the data behind it is not ordered.
    case("W0202", (1, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;",
        "st.global.u32 [%out], 7; st.relaxed.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.relaxed.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ; ld.global.u32 %r3, [%out];",
        "st.global.u32 [%out], 7; st.release.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.acquire.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ; ld.global.u32 %r3, [%out];"),
    // The same with fences.
    case("W0202", (1, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;",
        "st.global.u32 [%out], 7; fence.acq_rel.cta; st.relaxed.cta.global.u32 [%out+4], 1; ret;
         READ: ld.relaxed.gpu.global.u32 %r2, [%out+8]; ld.global.u32 %r3, [%out];",
        "st.global.u32 [%out], 7; fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.relaxed.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ;
         fence.acq_rel.gpu; ld.global.u32 %r3, [%out];"),
    case("W0203", (1, 2), "", "red.relaxed.cta.global.add.u32 [%out], 1;", "red.relaxed.gpu.global.add.u32 [%out], 1;"),
    // The first use of an mbarrier needs an order, too.
    case("W0201", (64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64;",
        "mbarrier.arrive.shared.b64 _, [bar];", "bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];"),
    // One block is not the other: `bar.sync` orders nothing between them.
    case("W0202", (32, 2), "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 128;",
        "st.global.u32 [%d1], 1; bar.sync 0;", "add.u64 %d1, %d1, %d2; st.global.u32 [%d1], 1;"),
    // A plain write and an atomic one.
    case("W0202", (64, 1), "setp.eq.u32 %p1, %t, 40;", "red.global.add.u32 [%out], 1; @%p1 st.global.u32 [%out], 0;",
        "red.global.add.u32 [%out], 1; bar.sync 0; @%p1 st.global.u32 [%out], 0;"),
    // What one lane of a warp reads while another writes it, in one instruction stream.
    case("W0201", (32, 1), TILE, "st.shared.u32 [%r1], 1; bar.warp.sync -1; ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r1], 2;",
        "st.shared.u32 [%r1], 1; bar.warp.sync -1; ld.shared.u32 %r3, [%r2]; bar.warp.sync -1; st.shared.u32 [%r1], 2;"),
    // A flag whose scope is the block's, between blocks.
    case("W0202", (1, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;",
        "st.global.u32 [%out], 7; st.release.cta.global.u32 [%out+4], 1; ret;
         READ: ld.acquire.gpu.global.u32 %r2, [%out+8]; ld.global.u32 %r3, [%out];",
        "st.global.u32 [%out], 7; st.release.gpu.global.u32 [%out+4], 1; ret;
         READ: ld.acquire.gpu.global.u32 %r2, [%out+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra READ; ld.global.u32 %r3, [%out];"),
    // Three warps: the barrier is for two of them.
    case("W0201", (96, 1), TILE, "setp.ge.u32 %p2, %t, 64; st.shared.u32 [%r1], 1; @!%p2 bar.sync 1, 64;
         add.u32 %r3, %r1, 128; setp.lt.u32 %p3, %t, 64; @%p3 ld.shared.u32 %r4, [%r3];",
        "setp.ge.u32 %p2, %t, 64; st.shared.u32 [%r1], 1; bar.sync 1, 96;
         add.u32 %r3, %r1, 128; setp.lt.u32 %p3, %t, 64; @%p3 ld.shared.u32 %r4, [%r3];"),
];

#[test]
fn each_has_a_kernel_and_a_corrected_one() {
    super::all(CASES);
}
