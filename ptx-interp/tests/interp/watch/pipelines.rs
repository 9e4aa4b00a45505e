//! More of what correct kernels do: the pipelines, hand-overs and epilogues of real libraries, and the manual's own examples. No
//! finding, under any seed.

use super::{Case, all_right, case};

/// A kernel: threads of a block, blocks, its body.
const fn idiom(launch: (u32, u32), body: &'static str) -> Case {
    case("", launch, "", "", body)
}

#[rustfmt::skip]
pub(super) const IDIOMS: &[Case] = &[
    // The manual's split barrier: arrive, do something else, test with the state.
    idiom((64, 1), ".shared .align 8 .b64 bar; .shared .align 4 .b8 s[256]; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; xor.b32 %r3, %t, 32; mad.lo.u32 %r3, %r3, 4, %r1;
 st.shared.u32 [%r2], %t; mbarrier.arrive.shared.b64 %d1, [bar]; add.u32 %r4, %t, 1; WAIT: mbarrier.test_wait.shared.b64 %p2, [bar], %d1; @!%p2 bra WAIT; ld.shared.u32 %r5, [%r3];"),
    // Relaxed arrivals and waits, with fences around them.
    idiom((64, 1), ".shared .align 8 .b64 bar; .shared .align 4 .b8 s[256]; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; xor.b32 %r3, %t, 32; mad.lo.u32 %r3, %r3, 4, %r1;
 st.shared.u32 [%r2], %t; fence.acq_rel.cta; mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT; fence.acq_rel.cta; ld.shared.u32 %r5, [%r3];"),
    // A warp that leaves early drops out of the mbarrier.
    idiom((64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; setp.ge.u32 %p2, %t, 32; mov.u32 %r1, 0; @%p2 mbarrier.arrive_drop.shared.b64 _, [bar]; @%p2 exit;
 TURN: mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [bar], %r1; @!%p3 bra WAIT; add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 2; @%p4 bra TURN;"),
    // `cp.async` of all threads that arrives at an mbarrier.
    idiom((64, 1), ".shared .align 8 .b64 bar; .shared .align 16 .b8 s[1024]; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 16, %r1; mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %out;
 cp.async.ca.shared.global [%r2], [%d1], 16; cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; xor.b32 %r3, %t, 32; mad.lo.u32 %r3, %r3, 16, %r1; ld.shared.u32 %r4, [%r3];"),
    // Three stages of `cp.async`, and `ldmatrix` and `mma` behind them.
    idiom((32, 1), ".shared .align 128 .b8 s[1536]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 16, %r1; mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %out; mov.u32 %r3, 0; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
 cp.async.cg.shared.global [%r2], [%d1], 16; cp.async.commit_group; cp.async.cg.shared.global [%r2+512], [%d1], 16; cp.async.commit_group;
 LOOP: cp.async.wait_group 1; bar.sync 0; rem.u32 %r4, %r3, 3; mad.lo.u32 %r5, %r4, 512, %r2; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r5];
 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, {%r10, %r11}, {%f0, %f1, %f2, %f3};
 add.u32 %r6, %r3, 2; rem.u32 %r6, %r6, 3; mad.lo.u32 %r6, %r6, 512, %r2; cp.async.cg.shared.global [%r6], [%d1], 16; cp.async.commit_group; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 7; @%p1 bra LOOP; cp.async.wait_group 0;
 mul.wide.u32 %d2, %t, 16; add.u64 %d2, %d2, %out; st.global.v4.f32 [%d2+1024], {%f0, %f1, %f2, %f3};"),
    // Bytes of the other block by `st.async`, counted by its mbarrier.
    idiom((32, 2), ".shared .align 8 .b64 bar; .shared .align 16 .b8 s[128]; setp.eq.u32 %p1, %t, 0; mov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
 @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r2, s; mad.lo.u32 %r2, %t, 4, %r2; mapa.shared::cluster.u32 %r3, %r2, %r1; mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, %r1;
 st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r3], %t, [%r4]; WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0; @!%p2 bra WAIT; ld.shared.u32 %r5, [%r2];").clusters(2),
    // A bulk copy from block to block, and the arrival that gives the stage back.
    idiom((32, 2), ".shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 128 .b8 s[128]; .shared .align 128 .b8 from[128]; setp.eq.u32 %p1, %t, 0; mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p5, %r0, 0; xor.b32 %r1, %r0, 1; mov.u32 %r20, from; mad.lo.u32 %r20, %t, 4, %r20;
 @%p1 mbarrier.init.shared.b64 [full], 1; @%p1 mbarrier.init.shared.b64 [empty], 32; @%p1 fence.mbarrier_init.release.cluster; st.shared.u32 [%r20], %t; fence.proxy.async; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r3, 0; @!%p5 bra TAKE; @!%p1 bra DONE;
 mov.u32 %r2, s; mapa.shared::cluster.u32 %r2, %r2, %r1; mov.u32 %r4, full; mapa.shared::cluster.u32 %r4, %r4, %r1; mov.u32 %r21, from;
 FREE: xor.b32 %r5, %r3, 1; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [empty], %r5; @!%p2 bra FREE; mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4], 128;
 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2], [%r21], 128, [%r4]; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 2; @%p3 bra FREE; LAST: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [empty], 1; @!%p2 bra LAST; bra DONE;
 TAKE: mov.u32 %r4, empty; mapa.shared::cluster.u32 %r4, %r4, %r1; mov.u32 %r2, s; mad.lo.u32 %r2, %t, 4, %r2; FULL: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [full], %r3; @!%p2 bra FULL; ld.shared.u32 %r6, [%r2];
 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4]; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 2; @%p3 bra FULL; DONE: bar.warp.sync -1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // Two groups of warps take turns by named barriers.
    idiom((128, 1), ".shared .align 4 .u32 x; setp.ge.u32 %p1, %t, 64; setp.eq.u32 %p2, %t, 0; setp.eq.u32 %p3, %t, 64; @%p2 st.shared.u32 [x], 0; bar.sync 0; mov.u32 %r1, 0; @%p1 bra SECOND; bra FIRST;
 FIRST: @%p2 ld.shared.u32 %r2, [x]; @%p2 add.u32 %r2, %r2, 1; @%p2 st.shared.u32 [x], %r2; bar.arrive 1, 128; bar.sync 2, 128; add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 4; @%p4 bra FIRST; ret;
 SECOND: bar.sync 1, 128; @%p3 ld.shared.u32 %r2, [x]; @%p3 add.u32 %r2, %r2, 1; @%p3 st.shared.u32 [x], %r2; bar.arrive 2, 128; add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 4; @%p4 bra SECOND;"),
    // Sums by shuffles, then by warps.
    idiom((128, 2), ".shared .align 4 .b8 s[16]; mov.u32 %r1, %t; shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; add.u32 %r1, %r1, %r2; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; add.u32 %r1, %r1, %r2; and.b32 %r3, %t, 31; setp.eq.u32 %p1, %r3, 0; shr.u32 %r4, %t, 5; mov.u32 %r5, s; mad.lo.u32 %r5, %r4, 4, %r5;
 @%p1 st.shared.u32 [%r5], %r1; bar.sync 0; setp.lt.u32 %p2, %t, 4; mov.u32 %r6, s; mad.lo.u32 %r6, %t, 4, %r6; mov.u32 %r7, 0; @%p2 ld.shared.u32 %r7, [%r6]; shfl.sync.down.b32 %r8, %r7, 2, 31, -1; add.u32 %r7, %r7, %r8; setp.eq.u32 %p3, %t, 0; @%p3 red.global.add.u32 [%out], %r7;"),
    // A barrier of the grid that turns its sense over.
    idiom((32, 4), "setp.eq.u32 %p1, %t, 0; mov.u32 %r9, 0; TURN: mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %out; @%p1 st.global.u32 [%d1+256], %r9; bar.sync 0; @!%p1 bra MEET; ld.relaxed.gpu.global.u32 %r4, [%out+4]; fence.acq_rel.gpu; atom.relaxed.gpu.global.inc.u32 %r2, [%out], 3; setp.ne.u32 %p2, %r2, 3; @%p2 bra SPIN; fence.acq_rel.gpu; red.relaxed.gpu.global.add.u32 [%out+4], 1; bra MEET;
 SPIN: ld.relaxed.gpu.global.u32 %r3, [%out+4]; setp.eq.u32 %p3, %r3, %r4; @%p3 bra SPIN; fence.acq_rel.gpu; MEET: bar.sync 0; xor.b32 %r1, %r1, 1; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %out; @%p1 ld.global.u32 %r5, [%d2+256]; @%p1 st.global.u32 [%d1+512], %r5;"),
    // A reduction in bulk into global memory, by all blocks.
    idiom((32, 4), ".shared .align 128 .b8 s[128]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], 1; fence.proxy.async.shared::cta; bar.warp.sync -1; elect.sync %r3|%p1, -1; @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%r1], 128; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"),
    // A ticket lock.
    idiom((32, 3), "setp.eq.u32 %p1, %t, 0; @!%p1 exit; atom.relaxed.gpu.global.add.u32 %r1, [%out], 1; WAIT: ld.relaxed.gpu.global.u32 %r2, [%out+4]; setp.ne.u32 %p2, %r1, %r2; @%p2 bra WAIT; fence.acq_rel.gpu; ld.global.u32 %r3, [%out+8]; add.u32 %r3, %r3, 1; st.global.u32 [%out+8], %r3; fence.acq_rel.gpu; add.u32 %r2, %r2, 1; st.relaxed.gpu.global.u32 [%out+4], %r2;"),
    // Rows with a padding that nobody writes, read along the columns.
    idiom((32, 1), ".shared .align 4 .b8 s[4224]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; mov.u32 %r3, 0; ROW: mad.lo.u32 %r4, %r3, 132, %r2; st.shared.u32 [%r4], %t; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 32; @%p1 bra ROW; bar.warp.sync -1; mad.lo.u32 %r5, %t, 132, %r1; ld.shared.u32 %r6, [%r5]; ld.shared.u32 %r7, [%r5+124];"),
    // The same memory for the mainloop and then for the epilogue.
    idiom((64, 1), ".shared .align 128 .b8 s[1024]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 16, %r1; mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %out; cp.async.cg.shared.global [%r2], [%d1], 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; xor.b32 %r3, %r2, 512; ld.shared.u32 %r4, [%r3]; bar.sync 0;
 st.shared.u32 [%r2], %r4; fence.proxy.async; bar.sync 0; setp.eq.u32 %p1, %t, 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out+1024], [%r1], 1024; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"),
    // Lanes compact their values by a ballot, one atomic for the warp.
    idiom((64, 2), "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r2, %p1, -1; mov.u32 %r3, %lanemask_lt; and.b32 %r3, %r3, %r2; popc.b32 %r4, %r3; popc.b32 %r5, %r2; elect.sync %r6|%p2, -1; @%p2 atom.global.add.u32 %r7, [%out], %r5; shfl.sync.idx.b32 %r7, %r7, %r6, 31, -1; add.u32 %r7, %r7, %r4; mul.wide.u32 %d1, %r7, 4; add.u64 %d1, %d1, %out; @%p1 st.global.u32 [%d1+64], %t;"),
    // Halves of a warp that go two ways, each with barriers of its own mask.
    idiom((32, 1), ".shared .align 4 .b8 s[128]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; xor.b32 %r3, %r2, 4; setp.lt.u32 %p1, %t, 16; @%p1 bra LOW; st.shared.u32 [%r2], 1; bar.warp.sync 0xffff0000; ld.shared.u32 %r4, [%r3]; bra MEET; LOW: st.shared.u32 [%r2], 2; bar.warp.sync 0xffff; ld.shared.u32 %r4, [%r3]; MEET: bar.warp.sync -1; xor.b32 %r5, %r2, 64; ld.shared.u32 %r6, [%r5];"),
    // A flag of the cluster in the other block's memory, with release and acquire.
    idiom((32, 2), ".shared .align 4 .u32 flag; .shared .align 4 .b8 s[128]; setp.eq.u32 %p1, %t, 0; mov.u32 %r0, %cluster_ctarank; setp.eq.u32 %p5, %r0, 0; xor.b32 %r1, %r0, 1; @%p1 st.shared.u32 [flag], 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r2, s; mad.lo.u32 %r2, %t, 4, %r2; mapa.shared::cluster.u32 %r3, %r2, %r1; mov.u32 %r4, flag; mapa.shared::cluster.u32 %r4, %r4, %r1;
 @!%p5 bra TAKE; st.shared::cluster.u32 [%r3], %t; bar.warp.sync -1; @%p1 st.release.cluster.shared::cluster.u32 [%r4], 1; bra DONE; TAKE: ld.acquire.cluster.shared::cta.u32 %r5, [flag]; setp.eq.u32 %p2, %r5, 0; @%p2 bra TAKE; ld.shared.u32 %r6, [%r2]; DONE: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // The barrier of the cluster with a relaxed arrival behind a fence.
    idiom((32, 2), ".shared .align 4 .b8 s[128]; mov.u32 %r0, %cluster_ctarank; xor.b32 %r1, %r0, 1; mov.u32 %r2, s; mad.lo.u32 %r2, %t, 4, %r2; mapa.shared::cluster.u32 %r3, %r2, %r1; st.shared.u32 [%r2], %t; fence.acq_rel.cluster; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned; ld.shared::cluster.u32 %r4, [%r3]; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;").clusters(2),
    // An mbarrier is ended, and its memory used for something else.
    idiom((64, 1), ".shared .align 8 .b64 bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0; mbarrier.arrive.shared.b64 _, [bar]; WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT; bar.sync 0; @%p1 mbarrier.inval.shared.b64 [bar]; @%p1 st.shared.u64 [bar], 7; bar.sync 0; ld.shared.u64 %d1, [bar];"),
    // A vote of the block decides how long it goes on.
    idiom((64, 1), ".shared .align 4 .u32 x; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [x], 0; bar.sync 0; MORE: @%p1 atom.shared.add.u32 %r1, [x], 1; bar.sync 0; ld.shared.u32 %r2, [x]; setp.lt.u32 %p2, %r2, 5; barrier.cta.red.or.pred %p3, 0, %p2; @%p3 bra MORE;"),
    // A warpgroup multiplies what another warp loads, in two stages; registers move from the one to the other.
    idiom((256, 1), ".shared .align 128 .b8 s[8192]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16]; setp.eq.u32 %p1, %t, 0; @!%p1 bra BEGUN; mov.u32 %r1, full; mov.u32 %r2, empty; mbarrier.init.shared.b64 [%r1], 1; mbarrier.init.shared.b64 [%r1+8], 1; mbarrier.init.shared.b64 [%r2], 128; mbarrier.init.shared.b64 [%r2+8], 128; fence.mbarrier_init.release.cluster;
 BEGUN: bar.sync 0; mov.u32 %r3, 0; setp.ge.u32 %p2, %t, 128; @%p2 bra MULTIPLY; setmaxnreg.dec.sync.aligned.u32 40; @!%p1 exit;
 FILL: and.b32 %r4, %r3, 1; shr.u32 %r5, %r3, 1; and.b32 %r5, %r5, 1; xor.b32 %r6, %r5, 1; mov.u32 %r1, full; mov.u32 %r2, empty; mad.lo.u32 %r1, %r4, 8, %r1; mad.lo.u32 %r2, %r4, 8, %r2; FREE: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], %r6; @!%p3 bra FREE; mov.u32 %r7, s; mad.lo.u32 %r7, %r4, 4096, %r7;
 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 4096; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%out], 4096, [%r1]; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 5; @%p4 bra FILL; ret;
 MULTIPLY: setmaxnreg.inc.sync.aligned.u32 248; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; setp.eq.u32 %p2, %t, %t;
 NEXT: and.b32 %r4, %r3, 1; shr.u32 %r5, %r3, 1; and.b32 %r5, %r5, 1; mov.u32 %r1, full; mov.u32 %r2, empty; mad.lo.u32 %r1, %r4, 8, %r1; mad.lo.u32 %r2, %r4, 8, %r2; FULL: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], %r5; @!%p3 bra FULL; cvt.u64.u32 %d2, %r4; shl.b64 %d2, %d2, 8; add.u64 %d1, %d2, 0x0000001000080000;
 wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mbarrier.arrive.shared.b64 _, [%r2]; add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 5; @%p4 bra NEXT; setp.eq.u32 %p5, %t, 128; @%p5 st.global.f32 [%out+4], %f0;").on("sm_90a"),
    // Tensor memory as libraries use it, without `tcgen05.fence`: waits that acquire, and what has been waited for.
    idiom((128, 1), ".shared .align 128 .b8 tile[4096]; .shared .align 4 .u32 slot; .shared .align 8 .b64 bar; .shared .align 8 .b64 done; setp.eq.u32 %p1, %t, 0; setp.lt.u32 %p2, %t, 32; setp.ne.u32 %p3, %t, %t; mov.u32 %r2, 0; mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1;
 st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.u32 [%r1+2048], {%r2, %r2, %r2, %r2}; fence.proxy.async; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.init.shared.b64 [done], 128; @!%p2 bra ALLOCATED; {ALLOC} ALLOCATED: bar.sync 0; ld.shared.u32 %r3, [slot];
 and.b32 %r4, %t, 96; shl.b32 %r4, %r4, 16; add.u32 %r4, %r4, %r3; mov.u64 %d1, 0x0000401000080000; mov.u32 %r5, 0x08020010; mov.u32 %r6, 0; mov.u32 %r7, 0;
 TILE: @%p1 {MUL} @%p1 {COMMIT} FULL: mbarrier.try_wait.parity.shared.b64 %p4, [bar], %r6; @!%p4 bra FULL; {GET} add.u32 %r7, %r7, %r10; mbarrier.arrive.shared.b64 _, [done]; READ: mbarrier.try_wait.parity.shared.b64 %p4, [done], %r6; @!%p4 bra READ; xor.b32 %r6, %r6, 1; setp.eq.u32 %p5, %r6, 1; @%p5 bra TILE; {END}"),
    // The first product's sums become the second one's factor: loaded, changed, stored, and read from tensor memory.
    idiom((128, 1), ".shared .align 128 .b8 tile[4096]; .shared .align 4 .u32 slot; .shared .align 8 .b64 bar; .shared .align 8 .b64 done; setp.eq.u32 %p1, %t, 0; setp.lt.u32 %p2, %t, 32; setp.ne.u32 %p3, %t, %t; mov.u32 %r2, 0; mov.u32 %r1, tile; mad.lo.u32 %r1, %t, 16, %r1;
 st.shared.v4.u32 [%r1], {%r2, %r2, %r2, %r2}; st.shared.v4.u32 [%r1+2048], {%r2, %r2, %r2, %r2}; fence.proxy.async; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 mbarrier.init.shared.b64 [done], 128; @!%p2 bra ALLOCATED; {ALLOC} ALLOCATED: {BEFORE} bar.sync 0; {AFTER} ld.shared.u32 %r3, [slot];
 and.b32 %r4, %t, 96; shl.b32 %r4, %r4, 16; add.u32 %r4, %r4, %r3; mov.u64 %d1, 0x0000401000080000; mov.u32 %r5, 0x08020010; @%p1 {MUL} @%p1 {COMMIT} {WAIT} {AFTER} tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%r4]; tcgen05.wait::ld.sync.aligned;
 tcgen05.st.sync.aligned.32x32b.x8.b32 [%r4], {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}; {STORED} {BEFORE} mbarrier.arrive.shared.b64 _, [done]; {ALL_DONE} {AFTER} add.u32 %r20, %r3, 16; @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r20], [%r3], %d1, %r5, %p3; @%p1 {COMMIT} {WAIT_AGAIN} {AFTER} add.u32 %r4, %r4, 16; {GET} {END}"),
];

#[test]
fn correct_kernels_have_no_finding() {
    all_right(IDIOMS, 24);
}
