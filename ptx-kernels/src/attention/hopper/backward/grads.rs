//! dK and dV, and sums of dQ, on Hopper: TMA, `wgmma`, warp specialization.
//!
//! A work tile is 128 keys of a head. A block is persistent: it computes one work tile after the other, and claims the next one by a counter in memory. It
//! iterates over the tiles of queries that see the keys, for each head of Q that shares them. One warp copies Q, dO and their row values by TMA. Two
//! warp groups own 64 keys each: they compute Sᵀ = K · Qᵀ and dPᵀ = V · dOᵀ, so that P stays in registers as the left operand of dV += Pᵀ · dO. dS goes
//! to shared memory, for dK += dSᵀ · Q and for the other warp group: each computes a half of the tile's dQ = dS · K, over all 128 keys, and adds it to the
//! sums in global memory (`red.v4`), in no fixed order unless the call requires one. The products are those of FlashAttention-3 (Shah et al., 2024).
//!
//! Their order is a software pipeline of three query tiles, one warp group half a step behind the other:
//!
//! ```text
//!                       step j                                                                 step j + 1
//! warp group 0 issues   S(j)  dQ(j-2)  dV(j-1)  dK(j-1) ▸ P(j), add dQ(j-2) ▸ dP(j) ▸ dS(j)  │ S(j+1) …
//! warp group 1 issues   … P(j-1), add dQ(j-3) ▸ dP(j-1) ▸ dS(j-1) │ S(j)  dQ(j-2)  dV(j-1)  dK(j-1) ▸ P(j) …
//!                       └──────── exponentials, while the other warp group's products are on the tensor cores
//! ```
//!
//! A warp group that issues `wgmma` waits until the tensor cores have taken nearly all of it, so a group that multiplies does nothing else, and two groups
//! in step leave the tensor cores idle while both compute exponentials. So the second group starts later, and no barrier brings them into step: dQ is computed
//! two tiles after its dS, when the other group has written its half.
//!
//! `prologue` fills the pipeline, `mainloop_step` is one step, `drain` computes the last dQ, dV and dK, `epilogue` writes dK and dV. The tiles of one work
//! tile follow those of the one before without a gap (`prologue_overlapped`), unless one of them has too few.
//! Sums begin at -log Σ exp S / scale and at -delta instead of 0, which saves two operations for each score and the registers of these values.

mod idle_warps;
mod mainloop;
mod products;
mod work;

