//! Forward with Q, K and V of `e4m3` on Hopper: the loops of [`forward`](super::super::forward), with products of 8 bits.
//!
//! `wgmma` reads operands of 8 bits along K alone, so that V must lie by columns. Three warps beside the one that loads turn each tile
//! of V in shared memory (`flash8`), in the order of keys in which threads hold their weights, as in FlashAttention-3 (Shah et al., 2024).
//!
//! The groups do not take turns at the tensor cores: that is faster here (docs/benchmarks/tried.md). Exponentials are scaled by 2⁶, so
//! that small ones are still normal numbers of `e4m3`.

mod epilogue;
mod loads;
mod mainloop;

use crate::attention::factors::Factors;
use crate::attention::problem::Problem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90a",
    params(Problem, Factors),
    parts(super::super::dense::dense, loads::producers, mainloop::consumer, epilogue::results),
    modules(crate::attention::device::{attention, flash, scores}, super::flash8::flash8)
)]
pub(crate) mod kernels {
    use super::{Factors, Problem};

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Elements of a row of Q, K and V.
        pub head: u32,
        /// Warp groups that multiply, 64 queries each.
        pub groups: u32,
        /// Keys of a tile.
        pub keys: u32,
        /// 1 if a query sees no key behind its own, else 0.
        pub causal: u32,
    }

    /// Tiles of K, of V, and of V by columns, in shared memory.
    const STAGES: u32 = 2;

    /// Warps that turn tiles of V.
    const TURNERS: u32 = 3;

    impl Config {
        /// Queries of a block.
        pub(crate) const fn rows(&self) -> u32 {
            64 * self.groups
        }

        /// Elements of a row in a part of a tile, which are its swizzled bytes.
        pub(crate) const fn width(&self) -> u32 {
            if self.head < 128 { self.head } else { 128 }
        }

        /// Parts of a tile.
        const fn parts(&self) -> u32 {
            self.head / self.width()
        }

        /// Bytes of a part of K or V, and of a tile.
        const fn kv_part(&self) -> u32 {
            self.keys * self.width()
        }

        const fn kv_tile(&self) -> u32 {
            self.keys * self.head
        }

        /// Registers of a thread that multiplies, as an average, and of one that copies.
        const fn setmaxnreg_inc(&self) -> u32 {
            if self.groups == 3 { 160 } else { 232 + self.head / 256 * 8 }
        }

        const fn average(&self) -> u32 {
            65536 / (128 * (self.groups + 1)) / 8 * 8
        }

        const fn setmaxnreg_dec(&self) -> u32 {
            self.average() * (self.groups + 1) - self.setmaxnreg_inc() * self.groups
        }
    }

    /// The tiles of a block in shared memory.
    #[align(1024)]
    struct Tiles<const C: Config> {
        q: [[[u8; 64 * C.width()]; C.groups]; C.parts()],
        k: [[[u8; C.kv_part()]; C.parts()]; STAGES],
        v: [[[u8; C.kv_part()]; C.parts()]; STAGES],
        turned: [[[u8; C.kv_part()]; C.parts()]; STAGES],
    }

    /// The barriers of a block.
    struct Barriers<const C: Config> {
        q: pipeline::Barriers<{ C.groups }>,
        slots: pipeline::Barriers<2>,
        k: pipeline::Barriers<STAGES>,
        v: pipeline::Barriers<STAGES>,
        turned: pipeline::Barriers<STAGES>,
    }

    /// The queries, the slots of work tiles and the rings in shared memory.
    struct Memory<const C: Config> {
        q: flash::Queries<{ C.groups }, { C.parts() }, { C.width() }>,
        slots: flash::Slots<0>,
        k: flash::Ring<STAGES, { C.parts() }, { C.kv_part() }>,
        v: flash::Ring<STAGES, { C.parts() }, { C.kv_part() }>,
        /// V by columns: for each 32 keys core matrices of 8 columns and 16 keys, the second 16 keys behind the first.
        turned: flash::Ring<STAGES, { C.parts() }, { C.kv_part() }>,
    }

    impl<const C: Config> Memory<C> {
        /// All of them. The addresses are in registers: ptxas computes the address of a symbol again for each field.
        fn new(tiles_at: u32, barriers_at: u32, work: Shared<[flash::WorkTile; 2]>) -> Memory<C> {
            let tiles = Shared::<Tiles<C>>::from_addr(tiles_at);
            let barriers = Shared::<Barriers<C>>::from_addr(barriers_at);
            Memory {
                q: flash::Queries::new(tiles.q, barriers.q),
                slots: flash::Slots::new(work, barriers.slots),
                k: flash::Ring::new(tiles.k, barriers.k),
                v: flash::Ring::new(tiles.v, barriers.v),
                turned: flash::Ring::new(tiles.turned, barriers.turned),
            }
        }

        /// Makes the barriers, by one thread.
        fn init(&self) {
            self.q.init();
            self.slots.init::<{ 4 * C.groups + TURNERS }>();
            self.k.init::<{ 4 * C.groups }>();
            self.v.init::<TURNERS>();
            self.turned.init_filled::<TURNERS, { 4 * C.groups }>();
            mbarrier::fence_init();
        }
    }

    /// The tensor maps of Q, K and V.
    struct Maps {
        q_map: TensorMap,
        k_map: TensorMap,
        v_map: TensorMap,
    }

    /// The operands with the factors of their heads, and the results. `q`, `k` and `v` are read through their maps.
    struct Tensors<T> {
        q: &[u8],
        k: &[u8],
        v: &[u8],
        q_factors: &[f32],
        k_factors: &[f32],
        v_factors: &[f32],
        #[align(16)]
        out: &mut [T],
        lse: &mut [f32],
    }

    /// The order of the work tiles: heads of Q whose tiles take turns, and blocks.
    struct Schedule {
        head_block: u32,
        blocks: u32,
    }

    /// O = softmax(Q · Kᵀ · scale) · V times the factors of the heads, and the logarithm of each row's sum of exponentials, by `blocks`
    /// blocks, not more than there are work tiles. The maps are those of `q`, `k` and `v`: (batch, tokens, heads, elements) in boxes of
    /// 64 or `keys` tokens and `width` elements. The first word of `tile_counter` is 0, and is 0 again at the end.
    #[ptx_kernel(
        block = 128 * (C.groups + 1),
        grid = schedule.blocks,
        max_regs = C.average(),
        instances = [
            d64 = ([bf16, f16], Config { head: 64, groups: 3, keys: 160, causal: 0 }),
            d64_causal = ([bf16, f16], Config { head: 64, groups: 3, keys: 160, causal: 1 }),
            d128 = ([bf16, f16], Config { head: 128, groups: 2, keys: 224, causal: 0 }),
            d128_causal = ([bf16, f16], Config { head: 128, groups: 2, keys: 224, causal: 1 }),
            d256 = ([bf16, f16], Config { head: 256, groups: 2, keys: 128, causal: 0 }),
            d256_causal = ([bf16, f16], Config { head: 256, groups: 2, keys: 128, causal: 1 })
        ],
        requires(
            p.is_counted(),
            p.dim == C.head && p.dim_v == C.head,
            p.kv_group > 0 && p.heads % p.kv_group == 0,
            p.covers([tensors.q.len(), tensors.k.len(), tensors.v.len(), tensors.out.len(), tensors.lse.len(), 0]),
            p.holds_queries(2 * tensors.out.len(), p.out, p.dim_v, 2),
            p.holds_logarithms(4 * tensors.lse.len()),
            f.holds([p.batch, p.heads / p.kv_group], [4 * tensors.q_factors.len(), 4 * tensors.k_factors.len(), 4 * tensors.v_factors.len()]),
            p.has_tiles(C.rows(), schedule.blocks) && p.variable == 0,
            schedule.head_block > 0 && p.heads * p.batch % schedule.head_block == 0 && schedule.blocks > 0 && tile_counter.len() > 0
        )
    )]
    pub fn forward<T, const C: Config>(
        maps: Maps,
        tensors: Tensors<T>,
        tile_counter: &mut [u32],
        p: Problem,
        f: Factors,
        schedule: Schedule,
    ) {
        #[shared(dynamic)]
        let tiles: Tiles<C>;
        #[shared]
        let barriers: Barriers<C>;
        #[shared]
        let slots: [flash::WorkTile; 2];
        let (tiles_at, barriers_at): (u32, u32) = (tiles, barriers);
        let memory = Memory::<C>::new(tiles_at, barriers_at, slots);
        if tid.x == 0 {
            memory.init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<{ C.setmaxnreg_dec() }>();
            if tid.x >= 32 {
                turn_values::<C>(&memory);
            } else if tid.x == 0 {
                let (maps, counter): (flash::Maps, u64) =
                    (flash::Maps { q: maps.q_map, k: maps.k_map, v: maps.v_map }, tile_counter);
                load::<C>(&memory, &maps, &p, schedule.head_block, counter);
            }
        } else {
            wgmma::more_registers::<{ C.setmaxnreg_inc() }>();
            let factors: [u64; 3];
            factors = [tensors.q_factors, tensors.k_factors, tensors.v_factors];
            let descale = attention::Descale { factors, strides: [f.q, f.k, f.v], given: f.reach };
            let mut consumer = Consumer::<T, C>::new(&memory);
            let (to, lse_to): (u64, u64) = (tensors.out, tensors.lse);
            consumer.run(&memory, &p, &descale, to, lse_to);
        }
    }
}
