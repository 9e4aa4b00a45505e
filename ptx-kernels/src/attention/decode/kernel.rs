//! Decode on `sm_80` and newer: few queries, many keys, which lie in a cache. Memory decides its speed.
//!
//! The queries of all heads that share a head of the cache are the rows of one product, so that every key is read once. The keys of all
//! sequences are a line of rounds, `block()` keys each. Split-KV: each split takes an equal part of that line, and each block of a split one
//! head, so that all heads of a token are read at about the same time: they share pages of the memory chips. Each warp has a ring of
//! tiles of its own (`ring`), which rows reach by `cp.async` and no other warp waits for. At the end of a head a warp leaves its sums in the
//! free stage of its ring, while rows of the next head are on their way to the others, and the block adds up its warps' parts; where several blocks share a head, the last one to arrive adds up theirs (Flash-Decoding, Dao et al., 2023; stream-K,
//! Osama et al., 2023).
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

pub(super) mod products;
mod ring;
pub(super) mod state;
pub(super) mod work;

use super::problem::DecodeProblem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch("sm_80", "sm_90"),
    params(DecodeProblem),
    parts(ring::ring, products::products, state::state, work::work),
    modules(crate::attention::device::{attention, kv_cache})
)]
pub(crate) mod kernels {
    use super::DecodeProblem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row.
        pub head: u32,
        /// Bytes of an element of the cache.
        pub size: u32,
        /// Warps of a block.
        pub warps: u32,
        /// Keys of a warp's tile: 16 or 32.
        pub keys: u32,
        /// Tiles of a warp's ring.
        pub stages: u32,
    }

    /// Rows of a block: queries of the heads that share a head of the cache.
    const ROWS: u32 = 16;

    impl Config {
        /// Keys of a round: a tile of each warp.
        pub(crate) const fn block(&self) -> u32 {
            self.keys * self.warps
        }

        /// Bytes from row to row of a tile: 16 more than they need, so that `ldmatrix` meets no bank twice.
        const fn pitch(&self) -> u32 {
            self.size * self.head + 16
        }

        /// Bytes of a tile of K or V.
        const fn tile(&self) -> u32 {
            self.keys * self.pitch()
        }

        /// Bytes of a warp's ring, and of all of them. A warp leaves its sums in the free stage.
        const fn ring(&self) -> u32 {
            2 * self.stages * self.tile()
        }

        const fn rings(&self) -> u32 {
            self.warps * self.ring()
        }

        /// Bytes of shared memory: Q, the rings, the largest scores and sums of each warp, a number.
        pub(crate) const fn shared(&self) -> u32 {
            2 * ROWS * (self.head + 8) + self.rings() + 8 * ROWS * self.warps + 16
        }

        /// Packed rows of a block.
        pub(crate) const fn rows(&self) -> u32 {
            ROWS
        }

        /// Bytes of a block's part of a head: its output as `f32`, and the logarithm of each row's sum in powers of 2.
        pub(crate) const fn part(&self) -> u32 {
            4 * ROWS * (self.head + 1)
        }
    }

    /// The output of a few queries against a cache. `lengths` are the keys of each sequence, the new ones included, `table` the pages
    /// of each sequence, `k_scales` and `v_scales` factors of the heads of the cache; `flags` are zeros before and after.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = p.blocks(),
        pdl,
        shared = C.shared(),
        instances = [
            d64 = ([bf16, f16], [bf16, f16], Config { head: 64, size: 2, warps: 4, keys: 32, stages: 3 }),
            d96 = ([bf16, f16], [bf16, f16], Config { head: 96, size: 2, warps: 4, keys: 16, stages: 4 }),
            d128 = ([bf16, f16], [bf16, f16], Config { head: 128, size: 2, warps: 4, keys: 16, stages: 3 }),
            d256 = ([bf16, f16], [bf16, f16], Config { head: 256, size: 2, warps: 2, keys: 16, stages: 3 }),
            d64_bytes = ([bf16, f16], u8, Config { head: 64, size: 1, warps: 4, keys: 32, stages: 4 }),
            d128_bytes = ([bf16, f16], u8, Config { head: 128, size: 1, warps: 4, keys: 32, stages: 3 }),
            d256_bytes = ([bf16, f16], u8, Config { head: 256, size: 1, warps: 2, keys: 32, stages: 3 })
        ],
        unsafe(requires(
            p.is_counted(C.size),
            p.is_divided(),
            p.holds_queries([2 * tensors.q.len(), 2 * tensors.out.len()]),
            p.holds_logarithms(4 * tensors.lse.len()),
            p.has_places(tensors.lengths.len(), tensors.table.len()),
            p.holds_keys([C.size * tensors.k.len(), C.size * tensors.v.len()], C.size),
            p.has_factors([tensors.k_scales.len(), tensors.v_scales.len()]),
            p.holds_parts([tensors.scratch.len(), tensors.flags.len()], C.part(), 1)
        ))
    )]
    pub fn decode<T, K, const C: Config>(tensors: Tensors<T, K>, p: DecodeProblem) {
        #[shared(dynamic, align = 16)]
        let shared: [u8];
        grid::overlap();
        let q_tile: u32 = shared;
        let tiles: u32 = q_tile + 2 * ROWS * (C.head + 8);
        let row_stats: u32 = tiles + C.rings();
        let memory = Memory { q_tile, tiles, row_stats, slot: row_stats + 8 * ROWS * C.warps };
        let mut ring = Ring::<C>::new(tiles);
        let (k_from, v_from): (u64, u64) = (tensors.k, tensors.v);
        let (q_from, lengths_at, tables): (u64, u64, u64) = (tensors.q, tensors.lengths, tensors.table);
        let (k_factors, v_factors): (u64, u64) = (tensors.k_scales, tensors.v_scales);
        let inputs = Inputs {
            cache: Source { k: k_from, v: v_from },
            q: q_from,
            lengths: lengths_at,
            tables,
            factors: [k_factors, v_factors],
        };
        let (out_to, lse_to, scratch_to, flags_to): (u64, u64, u64, u64) =
            (tensors.out, tensors.lse, tensors.scratch, tensors.flags);
        let results = Results { out: out_to, lse: lse_to, scratch: scratch_to, flags: flags_to };
        attend::<T, C>(&p, &inputs, &mut ring, &memory, &results);
    }
}
