//! Forward on Hopper: TMA, `wgmma`, warp specialization, persistent blocks.
//!
//! One warp group copies tiles of K and V by TMA into two rings; each of the others owns 64 queries. The order is that of FlashAttention-3 (Shah et
//! al., 2024): the product S = Q · Kᵀ of the next tile and O += P · V of this one are on the tensor cores together, and the exponentials of the
//! next tile are computed while O += P · V runs.
//!
//! ```text
//!                prologue │ main loop, tile j                                │ tile j - 1            │ after the loop
//! tensor cores   S(n)     │ S(j) ──────┬ P·V(j+1) ──────────────┐            │ S(j-1) ─┬ P·V(j) ──┐  │ P·V(0)
//! warp group         P(n) │ wait for S │ mask, P(j) in two parts │ P(j) → 16b │      P(j-1)        │  │        epilogue:
//!                         │            └ first part              └ second     │                       │        O / row_sum
//! producer       K, V of later tiles, and Q, K, V of the next work tile, as stages and queries are released
//! ```
//!
//! The exponentials of a tile take one of three ways; `softmax` has all of them:
//!
//! | way | when | reference of the exponentials | cost |
//! |---|---|---|---|
//! | `softmax_online` | rows of V of more than 128 elements | the running maximum, as in FlashAttention-3: O is rescaled when it grows | a maximum of each tile |
//! | `softmax_speculative` | otherwise | the largest score of the first tile, which cancels when O is divided by the sums | none while the sums stay below a limit |
//! | `softmax_correct`, `softmax_recompute` | a sum exceeds its limit | the large key's score; or, where exponentials do not fit 16 bits, the maximum of the scores, which are computed again | rare |
//!
//! A key with a large part of a row's sum becomes the reference, as with a running maximum: its weight is then a power of 2, so that rounding does not
//! change it. Rows of V of more than 128 elements have few keys in a tile, and the producer needs the stages of K before the exponentials are done.
//!
//! Blocks are persistent: a block claims the next work tile by a counter in memory. The epilogue of a work tile runs while the first scores of the next
//! one are on the tensor cores.

mod epilogue;
mod loads;
mod mainloop;
mod mask;
mod softmax;

