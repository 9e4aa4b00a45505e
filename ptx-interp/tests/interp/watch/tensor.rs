//! Tensor memory: who may use it when.

use super::{Case, case};

/// Four warps and 32 columns of tensor memory: `%r3` is its address, `%r4` the lanes of this warp; `%p1` is thread 0, `%p2` the
/// first warp, `%p3` false, `%p4` true. Zeros for `tcgen05.mma` at `%d1`, its descriptor in `%r5`: 128 rows, 8 columns, 16 elements
/// each. `bar` is an mbarrier for one arrival, `done` one for 128.
const PRODUCT: &str = ".shared .align 128 .b8 tile[4096]; .shared .align 4 .u32 slot; .shared .align 8 .b64 bar; .shared .align 8 .b64 done; .reg .pred %q<4>;
 setp.eq.u32 %p1, %t, 0; setp.lt.u32 %p2, %t, 32; setp.ne.u32 %p3, %t, %t; setp.eq.u32 %p4, %t, %t; mov.u32 %r2, 0; mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1;
 st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.u32 [%r1+2048], {%r2, %r2, %r2, %r2}; fence.proxy.async;
 @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.init.shared.b64 [done], 128; @!%p2 bra ALLOCATED; {ALLOC} ALLOCATED: bar.sync 0; ld.shared.u32 %r3, [slot];
 and.b32 %r4, %t, 96; shl.b32 %r4, %r4, 16; add.u32 %r4, %r4, %r3; mov.u64 %d1, 0x0000401000080000; mov.u32 %r5, 0x08020010;";