use super::shared;
use crate::attention::problem::{Gradients, Problem};
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90a",
    params(Problem, Gradients),
    parts(shared::arguments, shared::scratch, shared::scheduler, work::work, idle_warps::idle_warps, mainloop::consumer, products::products),
    modules(
        crate::attention::device::{attention, flash, scores},
        super::flash_grad::flash_grad,
        super::flash_grad_loads::flash_grad_loads
    )
)]
pub(crate) mod kernels {
    use super::{Gradients, Problem};

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row of Q, K and V.
        pub head: u32,
        /// Queries of a tile.
        pub queries: u32,
        /// 1 for packed sequences, a soft cap and shorter rows, by the call's options.
        pub masked: u32,
    }

    /// Keys of a block.
    const KEYS: u32 = 128;

    /// Tiles of Q, and of dO, in shared memory, and those of dS. A tile of Q is needed longest.
    const Q_STAGES: u32 = 3;
    const STAGES: u32 = 2;

    /// Tiles of K: the next one comes while the last dQ of a work tile are computed.
    const K_STAGES: u32 = 2;

    /// Values of a warp group each.
    const V_STAGES: u32 = 2;

    /// Named barriers: of both groups; from each of the others on, one for each group: it has written its part of dS, may add its part of dQ, and
    /// has added it; and one for each slot of work tiles, when all of a work tile's dQ has been added.
    const CONSUMERS: u32 = 1;
    const DS_WRITTEN: u32 = 2;
    const MAY_ADD: u32 = 4;
    const ADDED: u32 = 6;
    const WORK_TILE_ENDED: u32 = 8;

    impl Config {
        /// Parts of 64 columns of a tile, whose rows are 128 bytes.
        const fn parts(&self) -> u32 {
            self.head / 64
        }

        /// Bytes of a part of Q or dO, and of 64 keys of dS.
        const fn q_part(&self) -> u32 {
            self.queries * 128
        }

        /// Bytes of a part of K.
        const fn k_part(&self) -> u32 {
            KEYS * 128
        }

        /// Bytes of the values of a warp group.
        const fn v_half(&self) -> u32 {
            self.parts() * 8192
        }

        /// Sums of a thread in a warp group's part of dQ.
        const fn dq_len(&self) -> u32 {
            self.queries * self.head / 256
        }
    }

    /// The shared memory of a block.
    #[align(1024)]
    struct Memory<const C: Config> {
        k: [[[u8; 128]; KEYS * C.parts()]; K_STAGES],
        v: [[[u8; 128]; 64 * C.parts()]; V_STAGES],
        ds: [[[u8; 128]; 2 * C.queries]; STAGES],
        q: [[[u8; 128]; C.queries * C.parts()]; Q_STAGES],
        grad: [[[u8; 128]; C.queries * C.parts()]; STAGES],
        rows: [[[u8; 128]; 16]; 8],
        logs: [[f32; C.queries]; Q_STAGES],
        deltas: [[f32; C.queries]; STAGES],
        q_bars: pipeline::Barriers<Q_STAGES>,
        grad_bars: pipeline::Barriers<STAGES>,
        ds_bars: pipeline::Barriers<STAGES>,
        k_bars: pipeline::Barriers<K_STAGES>,
        v_bars: pipeline::Barriers<V_STAGES>,
        work_tiles: [WorkTile; 2],
        work_bars: pipeline::Barriers<2>,
        partial: mbarrier::Barrier,
    }

    /// The work of idle warps: the sums of dQ of the first `cleared` heads are cleared before the launch, and those behind the first
    /// `rounded` heads are rounded to `q_grad` by this one.
    struct IdleWork<T> {
        q_grad: &mut [T],
        cleared: u32,
        rounded: u32,
    }

    /// dK and dV of 128 keys of a head, summed over the heads of Q that share it, and their part of the sums of dQ. The maps are
    /// those of `q`, `k`, `v` and `out_grad`: (batch, tokens, heads, elements) in boxes of 128 tokens, or the queries of a tile, and 64
    /// elements.
    #[ptx_kernel(
        block = 384,
        grid = schedule.blocks,
        max_regs = 168,
        pdl,
        instances = [
            d64 = ([bf16, f16], Config { head: 64, queries: 128, masked: 0 }),
            d128 = ([bf16, f16], Config { head: 128, queries: 64, masked: 0 }),
            d64_masked = ([bf16, f16], Config { head: 64, queries: 128, masked: 1 }),
            d128_masked = ([bf16, f16], Config { head: 128, queries: 64, masked: 1 })
        ],
        requires(
            p.covers_inputs([tensors.q.len(), tensors.k.len(), tensors.v.len(), tensors.bias.len()]),
            g.covers_keys([tensors.out_grad.len(), tensors.k_grad.len(), tensors.v_grad.len(), tensors.scratch.len()]),
            p.separates(schedule.starts_q.len(), schedule.starts_k.len()),
            schedule.head_block > 0 && g.heads_k % schedule.head_block == 0 && schedule.blocks > 0,
            g.covers_q(idle_work.q_grad.len(), tensors.scratch.len()),
            idle_work.cleared <= p.heads * p.batch && idle_work.rounded <= p.heads * p.batch
        )
    )]
    pub fn backward<T, const C: Config>(
        maps: Maps,
        tensors: Tensors<T>,
        p: Problem,
        g: Gradients,
        schedule: Schedule,
        idle_work: IdleWork<T>,
    ) {
        #[shared(dynamic)]
        let memory: Memory<C>;
        let memory_at: u64 = tensors.scratch;
        let parts: flash_grad::Scratch = scratch_of::<{ C.masked }>(memory_at, &p);
        // The launch behind does not begin before this one ends: blocks that wait cost 2 % with rows of 128 elements.
        grid::wait();
        if tid.x == 0 {
            memory.q_bars.init::<1, 8>();
            memory.grad_bars.init::<1, 8>();
            memory.ds_bars.init::<2, 8>();
            memory.k_bars.init::<1, 8>();
            memory.v_bars.init::<1, 4>();
            for slot in 0..2 {
                memory.work_bars.full.at(slot).init(1);
                memory
                    .work_bars
                    .empty
                    .at(slot)
                    .init((schedule.ordered != 0).select(10, if C.masked == 1 { 8 } else { 9 }));
            }
            memory.partial.init(1);
            mbarrier::fence_init();
        }
        block::sync();
        let mut received = Received::<C>::new(memory);
        if tid.x < 128 {
            wgmma::fewer_registers::<24>();
            let warp: u32 = tid.x / 32;
            if tid.x < (if C.masked == 1 { 32 } else { 1 }) {
                let maps = flash_grad_loads::Maps { q: maps.q_map, k: maps.k_map, v: maps.v_map, grad: maps.grad_map };
                let starts: [Global<i32>; 2] = [schedule.starts_q, schedule.starts_k];
                let scheduler = Scheduler::<{ C.masked }> {
                    starts,
                    heads_k: g.heads_k,
                    head_block: schedule.head_block,
                    ordered: schedule.ordered,
                };
                scheduler.load_all::<C>(memory, &maps, &p, &parts, idle_work.cleared);
            }
            if C.masked == 0 {
                let idle = IdleWarps::<C>::new(&parts, idle_work.cleared, idle_work.rounded);
                if (schedule.ordered == 0) & (warp == 1) {
                    idle.count_ended(&mut received, &p, g.heads_k);
                } else if (schedule.ordered == 0) & (warp > 1) {
                    idle.clear();
                    idle.round::<T>(&p, &g, idle_work.q_grad);
                }
            }
            if (schedule.ordered != 0) & (warp != 0) & (warp < 3) {
                loop {
                    let (keys, some): (flash_grad::Keys, u32) = received.next(&p);
                    if some == 0 {
                        break;
                    }
                    // Those who multiply get the work tile behind the next one before they have added the last parts of this one.
                    received.advance();
                    received.release();
                    let walk = flash_grad::Walk::new::<KEYS, { C.queries }>(&keys, p.kv_group);
                    let mut sums =
                        flash_grad::QuerySums::<KEYS, { C.queries }, { C.head }, 2>::new(&parts, &keys, &walk, 1);
                    sums.keep_order(warp - 1, MAY_ADD + warp - 1, ADDED + warp - 1);
                }
            }
        } else {
            wgmma::more_registers::<240>();
            let (to, bias_from): ([u64; 2], u64) = ([tensors.k_grad, tensors.v_grad], tensors.bias);
            let mut consumer = Consumer::<T, C>::new(memory, &p, &parts, schedule.ordered, bias_from);
            consumer.run(&p, &g, to);
        }
    }
}
