//! Decode of latent attention (MLA) on Hopper: 64 packed rows of Q and tiles of 64 keys, whose first columns are V, by `wgmma`.
//!
//! One warp group copies rows of the cache by `cp.async`, so that pages may have any size, to two stages. Of the two others the first computes the
//! scores and the weights of a tile, and leaves the weights in shared memory for the second; each multiplies them by half of the columns of V, whose sums
//! fill its registers (FlashMLA, DeepSeek, 2025). The next scores are on the tensor cores together with the product with V. A tile is released in parts:
//! the columns behind V after the scores, each half of V after its product. `walk` divides the keys of all sequences among blocks.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

mod loads;
mod weights;

use super::problem::DecodeProblem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90a",
    params(DecodeProblem),
    parts(super::walk::walk, loads::loads, weights::weights),
    modules(crate::attention::device::{attention, kv_cache, flash, scores})
)]
pub(crate) mod kernels {
    use super::DecodeProblem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of the cache, and of its part that is V.
        pub head: u32,
        pub head_v: u32,
    }

    /// Packed rows of a block, and keys of a tile.
    const ROWS: u32 = 64;
    const KEYS: u32 = 64;

    /// Bytes of 64 columns of a tile, whose rows are 128 swizzled bytes.
    const ATOM: u32 = 64 * 128;

    /// Tiles of keys in shared memory.
    const STAGES: u32 = 2;

    /// Parts of a tile that have barriers of their own: the columns behind V, the last half of V, the first one.
    const PARTS: u32 = 3;

    /// Bytes from row to row of the sums: 32 more than they need, so that stores meet no bank twice.
    const PITCH: u32 = 4 * 512 + 32;

    impl Config {
        /// Bytes of Q, and of a tile of keys.
        const fn tile(&self) -> u32 {
            self.head / 64 * ATOM
        }

        /// Bytes of shared memory: Q, the tiles, the weights. The sums take the place of the tiles.
        pub(crate) const fn shared(&self) -> u32 {
            (1 + STAGES) * self.tile() + ATOM
        }

        /// Packed rows of a block.
        pub(crate) const fn rows(&self) -> u32 {
            ROWS
        }

        /// Keys of a round.
        pub(crate) const fn keys(&self) -> u32 {
            KEYS
        }

        /// Bytes of a block's part of a problem.
        pub(crate) const fn part(&self) -> u32 {
            4 * ROWS * (self.head_v + 1)
        }
    }

    /// The shared memory of a block: tiles, barriers, factors and results of rows.
    struct Memory<const C: Config> {
        q: u32,
        tiles: u32,
        weights: u32,
        q_full: u32,
        full: u32,
        empty: u32,
        weights_full: u32,
        weights_empty: u32,
        rescale_factors: u32,
        row_stats: u32,
        slot: u32,
    }

    impl<const C: Config> Memory<C> {
        /// Q, the tiles, the weights; barriers of Q, of the parts of each stage, of the weights; two numbers of each row, one more, and another.
        fn new(tiles: u32, barriers: u32, numbers: u32) -> Memory<C> {
            const RING: u32 = 8 * STAGES * PARTS;
            Memory {
                q: tiles,
                tiles: tiles + C.tile(),
                weights: tiles + (1 + STAGES) * C.tile(),
                q_full: barriers,
                full: barriers + 8,
                empty: barriers + (8 + RING),
                weights_full: barriers + (8 + 2 * RING),
                weights_empty: barriers + (16 + 2 * RING),
                row_stats: numbers,
                rescale_factors: numbers + 8 * ROWS,
                slot: numbers + 12 * ROWS,
            }
        }

        /// Makes the barriers, by one thread.
        fn init(&self) {
            mbarrier::init(self.q_full, 128);
            for i in 0..STAGES * PARTS {
                mbarrier::init(self.full + 8 * i, 128);
                mbarrier::init(self.empty + 8 * i, 4);
            }
            mbarrier::init(self.weights_full, 4);
            mbarrier::init(self.weights_empty, 4);
        }

        /// Waits until a part of a tile is there, also for `wgmma`.
        fn wait(&self, at: &flash::Position<STAGES>, part: u32) {
            mbarrier::wait(self.full + 8 * (at.stage * PARTS + part), at.phase);
            tma::fence();
        }

        /// One lane of each warp signals at a barrier.
        fn signal(&self, bar: u32) {
            warp::sync();
            if laneid == 0 {
                mbarrier::arrive(bar);
            }
        }

        /// Waits for all threads of the block, whose roles come here from different places: no block barrier, which they would reach at one.
        fn sync(&self) {
            barrier::sync::<384>(2);
        }

        /// Gives a part of a tile back.
        fn release(&self, stage: u32, part: u32) {
            self.signal(self.empty + 8 * (stage * PARTS + part));
        }
    }

    /// The output of a few queries against a cache whose rows are K, and in their first part V. Parameters are those of `decode`.
    #[ptx_kernel(
        block = 384,
        grid = p.blocks(),
        pdl,
        shared = C.shared(),
        max_regs = 168,
        instances = [
            d576 = ([bf16, f16], Config { head: 576, head_v: 512 })
        ],
        unsafe(requires(
            p.is_counted(2),
            p.is_divided(),
            p.has_one_head(),
            p.holds_queries([2 * tensors.q.len(), 2 * tensors.out.len()]),
            p.holds_logarithms(4 * tensors.lse.len()),
            p.has_places(tensors.lengths.len(), tensors.table.len()),
            p.holds_keys([2 * tensors.cache.len(), 2 * tensors.cache.len()], 2),
            p.holds_parts([tensors.scratch.len(), tensors.flags.len()], C.part(), 2)
        ))
    )]
    pub fn latent<T, const C: Config>(tensors: Tensors<T>, p: DecodeProblem) {
        #[shared(dynamic, align = 1024)]
        let tiles: [u8];
        #[shared]
        let barriers: [u64; 3 + 2 * STAGES * PARTS];
        #[shared(align = 16)]
        let numbers: [f32; 3 * ROWS + 4];
        let (tiles_at, barriers_at, numbers_at): (u32, u32, u32) = (tiles, barriers, numbers);
        let memory = Memory::<C>::new(tiles_at, barriers_at, numbers_at);
        if tid.x == 0 {
            memory.init();
        }
        block::sync();
        grid::overlap();
        let (lengths_at, tables, q_from, cache_from): (u64, u64, u64, u64) =
            (tensors.lengths, tensors.table, tensors.q, tensors.cache);
        let (out_to, lse_to, scratch_to, flags_to): (u64, u64, u64, u64) =
            (tensors.out, tensors.lse, tensors.scratch, tensors.flags);
        let mut walk = Walk::<ROWS, KEYS>::new(&p, lengths_at);
        if tid.x < 128 {
            wgmma::fewer_registers::<56>();
            load::<C>(&memory, &mut walk, &p, [q_from, cache_from], tables);
        } else {
            wgmma::more_registers::<224>();
            let output = kv_cache::Output {
                out: out_to,
                lse: lse_to,
                out_strides: p.out,
                lse_strides: p.lse,
                dim: p.dim_v,
                logged: p.logged,
            };
            attend::<T, C>(&memory, &mut walk, &p, &output, scratch_to, flags_to);
        }
    }
}