/// The same for two blocks that work together; `%p5` is the first of them.
const PAIR: &str = ".shared .align 128 .b8 tile[4096]; .shared .align 4 .u32 slot; .shared .align 8 .b64 bar; .shared .align 8 .b64 done; .reg .pred %q<4>; mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p5, %r0, 0;
 setp.eq.u32 %p1, %t, 0; setp.lt.u32 %p2, %t, 32; setp.ne.u32 %p3, %t, %t; setp.eq.u32 %p4, %t, %t; mov.u32 %r2, 0; mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1;
 st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.u32 [%r1+2048], {%r2, %r2, %r2, %r2}; fence.proxy.async;
 @%p1 mbarrier.init.shared.b64 [bar], 1; @!%p2 bra ALLOCATED; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32; ALLOCATED: bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %r3, [slot];
 and.b32 %r4, %t, 96; shl.b32 %r4, %r4, 16; add.u32 %r4, %r4, %r3; mov.u64 %d1, 0x0000401000080000; mov.u32 %r5, 0x10040010; mov.b16 %h1, 3;";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    // Sums that are read before the product is complete: no commit, no wait, the wait of a phase that is over.
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} bar.sync 0; {GET} {END}", "@%p1 {MUL} @%p1 {COMMIT} {WAIT} {AFTER} {GET} {END}"),
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} @%p1 {COMMIT} bar.sync 0; {AFTER} {GET} {WAIT} {END}", "@%p1 {MUL} @%p1 {COMMIT} {WAIT} bar.sync 0; {AFTER} {GET} {END}"),
    case("W0408", (128, 1), PRODUCT, "@%p1 {COMMIT} @%p1 {MUL} {WAIT} {AFTER} {GET} {END}", "@%p1 {MUL} @%p1 {COMMIT} {WAIT} {AFTER} {GET} {END}"),
    case("W0408", (128, 1), PRODUCT, "setp.eq.u32 %p6, %t, 96; @%p6 {MUL} @%p6 {COMMIT} OTHER: mbarrier.try_wait.parity.shared.b64 %q1, [bar], 1; @!%q1 bra OTHER; {AFTER} {GET} {WAIT} {END}",
        "setp.eq.u32 %p6, %t, 96; @%p6 {MUL} @%p6 {COMMIT} OTHER: mbarrier.try_wait.parity.shared.b64 %q1, [bar], 0; @!%q1 bra OTHER; {AFTER} {GET} {WAIT} {END}"),
    // A wait that is relaxed orders execution only: the fence makes it order tensor memory.
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} @%p1 {COMMIT} {RELAXED} {GET} {END}", "@%p1 {MUL} @%p1 {COMMIT} {RELAXED} {AFTER} {GET} {END}"),
    // Stores and loads that nobody has waited for.
    case("W0408", (128, 1), PRODUCT, "{PUT} {GET} {END}", "{PUT} {STORED} {GET} {END}"),
    case("W0408", (128, 1), PRODUCT, "{PUT} {BEFORE} bar.sync 0; {AFTER} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}", "{PUT} {STORED} {BEFORE} bar.sync 0; {AFTER} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}"),
    case("W0408", (128, 1), PRODUCT, "{PUT} {STORED} bar.sync 0; {PUT} {STORED} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}", "{PUT} {STORED} {BEFORE} bar.sync 0; {AFTER} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}"),
    case("W0408", (128, 1), PRODUCT, "{PUT} {STORED} {LOAD_ONLY} {BEFORE} bar.sync 0; {AFTER} @%p1 {MUL} @%p1 {COMMIT} {WAIT} tcgen05.wait::ld.sync.aligned; {END}",
        "{PUT} {STORED} {LOAD_ONLY} tcgen05.wait::ld.sync.aligned; {BEFORE} bar.sync 0; {AFTER} @%p1 {MUL} @%p1 {COMMIT} {WAIT} {END}"),
    case("W0408", (128, 1), PRODUCT, "{PUT} {PUT2} {STORED} {END}", "{PUT} {STORED} {PUT2} {STORED} {END}"),
    // An arrival that is relaxed carries nothing without the fence before it.
    case("W0408", (128, 1), PRODUCT, "{PUT} {STORED} mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [done]; {RELAXED_DONE} {AFTER} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}",
        "{PUT} {STORED} {BEFORE} mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [done]; {RELAXED_DONE} {AFTER} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}"),
    // The sums are overwritten while the epilogue still reads them: it arrives before its loads are complete.
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} @%p1 {COMMIT} {WAIT} {AFTER} {LOAD_ONLY} mbarrier.arrive.shared.b64 _, [done]; {ALL_DONE} @%p1 {MUL} @%p1 {COMMIT} tcgen05.wait::ld.sync.aligned; {WAIT_AGAIN} {END}",
        "@%p1 {MUL} @%p1 {COMMIT} {WAIT} {AFTER} {LOAD_ONLY} tcgen05.wait::ld.sync.aligned; {BEFORE} mbarrier.arrive.shared.b64 _, [done]; {ALL_DONE} {AFTER} @%p1 {MUL} @%p1 {COMMIT} {WAIT_AGAIN} {END}"),
    // The epilogue does not say that it is done.
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} @%p1 {COMMIT} {WAIT} bar.sync 0; {AFTER} {GET} @%p1 {MUL} @%p1 {COMMIT} {WAIT_AGAIN} {END}",
        "@%p1 {MUL} @%p1 {COMMIT} {WAIT} {AFTER} {GET} {BEFORE} bar.sync 0; {AFTER} @%p1 {MUL} @%p1 {COMMIT} {WAIT_AGAIN} {END}"),
    // A copy, and a product of another thread: the fences around the barrier make them a pipeline.
    case("W0408", (128, 1), PRODUCT, "setp.eq.u32 %p6, %t, 64; {PUT} {STORED} bar.sync 0; @%p1 tcgen05.cp.cta_group::1.128x128b [%r3], %d1; bar.sync 0; @%p6 {ADD} @%p6 {COMMIT} {WAIT} {END}",
        "setp.eq.u32 %p6, %t, 64; {PUT} {STORED} bar.sync 0; @%p1 tcgen05.cp.cta_group::1.128x128b [%r3], %d1; {BEFORE} bar.sync 0; {AFTER} @%p6 {ADD} @%p6 {COMMIT} {WAIT} {END}"),
    // A product and then a copy of one thread are no pipeline.
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} @%p1 tcgen05.cp.cta_group::1.128x128b [%r3], %d1; @%p1 {COMMIT} {WAIT} {END}",
        "@%p1 {MUL} @%p1 {MUL} @%p1 {COMMIT} {WAIT} bar.sync 0; {AFTER} @%p1 tcgen05.cp.cta_group::1.128x128b [%r3], %d1; @%p1 {COMMIT} {WAIT_AGAIN} {END}"),
    // Columns are given back while a product writes them, or while other warps read them.
    case("W0408", (128, 1), PRODUCT, "@%p1 {MUL} bar.sync 0; @!%p2 bra DONE; {FREE} DONE:", "@%p1 {MUL} @%p1 {COMMIT} {WAIT} bar.sync 0; @!%p2 bra DONE; {FREE} DONE:"),
    case("W0408", (128, 1), PRODUCT, "{PUT} {STORED} bar.sync 0; setp.ge.u32 %p6, %t, 96; @!%p2 bra LATE; {GET} bra DONE; LATE: @!%p6 bra DONE; {FREE} DONE:", "{PUT} {STORED} bar.sync 0; setp.ge.u32 %p6, %t, 96; @!%p2 bra LATE; {GET} LATE: bar.sync 0; @!%p6 bra DONE; {FREE} DONE:"),
    // An address that was found before it was there: the columns are those of a barrier later.
    case("W0408", (128, 1), ".shared .align 4 .u32 slot; setp.lt.u32 %p2, %t, 32; and.b32 %r4, %t, 96; shl.b32 %r4, %r4, 16; mov.u32 %r2, 0; mov.u32 %r3, 0;",
        "@!%p2 bra ALLOCATED; {ALLOC} ALLOCATED: {PUT} {STORED} bar.sync 0; @!%p2 bra OUT; {FREE} OUT:", "@!%p2 bra ALLOCATED; {ALLOC} ALLOCATED: bar.sync 0; {PUT} {STORED} bar.sync 0; @!%p2 bra OUT; {FREE} OUT:"),
    // Sums and factors that begin with what was there.
    case("W0104", (128, 1), PRODUCT, "@%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}", "@%p1 {MUL} @%p1 {ADD} @%p1 {COMMIT} {WAIT} {END}"),
    case("W0104", (128, 1), PRODUCT, "add.u32 %r6, %r3, 16; @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r3], [%r6], %d1, %r5, %p3; @%p1 {COMMIT} {WAIT} {END}",
        "add.u32 %r6, %r3, 16; add.u32 %r4, %r4, 16; {PUT} {STORED} {BEFORE} bar.sync 0; {AFTER} @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r3], [%r6], %d1, %r5, %p3; @%p1 {COMMIT} {WAIT} {END}"),
    // Two blocks: the second one must be told, too; and not give its columns back before.
    case("W0408", (128, 2), PAIR, "@!%p5 bra READ; @%p1 {MUL2} @%p1 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar]; {WAIT} READ: barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; {AFTER} {GET} {END2}",
        "@!%p5 bra READ; @%p1 {MUL2} @%p1 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [bar], %h1; READ: {WAIT} {AFTER} {GET} {END2}").clusters(2),
    case("W0408", (128, 2), ".shared .align 4 .u32 slot; setp.lt.u32 %p2, %t, 32; @!%p2 bra ALLOCATED; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32; ALLOCATED: bar.sync 0; ld.shared.u32 %r3, [slot];",
        "@!%p2 bra OUT; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 32; OUT:", "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p2 bra OUT; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 32; OUT:").clusters(2),
    case("W0408", (128, 2), PAIR, "@!%p5 bra FREED; @%p1 {MUL2} @%p1 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar]; {WAIT} FREED: bar.sync 0; @!%p2 bra OUT; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 32; OUT: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "@!%p5 bra FREED; @%p1 {MUL2} @%p1 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar]; {WAIT} FREED: {END2}").clusters(2),
];

#[test]
fn each_has_a_kernel_and_a_corrected_one() {
    super::all(CASES);
}
