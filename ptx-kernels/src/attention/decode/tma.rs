//! Decode on Hopper: the kernel of `kernel` with tiles that TMA copies, from pages of any size.
//!
//! A tensor map has the cache as (pages, heads, pieces of a row, tokens of a page, 64 elements). A box is `box_tokens` tokens of one head, and a tile of
//! a warp has as many boxes as it takes; each lane copies one. A tile's rows lie in pieces of 128 swizzled bytes, so that `ldmatrix` meets no bank twice.
//! Each warp waits for the barrier of its own tile, as it waits for its own copies in `kernel`.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

mod ring;

use super::problem::DecodeProblem;
use crate::maps::Recent;
use ptx_launch::prelude::*;
use ptx_launch::{Promotion, Result, StreamRef, Swizzle, TensorElement, TensorMap, TensorRef};
use std::cell::RefCell;

/// Maps that a thread keeps: of the caches of all layers of a model.
const KEPT: usize = 256;

thread_local! {
    /// Maps of recent caches.
    static RECENT: RefCell<Recent<Boxes, KEPT>> = const { RefCell::new(Recent::new()) };
}

/// A cache of K or V as a map describes it: pages of tokens of heads, whose rows are pieces of 128 bytes, in boxes of `box_tokens` tokens of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Boxes {
    address: u64,
    /// Pages, heads, pieces of a row, tokens of a page, elements of a piece; and strides in elements.
    shape: [usize; 5],
    strides: [usize; 5],
    tokens: u32,
}

impl Boxes {
    /// Those of a cache; `strides` are those of page, place in a page, and head in bytes.
    fn new<K>(tensor: &TensorRef<'_, K, 4>, [page, slot, head]: [u64; 3], p: &DecodeProblem) -> Self {
        let each = kernels::PIECE as usize / size_of::<K>();
        let shape = [p.pages as usize, p.heads_k as usize, p.dim as usize / each, p.page_size as usize, each];
        // A dimension of one element may have any stride, but a map wants multiples of 16 bytes.
        let stride = |at: usize, bytes: u64| if shape[at] == 1 { each } else { bytes as usize / size_of::<K>() };
        let strides = [stride(0, page), stride(1, head), each, stride(3, slot), 1];
        Boxes { address: tensor.address(), shape, strides, tokens: p.box_tokens }
    }

    /// The map. Fetches of 256 bytes to the second-level cache would read a tenth slower.
    fn encode<K: TensorElement>(&self, stream: StreamRef<'_>) -> Result<TensorMap> {
        let [.., pieces, _, each] = self.shape;
        let map = TensorMap::of_address(stream, K::TYPE, self.address, &self.shape).strides(&self.strides);
        let map = map.tile(&[1, 1, pieces, self.tokens as usize, each]);
        map.swizzle(Swizzle::B128).promotion(Promotion::B128).build()
    }
}

/// The map of K or V; `strides` are those of page, place in a page, and head in bytes.
pub(super) fn map<K: TensorElement>(
    stream: StreamRef<'_>,
    tensor: &TensorRef<'_, K, 4>,
    strides: [u64; 3],
    p: &DecodeProblem,
) -> Result<TensorMap> {
    let boxes = Boxes::new(tensor, strides, p);
    let words = [boxes.address >> 4, u64::from(p.pages), u64::from(p.page_size), u64::from(p.heads_k)];
    RECENT.with_borrow_mut(|recent| recent.map(stream, &boxes, words, || boxes.encode::<K>(stream)))
}

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90",
    params(DecodeProblem),
    parts(ring::ring, super::kernel::products::products, super::kernel::state::state, super::kernel::work::work)
)]
pub(crate) mod kernels {
    use super::DecodeProblem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row: whole pieces, as many as a power of two.
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

    /// Bytes of a piece of a row.
    pub(crate) const PIECE: u32 = 128;

    impl Config {
        /// Keys of a round: a tile of each warp.
        pub(crate) const fn block(&self) -> u32 {
            self.keys * self.warps
        }

        /// Pieces of a row.
        const fn pieces(&self) -> u32 {
            self.size * self.head / PIECE
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

    /// The output of a few queries against a cache. Parameters are those of `kernel`'s `decode`, and the maps of `k` and `v`, whose boxes have
    /// `p.box_tokens` tokens.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = p.blocks(),
        pdl,
        shared = C.shared(),
        max_regs = C.registers(),
        instances = [
            d64 = (bf16, bf16, Config { head: 64, size: 2, warps: 6, keys: 32, stages: 2 }),
            d64 = (f16, f16, Config { head: 64, size: 2, warps: 6, keys: 32, stages: 2 }),
            d128 = (bf16, bf16, Config { head: 128, size: 2, warps: 4, keys: 16, stages: 3 }),
            d128 = (f16, f16, Config { head: 128, size: 2, warps: 4, keys: 16, stages: 3 }),
            d256 = (bf16, bf16, Config { head: 256, size: 2, warps: 3, keys: 16, stages: 2 }),
            d256 = (f16, f16, Config { head: 256, size: 2, warps: 3, keys: 16, stages: 2 }),
            d128_bytes = (bf16, u8, Config { head: 128, size: 1, warps: 4, keys: 32, stages: 3 }),
            d128_bytes = (f16, u8, Config { head: 128, size: 1, warps: 4, keys: 32, stages: 3 }),
            d256_bytes = (bf16, u8, Config { head: 256, size: 1, warps: 3, keys: 32, stages: 2 }),
            d256_bytes = (f16, u8, Config { head: 256, size: 1, warps: 3, keys: 32, stages: 2 }),
        ],
        requires(
            p.covers([q.len(), k.len(), v.len(), out.len(), lse.len()]),
            p.covers_tables([lengths.len(), table.len(), k_scales.len(), v_scales.len(), scratch.len(), flags.len()])
        )
    )]
    pub fn decode<T, K, const C: Config>(
        k_map: TensorMap,
        v_map: TensorMap,
        q: &[T],
        k: &[K],
        v: &[K],
        lengths: &[i32],
        table: &[i32],
        k_scales: &[f32],
        v_scales: &[f32],
        out: &mut [T],
        lse: &mut [f32],
        scratch: &mut [u8],
        flags: &mut [u32],
        p: DecodeProblem,
    ) {
        #[shared(dynamic, align = 1024)]
        let shared: [u8];
        let tiles: u32 = shared;
        let q_tile: u32 = tiles + C.rings();
        let marks: u32 = q_tile + 2 * ROWS * (C.head + 8);
        let slot: u32 = marks + 8 * ROWS * C.warps;
        let memory = Memory { q_tile, tiles, marks, slot };
        let mut ring = Ring::<C>::new(tiles, slot + 16, p.box_tokens);
        grid::overlap();
        let (q_from, lengths_at, tables): (u64, u64, u64) = (q, lengths, table);
        let (k_factors, v_factors): (u64, u64) = (k_scales, v_scales);
        let inputs = Inputs {
            cache: Source { k: k_map, v: v_map },
            q: q_from,
            lengths: lengths_at,
            tables,
            factors: [k_factors, v_factors],
        };
        let (out_to, lse_to, scratch_to, flags_to): (u64, u64, u64, u64) = (out, lse, scratch, flags);
        let results = Results { out: out_to, lse: lse_to, scratch: scratch_to, flags: flags_to };
        attend::<T, C>(&p, &inputs, &mut ring, &memory, &results);
    }
}