use crate::attention::problem::Problem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_90a",
    params(Problem),
    parts(super::dense::dense, loads::producer, mainloop::consumer, softmax::exponentials, mask::masks, epilogue::results),
    modules(crate::attention::device::{attention, flash, scores})
)]
pub(crate) mod kernels {
    use super::Problem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of Q and K, and of V: all of them, unless `masked`.
        pub head: u32,
        pub head_v: u32,
        /// Warp groups that multiply, 64 queries each.
        pub groups: u32,
        /// Keys of a tile.
        pub keys: u32,
        /// 1 if a query sees no key behind its own, else 0.
        pub causal: u32,
        /// 1 for packed sequences, windows, a soft cap, a bias and any number of elements, by the call's options; then `causal` is 0.
        pub masked: u32,
        /// Tiles of K, and of V, in shared memory.
        pub stages: u32,
    }

    impl Config {
        /// Queries of a block.
        pub(crate) const fn rows(&self) -> u32 {
            64 * self.groups
        }

        /// Parts of 64 columns of a tile of Q or K, whose rows are 128 bytes.
        const fn parts(&self) -> u32 {
            self.head.div_ceil(64)
        }

        /// The same of V.
        const fn parts_v(&self) -> u32 {
            self.head_v.div_ceil(64)
        }

        /// Bytes of a part of Q.
        const fn q_part(&self) -> u32 {
            self.rows() * 128
        }

        /// Bytes of a part of K or V.
        const fn kv_part(&self) -> u32 {
            self.keys * 128
        }

        /// Groups of 8 columns of P whose exponentials hide the product with V: the more, the wider its rows are. None in rows of more than 128
        /// elements.
        const fn hiding(&self) -> u32 {
            if self.head_v > 128 { 0 } else { self.keys * self.head_v / 2048 }
        }

        /// Registers of a thread that multiplies.
        const fn setmaxnreg_inc(&self) -> u32 {
            if self.groups == 2 { 240 } else { 160 }
        }

        /// Registers of a thread that copies.
        const fn setmaxnreg_dec(&self) -> u32 {
            if self.groups == 2 { 24 } else { 32 }
        }
    }

    /// The tiles of a block in shared memory.
    #[align(1024)]
    struct Tiles<const C: Config> {
        q: [[[u8; 64 * 128]; C.groups]; C.parts()],
        k: [[[u8; C.kv_part()]; C.parts()]; C.stages],
        v: [[[u8; C.kv_part()]; C.parts_v()]; C.stages],
    }

    /// The barriers of a block.
    struct Barriers<const C: Config> {
        q: pipeline::Barriers<{ C.groups }>,
        slots: pipeline::Barriers<2>,
        k: pipeline::Barriers<{ C.stages }>,
        v: pipeline::Barriers<{ C.stages }>,
    }

    /// The queries, the slots of work tiles and the rings in shared memory.
    struct Memory<const C: Config> {
        q: flash::Queries<{ C.groups }, { C.parts() }, 128>,
        slots: flash::Slots<{ C.masked }>,
        k: flash::Ring<{ C.stages }, { C.parts() }, { C.kv_part() }>,
        v: flash::Ring<{ C.stages }, { C.parts_v() }, { C.kv_part() }>,
    }

    impl<const C: Config> Memory<C> {
        /// All of them. The addresses are in registers: ptxas computes the address of a symbol again for each field.
        fn new(tiles_at: u32, barriers_at: u32, work: Shared<[flash::WorkTile; 2 + 2 * C.masked]>) -> Memory<C> {
            let tiles = Shared::<Tiles<C>>::from_addr(tiles_at);
            let barriers = Shared::<Barriers<C>>::from_addr(barriers_at);
            Memory {
                q: flash::Queries::new(tiles.q, barriers.q),
                slots: flash::Slots::new(work, barriers.slots),
                k: flash::Ring::new(tiles.k, barriers.k),
                v: flash::Ring::new(tiles.v, barriers.v),
            }
        }

        /// Makes the barriers, by one thread.
        fn init(&self) {
            self.q.init();
            self.slots.init::<{ 4 * C.groups }>();
            self.k.init::<{ 4 * C.groups }>();
            self.v.init::<{ 4 * C.groups }>();
            mbarrier::fence_init();
        }
    }

    /// The tensor maps of Q, K and V.
    struct Maps {
        q_map: TensorMap,
        k_map: TensorMap,
        v_map: TensorMap,
    }

    /// The operands and the results. `q`, `k` and `v` are read through their maps.
    struct Tensors<T> {
        q: &[T],
        k: &[T],
        v: &[T],
        bias: &[T],
        #[align(16)]
        out: &mut [T],
        lse: &mut [f32],
    }

    /// The order of the work tiles: heads of Q whose tiles take turns, blocks, and the cumulative lengths of packed sequences.
    struct Schedule {
        head_block: u32,
        blocks: u32,
        starts_q: &[i32],
        starts_k: &[i32],
    }

    /// O = softmax(Q · Kᵀ · scale) · V, and the logarithm of each row's sum of exponentials, by `blocks` blocks, not more than there are
    /// work tiles. The maps are those of `q`, `k` and `v`: (batch, tokens, heads, elements) in boxes of 64 or `keys` tokens and 64
    /// elements; with cumulative lengths the batch is 1, and there is no bias. The first words of `tile_counter` are 0, and are 0 again at the end.
    #[ptx_kernel(
        block = 128 * (C.groups + 1),
        grid = schedule.blocks,
        max_regs = 65536 / (128 * (C.groups + 1)) / 8 * 8,
        instances = [
            d64 = ([bf16, f16], Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 0, masked: 0, stages: 3 }),
            d64_causal = ([bf16, f16], Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 1, masked: 0, stages: 3 }),
            d128 = ([bf16, f16], Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 0, stages: 3 }),
            d128_causal = ([bf16, f16], Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 1, masked: 0, stages: 3 }),
            d256_causal = ([bf16, f16], Config { head: 256, head_v: 256, groups: 2, keys: 80, causal: 1, masked: 0, stages: 2 }),
            d64_masked = ([bf16, f16], Config { head: 64, head_v: 64, groups: 3, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d96_masked = ([bf16, f16], Config { head: 96, head_v: 96, groups: 2, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d128_masked = ([bf16, f16], Config { head: 128, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 1, stages: 3 }),
            d192_masked = ([bf16, f16], Config { head: 192, head_v: 128, groups: 2, keys: 128, causal: 0, masked: 1, stages: 2 }),
            d256_masked = ([bf16, f16], Config { head: 256, head_v: 256, groups: 2, keys: 80, causal: 0, masked: 1, stages: 2 })
        ],
        requires(
            C.masked == 1 || p.dim == C.head && p.dim_v == C.head,
            p.covers([tensors.q.len(), tensors.k.len(), tensors.v.len(), tensors.out.len(), tensors.lse.len(), tensors.bias.len()]),
            p.holds_queries(2 * tensors.out.len(), p.out, p.dim_v, 2),
            p.holds_logarithms(4 * tensors.lse.len()),
            p.separates(schedule.starts_q.len(), schedule.starts_k.len()),
            p.has_tiles(C.rows(), schedule.blocks) && (C.masked == 1 || p.variable == 0),
            schedule.head_block > 0 && p.heads * p.batch % schedule.head_block == 0 && schedule.blocks > 0 && tile_counter.len() > 1
        )
    )]
    pub fn forward<T, const C: Config>(
        maps: Maps,
        tensors: Tensors<T>,
        tile_counter: &mut [u32],
        p: Problem,
        schedule: Schedule,
    ) {
        #[shared(dynamic)]
        let tiles: Tiles<C>;
        #[shared]
        let barriers: Barriers<C>;
        #[shared]
        let slots: [flash::WorkTile; 2 + 2 * C.masked];
        let (tiles_at, barriers_at): (u32, u32) = (tiles, barriers);
        let memory = Memory::<C>::new(tiles_at, barriers_at, slots);
        if tid.x == 0 {
            memory.init();
        }
        block::sync();
        if tid.x < 128 {
            wgmma::fewer_registers::<{ C.setmaxnreg_dec() }>();
            if tid.x == 0 {
                let (maps, counter): (flash::Maps, u64) =
                    (flash::Maps { q: maps.q_map, k: maps.k_map, v: maps.v_map }, tile_counter);
                if C.masked == 1 {
                    load_masked::<C>(
                        &memory,
                        &maps,
                        &p,
                        [schedule.starts_q, schedule.starts_k],
                        schedule.head_block,
                        counter,
                    );
                } else {
                    load::<C>(&memory, &maps, &p, schedule.head_block, counter);
                }
            }
        } else {
            wgmma::more_registers::<{ C.setmaxnreg_inc() }>();
            let bias_from: u64 = tensors.bias;
            let mut consumer = Consumer::<T, C>::new(&memory, &p, bias_from);
            let (to, lse_to): (u64, u64) = (tensors.out, tensors.lse);
            consumer.run(&memory, &p, to, lse_to);
        }
    }
}
