//! Decode on Hopper: the kernel of `kernel` with tiles that TMA copies, from pages of any size.
//!
//! A tensor map has the cache as (pages, heads, atoms of a row, tokens of a page, 64 elements). A box is `box_tokens` tokens of one head, and a tile of
//! a warp has as many boxes as it takes; each lane copies one. A tile's rows lie in swizzle atoms of 128 bytes, so that `ldmatrix` meets no bank twice.
//! Each warp waits for the barrier of its own tile, as it waits for its own copies in `kernel`.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

mod ring;

use super::problem::DecodeProblem;
use crate::attention::maps::Boxes;
use ptx_launch::prelude::*;
use ptx_launch::{Promotion, Result, StreamRef, Swizzle, TensorElement, TensorMap, TensorRef};

/// The map of K or V as (pages, heads, atoms of a row, tokens of a page, elements of an atom), in boxes of `box_tokens` tokens of a head; `strides` are those of
/// page, place in a page, and head in bytes. Fetches of 256 bytes to the second-level cache would read a tenth slower.
pub(super) fn map<K: TensorElement>(
    stream: StreamRef<'_>,
    tensor: &TensorRef<'_, K, 4>,
    strides: [u64; 3],
    p: &DecodeProblem,
) -> Result<TensorMap> {
    let each = kernels::ATOM as usize / size_of::<K>();
    let [page, slot, head] = strides.map(|bytes| bytes as usize / size_of::<K>());
    let atoms = p.dim as usize / each;
    let shape = [p.pages as usize, p.heads_k as usize, atoms, p.page_size as usize, each];
    let tile = [1, 1, atoms, p.box_tokens as usize, each];
    let boxes = Boxes::new(K::TYPE, tensor.address(), shape, [page, head, each, slot, 1], tile);
    boxes.swizzle(Swizzle::B128).promotion(Promotion::B128).map(stream)
}

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90",
    params(DecodeProblem),
    parts(ring::ring, super::kernel::products::products, super::kernel::state::state, super::kernel::work::work),
    modules(crate::attention::device::{attention, kv_cache})
)]
pub(crate) mod kernels {
    use super::DecodeProblem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row: whole swizzle atoms, as many as a power of two.
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

    /// Bytes of an atom of a row.
    pub(crate) const ATOM: u32 = 128;

    impl Config {
        /// Keys of a round: a tile of each warp.
        pub(crate) const fn block(&self) -> u32 {
            self.keys * self.warps
        }

        /// Atoms of a row.
        const fn atoms(&self) -> u32 {
            self.size * self.head / ATOM
        }

        /// Bytes of a tile of K or V.
        const fn tile(&self) -> u32 {
            self.keys * self.size * self.head
        }

        /// Bytes of a warp's ring, and of all of them. A warp leaves its sums in the free stage.
        const fn ring(&self) -> u32 {
            2 * self.stages * self.tile()
        }

        const fn rings(&self) -> u32 {
            self.warps * self.ring()
        }

        /// Bytes of shared memory: the rings, Q, the largest scores and sums of each warp, a number, the barriers.
        pub(crate) const fn shared(&self) -> u32 {
            self.rings() + 2 * ROWS * (self.head + 8) + 8 * ROWS * self.warps + 16 + 8 * self.stages * self.warps
        }

        /// Registers of a thread, so that two blocks fit a multiprocessor.
        const fn registers(&self) -> u32 {
            let most = 65536 / (64 * self.warps) / 8 * 8;
            if most > 255 { 255 } else { most }
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

    /// The tensor maps of the cache.
    struct Maps {
        k_map: TensorMap,
        v_map: TensorMap,
    }

    /// The output of a few queries against a cache. Parameters are those of `kernel`'s `decode`, and the maps of `k` and `v`, whose boxes have
    /// `p.box_tokens` tokens.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = p.blocks(),
        pdl,
        shared = C.shared(),
        max_regs = C.registers(),
        instances = [
            d64 = ([bf16, f16], [bf16, f16], Config { head: 64, size: 2, warps: 6, keys: 32, stages: 2 }),
            d128 = ([bf16, f16], [bf16, f16], Config { head: 128, size: 2, warps: 4, keys: 16, stages: 3 }),
            d256 = ([bf16, f16], [bf16, f16], Config { head: 256, size: 2, warps: 3, keys: 16, stages: 2 }),
            d128_bytes = ([bf16, f16], u8, Config { head: 128, size: 1, warps: 4, keys: 32, stages: 3 }),
            d256_bytes = ([bf16, f16], u8, Config { head: 256, size: 1, warps: 3, keys: 32, stages: 2 })
        ],
        requires(
            p.is_counted(C.size),
            p.is_divided(),
            p.holds_queries([2 * tensors.q.len(), 2 * tensors.out.len()]),
            p.holds_logarithms(4 * tensors.lse.len()),
            p.has_places(tensors.lengths.len(), tensors.table.len()),
            p.holds_keys([C.size * tensors.k.len(), C.size * tensors.v.len()], C.size),
            p.has_factors([tensors.k_scales.len(), tensors.v_scales.len()]),
            p.holds_parts([tensors.scratch.len(), tensors.flags.len()], C.part(), 1)
        )
    )]
    pub fn decode<T, K, const C: Config>(maps: Maps, tensors: Tensors<T, K>, p: DecodeProblem) {
        #[shared(dynamic, align = 1024)]
        let shared: [u8];
        let tiles: u32 = shared;
        let q_tile: u32 = tiles + C.rings();
        let row_stats: u32 = q_tile + 2 * ROWS * (C.head + 8);
        let slot: u32 = row_stats + 8 * ROWS * C.warps;
        let memory = Memory { q_tile, tiles, row_stats, slot };
        let mut ring = Ring::<C>::new(tiles, slot + 16, p.box_tokens);
        grid::overlap();
        let (q_from, lengths_at, tables): (u64, u64, u64) = (tensors.q, tensors.lengths, tensors.table);
        let (k_factors, v_factors): (u64, u64) = (tensors.k_scales, tensors.v_scales);
        let inputs = Inputs {
            cache: Source { k: maps.k_map, v: maps.v_map },
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
