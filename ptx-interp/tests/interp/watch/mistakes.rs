//! The mistakes that people make in kernels for Ampere, Hopper and Blackwell, each in the shape in which it is made, and its cure.

use super::{BAR, Case, TILE, case};

/// A ring of two stages at `s`, with mbarriers at `full` and `empty` for 1 and 32 arrivals; warp 0 fills, warp 1 consumes.
/// `%r3` counts turns, `%p2` is the consumer, `%p1` thread 0.
const RING: &str = ".shared .align 128 .b8 s[256]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16]; setp.eq.u32 %p1, %t, 0;
 @!%p1 bra BEGUN; mov.u32 %r1, full; mov.u32 %r2, empty; mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 1; mbarrier.init.shared.b64 [%r2], 32; mbarrier.init.shared.b64 [%r2+8], 32; fence.mbarrier_init.release.cluster;
 BEGUN: bar.sync 0; mov.u32 %r3, 0; setp.ge.u32 %p2, %t, 32;";
/// A pair of blocks; the other block's `x` at `%r2`, its `bar` at `%r4`; thread 0 has `%p1`, block 0 `%p5`.
const PAIR: &str = ".shared .align 128 .b8 x[128]; .shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p5, %r0, 0;
 xor.b32 %r1, %r0, 1; mov.u32 %r2, x; mapa.shared::cluster.u32 %r2, %r2, %r1; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r1; mov.u32 %r5, x; mov.u32 %r6, bar; mov.b16 %h1, 3; mov.u32 %r7, 0;";
/// A tile of zeros for `wgmma`, described in `%d1`, and zeros in the accumulators.
const WGMMA: &str = ".shared .align 128 .b8 tile[8192]; mov.u32 %r2, 0; mov.u32 %r1, tile; shl.b32 %r3, %t, 4; add.u32 %r1, %r1, %r3;
  st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.u32 [%r1+4096], {%r2, %r2, %r2, %r2}; fence.proxy.async; bar.sync 0;
  mov.u64 %d1, 0x0000001000080000; setp.eq.u32 %p2, %r2, 0; setp.eq.u32 %p1, %t, 0; mov.u32 %r5, tile; .shared .align 8 .b64 bar; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
  mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000;";

