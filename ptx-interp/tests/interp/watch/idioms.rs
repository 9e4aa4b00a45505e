//! Correct kernels: no finding, under any seed.

use super::{Case, all_right, case};

/// A kernel: threads of a block, blocks, its body.
const fn idiom(launch: (u32, u32), body: &'static str) -> Case {
    case("", launch, "", "", body)
}

#[rustfmt::skip]
pub(super) const IDIOMS: &[Case] = &[
    // A warp reduces in shared memory, with `bar.warp.sync` between the steps.
    idiom((32, 1), ".shared .align 4 .b8 s[128]; mov.u32 %r1, s; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %t; mov.u32 %r5, 64;
 STEP: bar.warp.sync -1; setp.lt.u32 %p1, %r2, %r5; add.u32 %r6, %r1, %r5; @%p1 ld.shared.u32 %r3, [%r6]; @%p1 ld.shared.u32 %r4, [%r1];
 @%p1 add.u32 %r3, %r3, %r4; bar.warp.sync -1; @%p1 st.shared.u32 [%r1], %r3; shr.u32 %r5, %r5, 1; setp.ge.u32 %p2, %r5, 4; @%p2 bra STEP;
 bar.warp.sync -1; setp.eq.u32 %p3, %t, 0; @%p3 ld.shared.u32 %r7, [s]; @%p3 st.global.u32 [%out], %r7;"),
    // A flag behind data, with fences and a volatile flag.
    idiom((32, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %r1, 1; @%p2 bra READ;
 mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; st.global.u32 [%d1+128], %t; membar.gl; bar.sync 0; @%p1 st.volatile.global.u32 [%out], 1; ret;
 READ: @!%p1 bra WAITED; SPIN: ld.volatile.global.u32 %r2, [%out]; setp.eq.u32 %p3, %r2, 0; @%p3 bra SPIN; membar.gl;
 WAITED: bar.sync 0; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; ld.global.u32 %r3, [%d1+128]; st.global.u32 [%d1+512], %r3;"),
    // The last block sums what all have left (`threadFenceReduction`).
    idiom((64, 4), ".shared .align 4 .u32 last; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %t, 0; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %out;
 @%p1 st.global.u32 [%d1+64], %r1; membar.gl; bar.sync 0; @%p1 atom.global.inc.u32 %r2, [%out], 3; @%p1 st.shared.u32 [last], %r2; bar.sync 0;
 ld.shared.u32 %r3, [last]; setp.ne.u32 %p2, %r3, 3; @%p2 exit; membar.gl; setp.lt.u32 %p3, %t, 4; mul.wide.u32 %d2, %t, 4; add.u64 %d2, %d2, %out;
 @%p3 ld.global.u32 %r4, [%d2+64]; @%p3 st.global.u32 [%d2+256], %r4;"),
    // A barrier of the grid by atomics, twice.
    idiom((64, 4), "setp.eq.u32 %p1, %t, 0; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %t; mul.wide.u32 %d1, %r2, 4; add.u64 %d1, %d1, %out;
 st.global.u32 [%d1+1024], %r2; bar.sync 0; @!%p1 bra A; atom.acq_rel.gpu.global.add.u32 %r3, [%out], 1;
 S: ld.acquire.gpu.global.u32 %r4, [%out]; setp.lt.u32 %p2, %r4, 4; @%p2 bra S; A: bar.sync 0;
 xor.b32 %r5, %r2, 64; mul.wide.u32 %d2, %r5, 4; add.u64 %d2, %d2, %out; ld.global.u32 %r6, [%d2+1024]; bar.sync 0;
 @!%p1 bra B; atom.acq_rel.gpu.global.add.u32 %r3, [%out], 1; T: ld.acquire.gpu.global.u32 %r4, [%out]; setp.lt.u32 %p2, %r4, 8; @%p2 bra T; B: bar.sync 0;
 st.global.u32 [%d1+1024], %r6;").cooperative(),
    // A scan that looks back: each block waits for the sum of the one before, data and flag in one word.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; @!%p1 exit; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 8; add.u64 %d1, %d1, %out; mov.u32 %r2, 0; setp.eq.u32 %p2, %r1, 0; @%p2 bra FIRST;
 BACK: ld.relaxed.gpu.global.u64 %d2, [%d1+-8]; setp.eq.u64 %p3, %d2, 0; @%p3 bra BACK; cvt.u32.u64 %r2, %d2;
 FIRST: add.u32 %r2, %r2, %r1; cvt.u64.u32 %d3, %r2; or.b64 %d3, %d3, 0x100000000; st.relaxed.gpu.global.u64 [%d1], %d3;"),
    // The same with a flag of its own: release and acquire.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; @!%p1 exit; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %out; mov.u32 %r2, 0; setp.eq.u32 %p2, %r1, 0; @%p2 bra FIRST;
 BACK: ld.acquire.gpu.global.u32 %r3, [%d1+-4]; setp.eq.u32 %p3, %r3, 0; @%p3 bra BACK; ld.global.u32 %r2, [%d1+252];
 FIRST: add.u32 %r2, %r2, %r1; st.global.u32 [%d1+256], %r2; st.release.gpu.global.u32 [%d1], 1;"),
    // Split-K: the blocks add to a tile in turn, by a semaphore.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; @!%p1 bra MINE;
 WAIT: ld.acquire.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p2, %r2, %r1; @%p2 bra WAIT; MINE: bar.sync 0;
 ld.global.u32 %r3, [%d1+128]; add.u32 %r3, %r3, 1; st.global.u32 [%d1+128], %r3; bar.sync 0; add.u32 %r4, %r1, 1; @%p1 st.release.gpu.global.u32 [%out], %r4;"),
    // Stream-K: one block leaves its part in a workspace, another fetches it.
    idiom((64, 2), "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %t, 0; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; @%p1 bra OWNER;
 st.global.u32 [%d1+256], %t; fence.acq_rel.gpu; bar.sync 0; @%p2 red.release.gpu.global.add.u32 [%out], 1; ret;
 OWNER: @!%p2 bra ON; WAIT: ld.acquire.gpu.global.u32 %r2, [%out]; setp.ne.u32 %p3, %r2, 1; @%p3 bra WAIT; ON: bar.sync 0;
 ld.global.u32 %r3, [%d1+256]; st.global.u32 [%d1+1024], %r3;"),
    // A lock: one thread of each block updates plain data.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; @!%p1 exit; LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra LOCK;
 ld.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1; st.global.u32 [%out+4], %r2; atom.release.gpu.global.exch.b32 %r3, [%out], 0;"),
    // A lock that is looked at until it is free.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; @!%p1 exit; LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra MINE;
 LOOK: ld.relaxed.gpu.global.u32 %r1, [%out]; setp.ne.u32 %p2, %r1, 0; @%p2 bra LOOK; bra LOCK;
 MINE: ld.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1; st.global.u32 [%out+4], %r2; atom.release.gpu.global.exch.b32 %r3, [%out], 0;"),
    // The same with fences, as older code has it.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; @!%p1 exit; LOCK: atom.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra LOCK; membar.gl;
 ld.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1; st.global.u32 [%out+4], %r2; membar.gl; atom.global.exch.b32 %r3, [%out], 0;"),
    // A lock that each lane of a warp takes in turn.
    idiom((32, 1), "LOCK: atom.acquire.gpu.global.cas.b32 %r1, [%out], 0, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra NEXT;
 ld.global.u32 %r2, [%out+4]; add.u32 %r2, %r2, 1; st.global.u32 [%out+4], %r2; st.release.gpu.global.u32 [%out], 0; NEXT: @%p2 bra LOCK;"),
    // Two stages of `cp.async`.
    idiom((64, 1), ".shared .align 16 .b8 s[2048]; mov.u32 %r1, s; shl.b32 %r2, %t, 4; add.u32 %r1, %r1, %r2; mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %out; mov.u32 %r3, 0; mov.u32 %r9, s; xor.b32 %r10, %r2, 16; add.u32 %r9, %r9, %r10;
 cp.async.ca.shared.global [%r1], [%d1], 16; cp.async.commit_group;
 LOOP: bar.sync 0; and.b32 %r4, %r3, 1; xor.b32 %r5, %r4, 1; mad.lo.u32 %r6, %r5, 1024, %r1; cp.async.ca.shared.global [%r6], [%d1+1024], 16; cp.async.commit_group;
 cp.async.wait_group 1; bar.sync 0; mad.lo.u32 %r7, %r4, 1024, %r9; ld.shared.u32 %r8, [%r7]; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 5; @%p1 bra LOOP; cp.async.wait_all;"),
    // Named barriers: two warps produce, two consume.
    idiom((128, 1), ".shared .align 4 .b8 s[256]; and.b32 %r1, %t, 63; shl.b32 %r1, %r1, 2; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; mov.u32 %r3, 0; setp.ge.u32 %p1, %t, 64; @%p1 bra CONSUME;
 FILL: bar.sync 2, 128; st.shared.u32 [%r1], %r3; bar.arrive 1, 128; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra FILL; ret;
 CONSUME: bar.arrive 2, 128; bar.sync 1, 128; xor.b32 %r4, %r1, 4; ld.shared.u32 %r5, [%r4]; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra CONSUME;"),
    // A ring of two stages: bulk copies fill, a warp consumes, mbarriers for full and empty.
    idiom((64, 1), ".shared .align 128 .b8 s[256]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16]; setp.eq.u32 %p1, %t, 0;
 @!%p1 bra BEGUN; mov.u32 %r1, full; mov.u32 %r2, empty; mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 1; mbarrier.init.shared.b64 [%r2], 32; mbarrier.init.shared.b64 [%r2+8], 32; fence.mbarrier_init.release.cluster;
 BEGUN: bar.sync 0; mov.u32 %r3, 0; setp.ge.u32 %p2, %t, 32; @%p2 bra CONSUME; @!%p1 exit;
 PRODUCE: and.b32 %r4, %r3, 1; shr.u32 %r5, %r3, 1; and.b32 %r5, %r5, 1; xor.b32 %r6, %r5, 1; mov.u32 %r1, full; mov.u32 %r2, empty; mad.lo.u32 %r1, %r4, 8, %r1; mad.lo.u32 %r2, %r4, 8, %r2;
 FREE: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], %r6; @!%p3 bra FREE; mov.u32 %r7, s; mad.lo.u32 %r7, %r4, 128, %r7;
 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%out], 128, [%r1];
 add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 6; @%p4 bra PRODUCE; ret;
 CONSUME: and.b32 %r4, %r3, 1; shr.u32 %r5, %r3, 1; and.b32 %r5, %r5, 1; mov.u32 %r1, full; mov.u32 %r2, empty; mad.lo.u32 %r1, %r4, 8, %r1; mad.lo.u32 %r2, %r4, 8, %r2;
 READY: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], %r5; @!%p3 bra READY; mov.u32 %r7, s; mad.lo.u32 %r7, %r4, 128, %r7; and.b32 %r8, %t, 31; mad.lo.u32 %r7, %r8, 4, %r7; ld.shared.u32 %r9, [%r7];
 mbarrier.arrive.shared.b64 _, [%r2]; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 6; @%p4 bra CONSUME;"),
    // A store through the async proxy, in two buffers in turn.
    idiom((32, 1), ".shared .align 128 .b8 s[256]; setp.eq.u32 %p1, %t, 0; mov.u32 %r3, 0;
 LOOP: and.b32 %r4, %r3, 1; mov.u32 %r1, s; mad.lo.u32 %r1, %r4, 128, %r1; @%p1 cp.async.bulk.wait_group.read 1; bar.warp.sync -1; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %r3;
 fence.proxy.async; bar.warp.sync -1; mul.wide.u32 %d1, %r3, 128; add.u64 %d1, %d1, %out; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 128; @%p1 cp.async.bulk.commit_group;
 add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 5; @%p2 bra LOOP; @%p1 cp.async.bulk.wait_group 0;"),
    // A ring through the blocks of a cluster.
    idiom((32, 4), ".shared .align 4 .b8 s[128]; mov.u32 %r1, %cluster_ctarank; add.u32 %r2, %r1, 1; and.b32 %r2, %r2, 3; mov.u32 %r3, s; mad.lo.u32 %r3, %t, 4, %r3; mapa.shared::cluster.u32 %r4, %r3, %r2;
 barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; st.shared::cluster.u32 [%r4], %r1; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned; ld.shared.u32 %r5, [%r3];").clusters(4),
    // Lanes that go two ways and meet again, each with registers of its own.
    idiom((64, 1), "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN; mov.u32 %r2, 1; add.u32 %r3, %r2, 5; bra MEET; EVEN: mov.u32 %r4, 2; add.u32 %r3, %r4, 6;
 MEET: mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; st.global.u32 [%d1], %r3; @%p1 add.u32 %r5, %r4, 1; @%p1 st.global.u32 [%d1], %r5; @!%p1 add.u32 %r5, %r2, 1; st.global.u32 [%d1], %r5;"),
    // A histogram: atomics in shared memory, then in global memory.
    idiom((64, 2), ".shared .align 4 .b8 h[64]; mov.u32 %r1, h; setp.lt.u32 %p1, %t, 16; mad.lo.u32 %r2, %t, 4, %r1; @%p1 st.shared.u32 [%r2], 0; bar.sync 0; and.b32 %r3, %t, 15; mad.lo.u32 %r3, %r3, 4, %r1; red.shared.add.u32 [%r3], 1; bar.sync 0;
 mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %out; @%p1 ld.shared.u32 %r4, [%r2]; @%p1 red.global.add.u32 [%d1], %r4;"),
    // Everybody writes the same flag.
    idiom((64, 1), "red.relaxed.gpu.global.or.b32 [%out], 1; bar.sync 0; ld.relaxed.gpu.global.u32 %r1, [%out]; setp.eq.u32 %p1, %r1, 1; @%p1 st.relaxed.gpu.global.u32 [%out+4], 1;"),
];

#[test]
fn correct_kernels_have_no_finding() {
    all_right(IDIOMS, 24);
}
