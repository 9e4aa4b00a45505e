//! Decode of latent attention (MLA) on `sm_80` and newer: all heads of Q share one head of the cache, and V is the first part of its rows.
//!
//! A block has 64 packed rows of Q and walks over tiles of keys, which its eight warps share: two warps have the same sixteen rows. Each
//! computes the scores of half of the keys, leaves the weights in shared memory, and multiplies all of them by half of the columns of V,
//! which are those of the same tile. `walk` divides the keys of all sequences among blocks.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

use super::problem::DecodeProblem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch("sm_80", "sm_90"),
    params(DecodeProblem),
    parts(super::walk::walk),
    modules(crate::attention::device::{attention, kv_cache})
)]
pub(crate) mod kernels {
    use super::DecodeProblem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of the cache, and of its part that is V.
        pub head: u32,
        pub head_v: u32,
        /// Packed rows of a block: 16 for each two warps.
        pub rows: u32,
        /// Keys of a tile, and tiles in shared memory.
        pub keys: u32,
        pub stages: u32,
    }

    impl Config {
        /// Threads of a block.
        pub(crate) const fn threads(&self) -> u32 {
            4 * self.rows
        }

        /// Bytes from row to row of Q and of a tile: 16 more than they need, so that `ldmatrix` meets no bank twice.
        const fn pitch(&self) -> u32 {
            2 * self.head + 16
        }

        /// Bytes of a tile of keys.
        const fn tile(&self) -> u32 {
            self.keys * self.pitch()
        }

        /// Bytes of Q and the tiles; later there are the sums.
        const fn tiles(&self) -> u32 {
            self.rows * self.pitch() + self.stages * self.tile()
        }

        /// Bytes of shared memory: these, the weights, two numbers of each row from both of its warps, and a number.
        pub(crate) const fn shared(&self) -> u32 {
            self.tiles() + self.rows * (2 * self.keys + 16) + 16 * self.rows + 16
        }

        /// Bytes of a block's part of a problem.
        pub(crate) const fn part(&self) -> u32 {
            4 * self.rows * (self.head_v + 1)
        }
    }

    /// The cache of a sequence.
    struct Cache {
        from: u64,
        strides: [u64; 2],
        places: kv_cache::Pages,
        len: u32,
        dim: u32,
    }

    impl Cache {
        /// Begins to copy a tile of keys from `token` on; those behind the last one become zeros. Eight threads copy a row.
        fn copy<const C: Config>(&self, tile: u32, token: u32) {
            const STEP: u32 = C.threads() / 8;
            let column: u32 = tid.x % 8 * 16;
            for i in 0..C.keys / STEP {
                let row: u32 = tid.x / 8 + STEP * i;
                let known: pred = token + row < self.len;
                let (mut page, mut slot): (u32, u32) = (0, 0);
                if known {
                    (page, slot) = self.places.find_own(token + row);
                    page = self.places.page(page);
                    // A limit that holds on either way.
                    slot = slot.min(self.places.size - 1);
                }
                cut!(page < self.places.count && slot < self.places.size);
                let from: u64 =
                    self.from + page as u64 * self.strides[0] + slot as u64 * self.strides[1] + column as u64;
                let to: u32 = tile + row * C.pitch() + column;
                for j in 0..C.head / 64 {
                    let inside: pred = known & (column + 128 * j < 2 * self.dim);
                    cp_async::copy16_zero(to + 128 * j, from + (128 * j) as u64, inside.select(16, 0));
                }
            }
        }
    }

    /// The shared memory of a warp: its rows of Q, their weights, and numbers that it exchanges with the other warp of its rows.
    struct Memory<const C: Config> {
        q: u32,
        weights: u32,
        row_stats: u32,
        part: u32,
        barrier: u32,
    }

    impl<const C: Config> Memory<C> {
        /// That of this warp: even warps have the first half of the keys, and of the columns of V.
        fn new(memory: u32) -> Memory<C> {
            let (rows, part): (u32, u32) = (tid.x / 64, tid.x / 32 % 2);
            let weights: u32 = memory + C.tiles() + rows * (16 * (2 * C.keys + 16));
            let row_stats: u32 = memory + C.tiles() + C.rows * (2 * C.keys + 16) + rows * 256;
            Memory { q: memory + rows * (16 * C.pitch()), weights, row_stats, part, barrier: rows + 1 }
        }

        /// The address of this lane's number `half`, as this warp (`other` = 0) or the other one leaves it.
        fn stats_at(&self, half: u32, other: u32) -> u32 {
            self.row_stats + ((laneid / 4 + 8 * half) << 4) + ((self.part ^ other) << 3)
        }
    }

    /// State of a warp: sums over all keys so far for half of the columns, the largest scores, and the sums over its keys.
    struct State<const C: Config> {
        o: [[[f32; 4]; C.head_v / 16]; 1],
        most: [f32; 2],
        sum: [f32; 2],
    }

    impl<const C: Config> State<C> {
        /// No keys.
        fn new() -> State<C> {
            let o: [[[f32; 4]; C.head_v / 16]; 1];
            let most: [f32; 2];
            fragment::clear(&mut o);
            ptx! {
                mov.f32 most[0], 0fFF800000;
                mov.f32 most[1], 0fFF800000;
            }
            State { o, most, sum: [0.0, 0.0] }
        }

        /// Adds a tile, whose first key is `first`. Both warps of a row agree on its largest score.
        fn add<T>(&mut self, memory: &Memory<C>, tile: u32, scores: &kv_cache::Scores, first: u32) {
            const NT: u32 = C.keys / 16;
            let own: u32 = memory.part * (C.keys / 2);
            let s: [[[f32; 4]; NT]; 1];
            multiply_keys::<T, C>(&mut s, memory.q, tile + own * C.pitch());
            scores.change::<NT>(&mut s, first + own);
            for half in 0..2 {
                let mut x: f32 = self.most[half];
                for j in 0..NT {
                    x = x.max(s[0][j][2 * half]).max(s[0][j][2 * half + 1]);
                }
                x = fragment::quad_max(x);
                let (to, first): (u32, pred) = (memory.stats_at(half, 0), laneid % 4 == 0);
                ptx! { @first st.shared.f32 [to], x; }
            }
            barrier::sync::<64>(memory.barrier);
            for half in 0..2 {
                let (mine, theirs): (f32, f32);
                let (own_at, other_at): (u32, u32) = (memory.stats_at(half, 0), memory.stats_at(half, 1));
                ptx! {
                    ld.shared.f32 mine, [own_at];
                    ld.shared.f32 theirs, [other_at];
                }
                let most: f32 = mine.max(theirs);
                let mut base: f32 = most * scores.exponent;
                base = (base < -3.0e38).select(0.0, base);
                let rescale: f32 = attention::power(self.most[half], scores.exponent, base);
                let mut sum: f32 = 0.0;
                for j in 0..NT {
                    for e in 0..2 {
                        s[0][j][2 * half + e] = attention::power(s[0][j][2 * half + e], scores.exponent, base);
                        sum += s[0][j][2 * half + e];
                    }
                }
                self.most[half] = most;
                self.sum[half] = self.sum[half].fma(rescale, sum);
                for j in 0..C.head_v / 16 {
                    self.o[0][j][2 * half] *= rescale;
                    self.o[0][j][2 * half + 1] *= rescale;
                }
            }
            fragment::store::<T, { C.keys }, 1, NT>(&s, memory.weights + 2 * own);
            barrier::sync::<64>(memory.barrier);
            let a: u32 = fragment::rows_a::<{ C.keys }>(memory.weights);
            let b: u32 = fragment::rows_a::<{ C.head }>(tile) + memory.part * C.head_v;
            for k in 0..C.keys / 16 {
                let weights: [b32; 4] = matrix::load_x4(a + 32 * k);
                for j in 0..C.head_v / 32 {
                    let values: [b32; 4] = matrix::load_x4_transposed(b + (16 * k * C.pitch() + 32 * j));
                    matrix::multiply::<T>(&mut self.o[0][2 * j], weights, [values[0], values[1]]);
                    matrix::multiply::<T>(&mut self.o[0][2 * j + 1], weights, [values[2], values[3]]);
                }
            }
        }

        /// Leaves the sums at `sums`, as `f32` of `head_v` a row, and largest scores in powers of 2 and sums of exponentials as row_stats.
        fn store_partial(&self, memory: &Memory<C>, sums: u32, exponent: f32) {
            for half in 0..2 {
                let (total, most): (f32, f32) = (fragment::quad_sum(self.sum[half]), self.most[half] * exponent);
                let (to, first): (u32, pred) = (memory.stats_at(half, 0), laneid % 4 == 0);
                ptx! { @first st.shared.v2.f32 [to], {most, total}; }
                let row: u32 = tid.x / 64 * 16 + laneid / 4 + 8 * half;
                let at: u32 = sums + (row * C.head_v + memory.part * (C.head_v / 2) + laneid % 4 * 2) * 4;
                for j in 0..C.head_v / 16 {
                    ptx! { st.shared.v2.f32 [at + 32 * j], {self.o[0][j][2 * half], self.o[0][j][2 * half + 1]}; }
                }
            }
        }
    }

    /// Scores of a warp's rows and half of a tile of keys, in two sums each, which follow on each other less often.
    fn multiply_keys<T, const C: Config>(s: &mut [[[f32; 4]; C.keys / 16]; 1], q: u32, keys: u32) {
        let (a, b): (u32, u32) = (fragment::rows_a::<{ C.head }>(q), fragment::rows_b::<{ C.head }>(keys));
        let odd: [[[f32; 4]; C.keys / 16]; 1];
        fragment::clear(s);
        fragment::clear(&mut odd);
        for k in 0..C.head / 16 {
            let left: [b32; 4] = matrix::load_x4(a + 32 * k);
            for j in 0..C.keys / 32 {
                let right: [b32; 4] = matrix::load_x4(b + (16 * j * C.pitch() + 32 * k));
                if k % 2 == 0 {
                    matrix::multiply::<T>(&mut s[0][2 * j], left, [right[0], right[1]]);
                    matrix::multiply::<T>(&mut s[0][2 * j + 1], left, [right[2], right[3]]);
                } else {
                    matrix::multiply::<T>(&mut odd[0][2 * j], left, [right[0], right[1]]);
                    matrix::multiply::<T>(&mut odd[0][2 * j + 1], left, [right[2], right[3]]);
                }
            }
        }
        for j in 0..C.keys / 16 {
            for e in 0..4 {
                s[0][j][e] += odd[0][j][e];
            }
        }
    }

    /// Reads a row of `State::store_partial`, by a warp, divided by its sum of exponentials; returns the logarithm of that sum.
    fn read_row<const C: Config>(sums: u32, row_stats: u32, row: u32, columns: &mut [f32; C.head_v / 32]) -> f32 {
        let (most, first, _most, second): (f32, f32, f32, f32);
        let (stats_at, at): (u32, u32) = (row_stats + (row << 4), sums + (row * C.head_v + laneid) * 4);
        ptx! { ld.shared.v4.f32 {most, first, _most, second}, [stats_at]; }
        let sum: f32 = first + second;
        let by: f32 = attention::inverse(sum);
        for j in 0..C.head_v / 32 {
            ptx! { ld.shared.f32 columns[j], [at + 128 * j]; }
            columns[j] *= by;
        }
        attention::log2(sum) + most
    }

    /// The output of a few queries against a cache whose rows are K, and in their first part V. Parameters are those of `decode`.
    #[ptx_kernel(
        block = C.threads(),
        grid = p.blocks(),
        pdl,
        shared = C.shared(),
        instances = [
            d576 = ([bf16, f16], Config { head: 576, head_v: 512, rows: 64, keys: 32, stages: 2 })
        ],
        unsafe(requires(
            p.is_counted(2),
            p.is_divided(),
            p.has_one_head(),
            p.holds_queries([2 * tensors.q.len(), 2 * tensors.out.len()]),
            p.holds_logarithms(4 * tensors.lse.len()),
            p.has_places(tensors.lengths.len(), tensors.table.len()),
            p.holds_keys([2 * tensors.cache.len(), 2 * tensors.cache.len()], 2),
            p.holds_parts([tensors.scratch.len(), tensors.flags.len()], C.part(), 1)
        ))
    )]
    pub fn latent<T, const C: Config>(tensors: Tensors<T>, p: DecodeProblem) {
        const TILE: u32 = C.tile();
        #[shared(dynamic, align = 16)]
        let dynamic: [u8];
        grid::overlap();
        let base: u32 = dynamic;
        let memory = Memory::<C>::new(base);
        let (tiles, row_stats): (u32, u32) = (base + C.rows * C.pitch(), base + C.tiles() + C.rows * (2 * C.keys + 16));
        let (lengths_at, tables, q_from, cache_from): (u64, u64, u64, u64) =
            (tensors.lengths, tensors.table, tensors.q, tensors.cache);
        let (out_to, lse_to, scratch_to, flags_to): (u64, u64, u64, u64) =
            (tensors.out, tensors.lse, tensors.scratch, tensors.flags);
        let output = kv_cache::Output {
            out: out_to,
            lse: lse_to,
            out_strides: p.out,
            lse_strides: p.lse,
            dim: p.dim_v,
            logged: p.logged,
        };
        let mut walk = Walk::<{ C.rows }, { C.keys }>::new(&p, lengths_at);
        while walk.round < walk.last {
            let work: Work = walk.work(&p);
            let packed = work.packed;
            let own = Cache {
                from: cache_from,
                strides: [p.k[0], p.k[1]],
                places: kv_cache::Pages::of_sequence(tables, p.table_pages, packed.sequence, p.page_size, p.pages),
                len: work.len,
                dim: p.dim,
            };
            block::sync();
            packed.copy::<{ C.rows }, { C.head }, { C.threads() }>(base, q_from, p.q, p.dim);
            let (mut at, mut tile): (u32, u32) = (work.at, tiles);
            own.copy::<C>(tile, at * C.keys);
            cp_async::commit();
            let upper: u32 = packed.query(tid.x / 64 * 16 + laneid / 4);
            let lower: u32 = packed.query(tid.x / 64 * 16 + laneid / 4 + 8);
            let scores = kv_cache::Scores {
                mask: walk.sequences.mask(work.len),
                queries: [upper, lower],
                last: p.tokens - 1,
                factors: [p.scale, p.soft_cap],
                exponent: p.exponent,
            };
            let mut state = State::<C>::new();
            while at < work.end {
                let (this, first): (u32, u32) = (tile, at * C.keys);
                at += 1;
                tile = tiles + tiles + TILE - tile;
                if at < work.end {
                    own.copy::<C>(tile, at * C.keys);
                }
                cp_async::commit();
                cp_async::wait::<1>();
                block::sync();
                state.add::<T>(&memory, this, &scores, first);
                block::sync();
            }
            state.store_partial(&memory, base, p.exponent);
            block::sync();

            let (first, part, count): (u32, u32, u32) = walk.owners(&work);
            let parts = kv_cache::Parts::<{ C.rows }, { C.head_v }> { scratch: scratch_to, first, count };
            let mut row: u32 = tid.x / 32;
            // Proofs take all turns at once.
            invariant!(row < C.rows + C.threads() / 32);
            while row < C.rows {
                let own: u32 = row;
                cut!(own < C.rows);
                if packed.has(own) {
                    let columns: [f32; C.head_v / 32];
                    let log: f32 = read_row::<C>(base, row_stats, own, &mut columns);
                    if count == 1 {
                        output.write::<T, { C.head_v }>(&packed, own, &columns, log);
                    } else {
                        parts.store(part, own, &columns, log);
                    }
                }
                row += C.threads() / 32;
            }
            let slot: u32 = row_stats + 16 * C.rows;
            parts.reduce::<T, { C.threads() / 32 }>(&output, &packed, flags_to + wide(first) * 4, slot);
            walk.advance(&work);
        }
    }
}