#[rustfmt::skip]
pub(super) const CASES: &[Case] = &[
    // The producer's first wait must be for the phase before the first: parity 1.
    case("W0303", (64, 1), RING,
        "@%p2 bra CONSUME; @!%p1 exit; FREE: mbarrier.try_wait.parity.shared.b64 %p3, [empty], 0; @!%p3 bra FREE;
         mbarrier.arrive.expect_tx.shared.b64 _, [full], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%out], 128, [full]; ret;
         CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra CONSUME; mbarrier.arrive.shared.b64 _, [empty];",
        "@%p2 bra CONSUME; @!%p1 exit; FREE: mbarrier.try_wait.parity.shared.b64 %p3, [empty], 1; @!%p3 bra FREE;
         mbarrier.arrive.expect_tx.shared.b64 _, [full], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%out], 128, [full]; ret;
         CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra CONSUME; mbarrier.arrive.shared.b64 _, [empty];"),
    // The consumer does not turn the parity over: its second wait passes at once.
    case("W0201", (64, 1), RING,
        "@%p2 bra CONSUME; @!%p1 exit;
         FILL: mbarrier.arrive.expect_tx.shared.b64 _, [full], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%out], 128, [full];
         FREE: mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r3; @!%p3 bra FREE; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra FILL; ret;
         CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra CONSUME; mov.u32 %r7, s; ld.shared.u32 %r8, [%r7]; mbarrier.arrive.shared.b64 _, [empty]; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra CONSUME;",
        "@%p2 bra CONSUME; @!%p1 exit;
         FILL: mbarrier.arrive.expect_tx.shared.b64 _, [full], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%out], 128, [full];
         FREE: mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r3; @!%p3 bra FREE; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra FILL; ret;
         CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [full], %r3; @!%p3 bra CONSUME; mov.u32 %r7, s; ld.shared.u32 %r8, [%r7]; mbarrier.arrive.shared.b64 _, [empty]; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra CONSUME;"),
    // Bytes of two operands are announced, one is loaded.
    case("W0303", (1, 1), BAR,
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32; {LOAD} WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32; {LOAD} cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+16], [%out], 16, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    // Every thread announces what one thread loads.
    case("W0413", (64, 1), BAR, "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16; @%p1 {LOAD} WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;"),
    // One thread of each warp arrives at a barrier that counts threads.
    case("W0303", (64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; and.b32 %r1, %t, 31; setp.eq.u32 %p2, %r1, 0;",
        "@%p2 mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;",
        "mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;"),
    // A stage is given back twice: the producer fills it while somebody reads it.
    case("W0201", (64, 1), RING,
        "@%p2 bra CONSUME; @!%p1 exit;
         FILL: mbarrier.arrive.expect_tx.shared.b64 _, [full], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%out], 128, [full];
         FREE: mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r3; @!%p3 bra FREE; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra FILL; ret;
         CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra CONSUME; mbarrier.arrive.shared.b64 _, [empty]; mov.u32 %r7, s; ld.shared.u32 %r8, [%r7]; mbarrier.arrive.shared.b64 _, [empty];
         LAST: mbarrier.try_wait.parity.shared.b64 %p3, [full], 1; @!%p3 bra LAST;",
        "@%p2 bra CONSUME; @!%p1 exit;
         FILL: mbarrier.arrive.expect_tx.shared.b64 _, [full], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%out], 128, [full];
         FREE: mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r3; @!%p3 bra FREE; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra FILL; ret;
         CONSUME: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra CONSUME; mov.u32 %r7, s; ld.shared.u32 %r8, [%r7]; mbarrier.arrive.shared.b64 _, [empty];
         LAST: mbarrier.try_wait.parity.shared.b64 %p3, [full], 1; @!%p3 bra LAST; mbarrier.arrive.shared.b64 _, [empty];"),
    // A stage is used again while the store of it still reads.
    case("W0403", (32, 1), TILE, "st.shared.u32 [%r1], 1; fence.proxy.async; bar.warp.sync -1; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; @%p1 cp.async.bulk.commit_group; bar.warp.sync -1; st.shared.u32 [%r1], 2; @%p1 cp.async.bulk.wait_group 0;",
        "st.shared.u32 [%r1], 1; fence.proxy.async; bar.warp.sync -1; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0; bar.warp.sync -1; st.shared.u32 [%r1], 2;"),
    // All wait for the store, but only its thread has committed anything.
    case("W0403", (32, 1), TILE, "st.shared.u32 [%r1], 1; fence.proxy.async; bar.warp.sync -1; mov.u32 %r3, tile; setp.eq.u32 %p2, %t, 1;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; @%p1 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group.read 0; bar.warp.sync -1; st.shared.u32 [%r1], 2; @%p1 cp.async.bulk.wait_group 0;",
        "st.shared.u32 [%r1], 1; fence.proxy.async; bar.warp.sync -1; mov.u32 %r3, tile;
        @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128; @%p1 cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; bar.warp.sync -1; st.shared.u32 [%r1], 2;"),
    // The last turn of a loop over `cp.async` groups still leaves one open.
    case("W0402", (32, 1), TILE, "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; cp.async.ca.shared.global [%r1+512], [%d1], 4; cp.async.commit_group;
        cp.async.wait_group 1; ld.shared.u32 %r3, [%r1]; cp.async.wait_group 1; ld.shared.u32 %r3, [%r1+512];",
        "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; cp.async.ca.shared.global [%r1+512], [%d1], 4; cp.async.commit_group;
        cp.async.wait_group 1; ld.shared.u32 %r3, [%r1]; cp.async.wait_group 0; ld.shared.u32 %r3, [%r1+512];"),
    // A wait without a commit waits for nothing.
    case("W0402", (32, 1), TILE, "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];",
        "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; cp.async.ca.shared.global [%r1], [%d1], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r3, [%r1];"),
    // An elected thread writes, the others read at once.
    case("W0201", (32, 1), ".shared .align 4 .u32 x;", "elect.sync %r1|%p1, -1; @%p1 st.shared.u32 [x], 7; ld.shared.u32 %r2, [x];",
        "elect.sync %r1|%p1, -1; @%p1 st.shared.u32 [x], 7; bar.warp.sync -1; ld.shared.u32 %r2, [x];"),
    // A barrier of 128 threads that only 96 reach; and one that is full too early.
    case("W0303", (128, 1), TILE, "setp.ge.u32 %p2, %t, 96; @%p2 exit; st.shared.u32 [%r1], 1; bar.sync 1, 128; ld.shared.u32 %r3, [%r2];",
        "setp.ge.u32 %p2, %t, 96; @%p2 exit; st.shared.u32 [%r1], 1; bar.sync 1, 96; ld.shared.u32 %r3, [%r2];"),
    case("W0201", (128, 1), TILE, "st.shared.u32 [%r1], 1; bar.sync 1, 64; xor.b32 %r2, %r1, 256; ld.shared.u32 %r3, [%r2];",
        "st.shared.u32 [%r1], 1; bar.sync 1, 128; xor.b32 %r2, %r1, 256; ld.shared.u32 %r3, [%r2];"),
    // A barrier inside of a branch that half of the block takes.
    case("W0303", (64, 1), "setp.lt.u32 %p1, %t, 32; .shared .align 8 .b64 bar;", "@!%p1 bra DONE; bar.sync 0; bar.sync 1, 64; DONE: bar.sync 0;", "@!%p1 bra DONE; bar.sync 1, 32; DONE: bar.sync 0;"),
    // Writes of all warps go out by TMA, but the fence is in the thread that stores.
    case("W0401", (64, 1), TILE, "st.shared.u32 [%r1], 1; bar.sync 0; mov.u32 %r3, tile; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128;
        @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
        "st.shared.u32 [%r1], 1; fence.proxy.async.shared::cta; bar.sync 0; mov.u32 %r3, tile; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out], [%r3], 128;
        @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"),
    // The other block's mbarrier may not be initialized.
    case("W0108", (32, 2), PAIR, "@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;").clusters(2),
    // A relaxed arrival at the cluster's barrier needs the fence of the initialization.
    case("W0201", (32, 2), PAIR, "@%p1 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; bar.sync 0; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;").clusters(2),
    // A block ends while the other may still arrive at its mbarrier, or write to it.
    case("W0108", (32, 2), PAIR, "@%p1 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p5 exit; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p5 bra DONE; @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];
         DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    case("W0108", (32, 2), PAIR, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p5 exit; mad.lo.u32 %r2, %t, 4, %r2; st.shared::cluster.u32 [%r2], 1;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p5 bra DONE; mad.lo.u32 %r2, %t, 4, %r2; st.shared::cluster.u32 [%r2], 1; DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // Multicast data: each block must wait at its own barrier, not for the block that sent it.
    case("W0402", (32, 2), PAIR, "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p5 bra SENT;
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%out], 64, [%r6], %h1; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
         SENT: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %r8, [x];",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p5 bra SENT;
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%out], 64, [%r6], %h1;
         SENT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra SENT; ld.shared.u32 %r8, [x]; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // A multicast for which the other block has announced nothing: it never learns of the bytes.
    case("W0407", (32, 2), PAIR, "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p5 bra SENT; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%out], 64, [%r6], %h1; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
         SENT: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "@%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @!%p5 bra SENT;
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%out], 64, [%r6], %h1;
         SENT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra SENT; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // Registers of `wgmma` are scaled without a new fence; the wait leaves a group open; its tile is filled again too early.
    case("W0405", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mul.f32 %f0, %f0, %f0; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mul.f32 %f0, %f0, %f0; wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;").on("sm_90a"),
    case("W0404", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; st.global.f32 [%out], %f0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; @%p1 st.global.f32 [%out], %f0;").on("sm_90a"),
    case("W0403", (128, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%out], 16, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT; wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%out], 16, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;").on("sm_90a"),
    // The epilogue's tile lies over a stage that the other warpgroup still multiplies.
    case("W0403", (256, 1), WGMMA, "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; bar.sync 0; setp.ge.u32 %p4, %t, 128; @%p4 bra LATE; wgmma.wait_group.sync.aligned 0; st.shared.u32 [%r1], %r2; LATE: wgmma.wait_group.sync.aligned 0;",
        "wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; setp.ge.u32 %p4, %t, 128; wgmma.wait_group.sync.aligned 0; bar.sync 0; @%p4 bra LATE; st.shared.u32 [%r1], %r2; LATE:").on("sm_90a"),
    // The blocks of a split sum hand over by a semaphore, without a fence.
    case("W0202", (32, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p5, %r1, 0; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out;",
        "@%p5 bra ADD; @!%p1 bra ON; WAIT: ld.relaxed.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p2, %r2, 1; @%p2 bra WAIT; ON: bar.sync 0; ADD: ld.global.u32 %r3, [%d1+128]; add.u32 %r3, %r3, 1; st.global.u32 [%d1+128], %r3; bar.sync 0; @%p1 red.relaxed.gpu.global.add.u32 [%out], 1;",
        "@%p5 bra ADD; @!%p1 bra ON; WAIT: ld.acquire.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p2, %r2, 1; @%p2 bra WAIT; ON: bar.sync 0; ADD: ld.global.u32 %r3, [%d1+128]; add.u32 %r3, %r3, 1; st.global.u32 [%d1+128], %r3; bar.sync 0; @%p1 red.release.gpu.global.add.u32 [%out], 1;"),
    // The fence is there, but before the barrier that gathers the other threads' writes it is only one thread's.
    case("W0202", (64, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p5, %r1, 0; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out;",
        "@!%p5 bra READ; st.global.u32 [%d1+256], %t; @%p1 fence.acq_rel.gpu; @%p1 st.relaxed.gpu.global.u32 [%out], 1; ret;
         READ: @!%p1 bra ON; WAIT: ld.acquire.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p2, %r2, 1; @%p2 bra WAIT; ON: bar.sync 0; ld.global.u32 %r3, [%d1+256];",
        "@!%p5 bra READ; st.global.u32 [%d1+256], %t; bar.sync 0; @%p1 fence.acq_rel.gpu; @%p1 st.relaxed.gpu.global.u32 [%out], 1; ret;
         READ: @!%p1 bra ON; WAIT: ld.acquire.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p2, %r2, 1; @%p2 bra WAIT; ON: bar.sync 0; ld.global.u32 %r3, [%d1+256];"),
    // Rows of `ldmatrix` begin at multiples of 16 bytes.
    case("W0102", (32, 1), ".shared .align 128 .b8 s[1024]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 16, %r1; st.shared.v4.u32 [%r2], {%t, %t, %t, %t}; bar.warp.sync -1; and.b32 %r4, %t, 7;",
        "mad.lo.u32 %r3, %r4, 24, %r1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r3];", "mad.lo.u32 %r3, %r4, 16, %r1; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r3];"),
    // Masks: a lane that comes is not named; one that is named never comes.
    case("W0307", (32, 1), "setp.lt.u32 %p1, %t, 16;", "shfl.sync.bfly.b32 %r1, %t, 1, 31, 0xffff;", "@%p1 shfl.sync.bfly.b32 %r1, %t, 1, 31, 0xffff;"),
    case("W0303", (32, 1), "setp.lt.u32 %p1, %t, 16;", "@!%p1 bra DONE; shfl.sync.bfly.b32 %r1, %t, 1, 31, -1; DONE: bar.sync 0;", "@!%p1 bra DONE; shfl.sync.bfly.b32 %r1, %t, 1, 31, 0xffff; DONE: bar.sync 0;"),
    case("W0307", (32, 1), "setp.lt.u32 %p1, %t, 16;", "vote.sync.ballot.b32 %r1, %p1, 0xff;", "vote.sync.ballot.b32 %r1, %p1, -1;"),
    case("W0303", (64, 1), "setp.lt.u32 %p1, %t, 16;", "@!%p1 bra DONE; vote.sync.any.pred %p2, %p1, -1; DONE: bar.sync 0;", "@!%p1 bra DONE; vote.sync.any.pred %p2, %p1, 0xffff; DONE: bar.sync 0;"),
    // `elect.sync` of the whole warp where only half of it is.
    case("W0303", (32, 1), "setp.lt.u32 %p1, %t, 16;", "@!%p1 bra DONE; elect.sync %r1|%p2, -1; @%p2 st.global.u32 [%out], 1; DONE: bar.sync 0;", "elect.sync %r1|%p2, -1; @%p2 st.global.u32 [%out], 1; bar.sync 0;"),
    // Tensor memory: an early return keeps it; an address from before the barrier is none.
    case("W0501", (64, 1), ".shared .align 4 .u32 slot; setp.lt.u32 %p1, %t, 32; @!%p1 bra ALLOCATED; {ALLOC} ALLOCATED: bar.sync 0; ld.shared.u32 %r3, [slot]; ld.global.u32 %r5, [%out]; setp.eq.u32 %p2, %r5, 0;",
        "@%p2 bra DONE; bar.sync 0; @!%p1 bra DONE; {FREE} DONE:", "@%p2 bra LAST; bar.sync 0; LAST: @!%p1 bra DONE; {FREE} DONE:"),
    case("W0201", (64, 1), ".shared .align 4 .u32 slot; setp.lt.u32 %p1, %t, 32; @!%p1 bra ALLOCATED; {ALLOC} ALLOCATED:",
        "ld.shared.u32 %r3, [slot]; bar.sync 0; @!%p1 bra DONE; {FREE} DONE:", "bar.sync 0; ld.shared.u32 %r3, [slot]; @!%p1 bra DONE; {FREE} DONE:"),
    // mbarriers: ended while a thread waits, begun again, arrived at before the phase that it means.
    case("W0412", (64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0; setp.lt.u32 %p2, %t, 32;",
        "@!%p2 bra WAIT; bar.warp.sync -1; @!%p1 exit; mov.u32 %r1, 0; BUSY: add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 20000; @%p3 bra BUSY; mbarrier.inval.shared.b64 [bar]; ret; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT;",
        "@!%p2 bra WAIT; @%p1 mbarrier.arrive.shared.b64 _, [bar]; bar.sync 0; @%p1 mbarrier.inval.shared.b64 [bar]; ret; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT; bar.sync 0;"),
    // Invalidated before everybody has seen the phase.
    case("W0411", (64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;",
        "@%p1 mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT; @%p1 mbarrier.inval.shared.b64 [bar];",
        "@%p1 mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0; @!%p3 bra WAIT; bar.sync 0; @%p1 mbarrier.inval.shared.b64 [bar];"),
    // Annotations: of all threads that come to an instruction, of those that go on behind another, and of every turn.
    case("W0801", (64, 1), "",
        ".pragma \"assume %t < 63\"; mov.u32 %r1, 1;",
        ".pragma \"assume %t < 64\"; mov.u32 %r1, 1;"),
    case("W0801", (64, 1), "setp.lt.u32 %p1, %t, 32;",
        "@%p1 bra SIDE; .pragma \"assume %t > 32\"; SIDE: mov.u32 %r1, 1;",
        "@%p1 bra SIDE; .pragma \"assume %t >= 32\"; SIDE: mov.u32 %r1, 1;"),
    case("W0801", (64, 1), "setp.lt.u32 %p1, %t, 32;",
        "@!%p1 mov.u32 %r1, 5; @%p1 mov.u32 %r1, 6; .pragma \"assume %r1 == 5\"; SIDE: mov.u32 %r2, 1;",
        "@!%p1 mov.u32 %r1, 5; @%p1 mov.u32 %r1, 6; .pragma \"assume %r1 == 5 + (32 / (%t + 1) + 31) / 32\"; SIDE: mov.u32 %r2, 1;"),
    case("W0801", (32, 1), "mov.u32 %r1, 0;",
        "LOOP: .pragma \"invariant %r1 < 8\"; add.u32 %r1, %r1, 1; setp.le.u32 %p1, %r1, 8; @%p1 bra LOOP;",
        "LOOP: .pragma \"invariant %r1 < 8\"; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 8; @%p1 bra LOOP;"),
];

#[test]
fn each_is_found_and_its_cure_is_not() {
    super::all(CASES);
}
