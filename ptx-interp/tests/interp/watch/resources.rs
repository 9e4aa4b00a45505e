//! Registers and tensor memory that a block must give back.

use super::{Case, case};

/// 32 columns of tensor memory at `%r3`.
const TMEM: &str = super::TMEM;

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("W0501", (32, 1), TMEM, "", "{FREE}"),
    case("W0503", (32, 1), TMEM, "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3+64]; tcgen05.wait::ld.sync.aligned; {FREE}",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3+31]; tcgen05.wait::ld.sync.aligned; {FREE}"),
    case("W0503", (32, 1), TMEM, "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;", "{FREE}"),
    case("W0503", (32, 1), TMEM, "{FREE} tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; tcgen05.wait::ld.sync.aligned;",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; tcgen05.wait::ld.sync.aligned; {FREE}"),
    case("W0503", (64, 1), ".shared .align 4 .u32 slot; setp.lt.u32 %p1, %t, 32; @!%p1 bra ALLOCATED; {ALLOC} ALLOCATED: bar.sync 0; ld.shared.u32 %r3, [slot];",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; tcgen05.wait::ld.sync.aligned; bar.sync 0; @!%p1 bra DONE; {FREE} DONE:",
        "and.b32 %r5, %t, 32; shl.b32 %r5, %r5, 16; add.u32 %r5, %r5, %r3; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r5]; tcgen05.wait::ld.sync.aligned; bar.sync 0; @!%p1 bra DONE; {FREE} DONE:"),
    case("W0504", (32, 1), TMEM, "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {ALLOC}", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {FREE}"),
    case("W0504", (32, 1), ".shared .align 4 .u32 slot; mov.u32 %r1, 48;", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], %r1;",
        "mov.u32 %r1, 64; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], %r1; ld.shared.u32 %r3, [slot]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, %r1;"),
];

#[test]
fn each_has_a_kernel_and_a_corrected_one() {
    super::all(CASES);
}
