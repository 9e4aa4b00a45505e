//! Asynchronous operations: proxies, copies, `mbarrier`, `wgmma`, `tcgen05`.

use super::{BAR, Case, TILE, case};

/// A tile of zeros for `wgmma`, described in `%d1`, and zeros in the accumulators.
const WGMMA: &str = ".shared .align 128 .b8 tile[4096]; mov.u32 %r2, 0; mov.u32 %r1, tile; shl.b32 %r3, %t, 4; add.u32 %r1, %r1, %r3;
  st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.u32 [%r1+2048], {%r2, %r2, %r2, %r2}; fence.proxy.async; bar.sync 0;
  mov.u64 %d1, 0x0000001000080000; setp.eq.u32 %p2, %r2, 0; mov.b32 %r10, 0; mov.b32 %r11, 0; mov.b32 %r12, 0; mov.b32 %r13, 0;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;";
/// 32 columns of tensor memory at `%r3`.
const TMEM: &str = super::TMEM;

/// A tile at `%r1` and an mbarrier at `%r2` that nobody has initialized; thread 0 has `%p1`.
const FRESH: &str = ".shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0;";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    case("W0401", (64, 1), TILE, "st.shared.u32 [%r1], 1; bar.sync 0; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 64;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "st.shared.u32 [%r1], 1; fence.proxy.async; bar.sync 0; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 64;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"),
    case("W0402", (32, 1), "shl.b32 %r1, %t, 2; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; .shared .align 16 .b8 tile[128];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; ld.shared.u32 %r3, [%r1];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];"),
    // His own copy is complete, but the neighbor's is not known to be.
    case("W0402", (32, 1), "shl.b32 %r1, %t, 2; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; .shared .align 16 .b8 tile[128];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.wait_all; xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2];",
        "cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.wait_all; bar.sync 0; xor.b32 %r2, %r1, 4; ld.shared.u32 %r3, [%r2];"),
    case("W0402", (32, 1), BAR, "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 64, [%r2]; ld.shared.u32 %r3, [%r1];",
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%out], 64, [%r2];
        WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; ld.shared.u32 %r3, [%r1];"),
    case("W0403", (1, 1), BAR, "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; cp.async.bulk.commit_group; st.shared.u32 [%r1], 5;",
        "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16; cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read 0; st.shared.u32 [%r1], 5;"),
    // The async proxy has not seen that the mbarrier is there.
    case("W0415", (32, 1), FRESH, "@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} {WAIT}",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} {WAIT}"),
    case("W0415", (32, 1), FRESH, "@%p1 fence.proxy.async; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} {WAIT}",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.proxy.async.shared::cta; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} {WAIT}"),
    case("W0415", (32, 1), FRESH, "@%p1 mbarrier.init.shared.b64 [bar], 1; fence.acq_rel.gpu; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD}  bar.sync 0; {WAIT}",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} bar.sync 0; {WAIT}"),
    case("W0411", (32, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0;", "@%p1 mbarrier.arrive.shared.b64 _, [bar];",
        "@%p1 mbarrier.init.shared.b64 [bar], 32; bar.sync 0; mbarrier.arrive.shared.b64 _, [bar];"),
    case("W0412", (32, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0;", "mbarrier.init.shared.b64 [bar], 1;",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.inval.shared.b64 [bar]; @%p1 mbarrier.init.shared.b64 [bar], 1;"),
    case("W0413", (32, 1), BAR, "mbarrier.arrive.shared.b64 _, [bar], 2;", "@%p1 mbarrier.arrive.shared.b64 _, [bar], 1;"),
    case("W0414", (1, 1), BAR, "st.shared.u32 [%r2], 0;", "mbarrier.inval.shared.b64 [bar]; st.shared.u32 [%r2], 0;"),
    // `wgmma`: accumulators in flight, a count that waits for too little, fragments of A, a fence that is missing.
    case("W0404", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; add.f32 %f4, %f0, %f1;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; add.f32 %f4, %f0, %f1;").on("sm_90a"),
    case("W0404", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; mov.f32 %f4, %f0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.f32 %f4, %f0;").on("sm_90a"),
    case("W0404", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} mov.f32 %f0, 0f00000000; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.f32 %f0, 0f00000000;").on("sm_90a"),
    case("W0404", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {REGS} wgmma.commit_group.sync.aligned; mov.b32 %r10, 1; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {REGS} wgmma.commit_group.sync.aligned; mov.b32 %r14, %r10; wgmma.wait_group.sync.aligned 0; mov.b32 %r10, 1;").on("sm_90a"),
    case("W0405", (128, 1), WGMMA, "{MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;").on("sm_90a"),
    case("W0405", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mul.f32 %f1, %f1, %f1; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mul.f32 %f1, %f1, %f1;
         wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;").on("sm_90a"),
    // What it reads from shared memory needs a proxy fence, and is not to be overwritten before the wait.
    case("W0401", (128, 1), WGMMA, "st.shared.u32 [%r1], %r2; bar.sync 0; wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "st.shared.u32 [%r1], %r2; fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;").on("sm_90a"),
    case("W0403", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; bar.sync 0; st.shared.u32 [%r1], %r2; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0; st.shared.u32 [%r1], %r2;").on("sm_90a"),
    // A bulk copy that begins before the one behind it has been written: the fence is before the write.
    case("W0401", (1, 1), BAR, "fence.proxy.async; st.shared.v4.u32 [%r1], {1, 2, 3, 4}; {STORE} cp.async.bulk.wait_group 0;",
        "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async; {STORE} cp.async.bulk.wait_group 0;"),
    // Bytes that a copy has brought are read by the next copy: no fence is needed between two of the same proxy.
    case("W0402", (1, 1), BAR, "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; {LOAD} {STORE} cp.async.bulk.wait_group 0;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; {LOAD} WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; {STORE} cp.async.bulk.wait_group 0;"),
    case("W0402", (64, 1), BAR, "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} WAIT: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; ld.shared.u32 %r3, [tile];",
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; ld.shared.u32 %r3, [tile];"),
    // A block that ends before its copies have.
    case("W0407", (1, 1), BAR, "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async; {STORE}",
        "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async; {STORE} cp.async.bulk.wait_group.read 0;"),
    case("W0407", (1, 1), BAR, "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async; {STORE} cp.async.bulk.global.shared::cta.bulk_group [%out+64], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 1;",
        "st.shared.v4.u32 [%r1], {1, 2, 3, 4}; fence.proxy.async; {STORE} cp.async.bulk.global.shared::cta.bulk_group [%out+64], [%r1], 16; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"),
    case("W0407", (1, 1), BAR, "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; {LOAD}",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; {LOAD} WAIT: mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    // mbarriers: after the end of its use, more arrivals than it has, before the barrier behind its beginning.
    case("W0411", (1, 1), BAR, "mbarrier.inval.shared.b64 [bar]; mbarrier.arrive.shared.b64 _, [bar];", "mbarrier.arrive.shared.b64 _, [bar]; mbarrier.inval.shared.b64 [bar];"),
    case("W0411", (64, 1), ".shared .align 128 .b8 tile[128]; .shared .align 8 .b64 bar; mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 32; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster;",
        "@%p2 {LOAD}", "bar.sync 0; @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p2 {LOAD} WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    case("W0413", (1, 1), BAR, "mbarrier.arrive.shared.b64 _, [bar], 2;", "mbarrier.arrive.shared.b64 _, [bar], 1; mbarrier.arrive.shared.b64 _, [bar], 1;"),
    case("W0413", (1, 1), ".shared .align 8 .b64 bar;", "mov.u32 %r1, 0; mbarrier.init.shared.b64 [bar], %r1;", "mov.u32 %r1, 1; mbarrier.init.shared.b64 [bar], %r1;"),
    case("W0413", (1, 1), BAR, "mbarrier.arrive.noComplete.shared.b64 %d1, [bar], 1;", "mbarrier.arrive.shared.b64 %d1, [bar], 1;"),
    // `tcgen05.ld` writes its registers later; who reads them waits.
    case("W0406", (32, 1), TMEM, "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; mov.u32 %r4, 1; tcgen05.wait::ld.sync.aligned; {FREE}",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; add.u32 %r5, %r4, 1; tcgen05.wait::ld.sync.aligned; mov.u32 %r4, 1; {FREE}"),
    case("W0408", (32, 1), TMEM, "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; add.u32 %r5, %r4, 1; {FREE}",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r4}, [%r3]; tcgen05.wait::ld.sync.aligned; add.u32 %r5, %r4, 1; {FREE}"),
];

#[test]
fn each_has_a_kernel_and_a_corrected_one() {
    super::all(CASES);
}
