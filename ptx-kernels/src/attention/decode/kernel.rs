//! Decode on `sm_80` and newer: few queries, many keys, which lie in a cache. Memory decides its speed.
//!
//! The queries of all heads that share a head of the cache are the rows of one product, so that every key is read once. The keys of all
//! sequences are a line of rounds, `block()` keys each. Groups of blocks take equal pieces of that line, and each block of a group one
//! head, so that all heads of a token are read at about the same time: they share pages of the memory chips. Each warp has a ring of
//! tiles of its own (`ring`), which rows reach by `cp.async` and no other warp waits for. At the end of a head a warp leaves its sums in the
//! free stage of its ring, while rows of the next head are on their way to the others, and the block adds up its warps' parts; where several blocks share a head, the last one to arrive adds up theirs (Flash-Decoding, Dao et al., 2023; stream-K,
//! Osama et al., 2023).
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

mod products;
mod ring;
mod state;

use super::problem::DecodeProblem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch("sm_80", "sm_90"), params(DecodeProblem), parts(ring::ring, products::products, state::state))]
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

    /// A factor of a head, or 1 without factors.
    fn factor(factors: u64, scaled: u32, head: u32) -> f32 {
        let (mut by, at, some): (f32, u64, pred);
        (by, at, some) = (1.0, factors + wide(head) * 4, scaled != 0);
        ptx! { @some ld.global.nc.f32 by, [at]; }
        by
    }

    /// A block's part of one sequence: its rounds, counted from the first one of the sequence.
    struct Work {
        extent: kv_cache::Extent,
        from: u32,
        until: u32,
        head_k: u32,
        packed: kv_cache::Packed,
    }

    impl Work {
        /// The part that begins with round `rounds[0]`, of head and tile of rows `number`; the block's rounds end before `rounds[1]`.
        fn new(
            p: &DecodeProblem,
            extent: kv_cache::Extent,
            place: &kv_cache::Place,
            number: u32,
            rounds: [u32; 2],
        ) -> Work {
            let (from, until): (u32, u32) = (rounds[0] - place.first, (rounds[1] - place.first).min(extent.rounds));
            let head_k: u32 = number / p.row_tiles;
            let packed = kv_cache::Packed {
                sequence: place.sequence,
                first: (number - head_k * p.row_tiles) * ROWS,
                count: p.tokens * p.group,
                group: p.group,
                head: head_k * p.group,
            };
            Work { extent, from, until, head_k, packed }
        }

        /// The scores of its rows; `factor` is that of K.
        fn scores(&self, p: &DecodeProblem, mask: attention::Mask, factor: f32) -> kv_cache::Scores {
            let (upper, _upper_head): (u32, u32) = self.packed.locate(laneid / 4);
            let (lower, _lower_head): (u32, u32) = self.packed.locate(laneid / 4 + 8);
            let capped: pred = p.soft_cap > 0.0;
            kv_cache::Scores {
                mask,
                queries: [upper, lower],
                last: p.tokens - 1,
                factors: [p.scale * factor, p.soft_cap],
                exponent: capped.select(p.exponent, p.exponent * factor),
            }
        }

        /// The cache of its head and sequence.
        fn cache<const C: Config>(&self, p: &DecodeProblem, from: [u64; 2], tables: u64) -> Cache {
            let sequence: u32 = self.packed.sequence;
            Cache {
                from: [from[0] + p.k[2] * self.head_k as u64, from[1] + p.v[2] * self.head_k as u64],
                pages: [p.k[0], p.v[0]],
                slots: [p.k[1], p.v[1]],
                bytes: [p.dim * C.size, p.dim_v * C.size],
                places: kv_cache::Pages::of_sequence(tables, p.table_pages, sequence, p.page_size, p.pages),
                len: self.extent.len,
            }
        }

        /// Begins to copy its rows of Q, and this warp's tiles of the first rounds.
        fn begin<const C: Config>(&self, p: &DecodeProblem, ring: &mut Ring<C>, cache: &Cache, q_tile: u32, q: u64) {
            self.packed.copy::<ROWS, { C.head }, { 32 * C.warps }>(q_tile, q, p.q, p.dim);
            cp_async::commit();
            let (mut next, end): (u32, u32) = (self.extent.begin + self.from, self.extent.begin + self.until);
            ring.find(cache, next);
            for _i in 0..C.stages - 1 {
                if next < end {
                    ring.begin(cache, next);
                }
                cp_async::commit();
                next += 1;
            }
        }

        /// Adds up this warp's tiles of the rounds. `begin` has begun to copy the first tiles and the rows of Q.
        fn attend<T, const C: Config>(
            &self,
            ring: &mut Ring<C>,
            cache: &Cache,
            scores: &kv_cache::Scores,
            q_tile: u32,
        ) -> State<C> {
            cp_async::wait::<{ C.stages - 1 }>();
            block::sync();
            let queries: [[b32; 4]; C.head / 16] = load_queries::<T, C>(q_tile);
            let mut state = State::<C>::new();
            let (mut at, end): (u32, u32) = (self.extent.begin + self.from, self.extent.begin + self.until);
            while at < end {
                if at + (C.stages - 1) < end {
                    ring.begin(cache, at + (C.stages - 1));
                }
                cp_async::commit();
                let (tile, first): (u32, u32) = (ring.wait(), at * C.block() + tid.x / 32 * C.keys);
                if first < self.extent.len {
                    state.add::<T>(&queries, tile, scores, first);
                }
                ring.advance();
                at += 1;
            }
            state
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
            d64 = (bf16, bf16, Config { head: 64, size: 2, warps: 4, keys: 32, stages: 3 }),
            d64 = (f16, f16, Config { head: 64, size: 2, warps: 4, keys: 32, stages: 3 }),
            d96 = (bf16, bf16, Config { head: 96, size: 2, warps: 4, keys: 16, stages: 4 }),
            d96 = (f16, f16, Config { head: 96, size: 2, warps: 4, keys: 16, stages: 4 }),
            d128 = (bf16, bf16, Config { head: 128, size: 2, warps: 4, keys: 16, stages: 3 }),
            d128 = (f16, f16, Config { head: 128, size: 2, warps: 4, keys: 16, stages: 3 }),
            d256 = (bf16, bf16, Config { head: 256, size: 2, warps: 2, keys: 16, stages: 3 }),
            d256 = (f16, f16, Config { head: 256, size: 2, warps: 2, keys: 16, stages: 3 }),
            d64_bytes = (bf16, u8, Config { head: 64, size: 1, warps: 4, keys: 32, stages: 4 }),
            d64_bytes = (f16, u8, Config { head: 64, size: 1, warps: 4, keys: 32, stages: 4 }),
            d128_bytes = (bf16, u8, Config { head: 128, size: 1, warps: 4, keys: 32, stages: 3 }),
            d128_bytes = (f16, u8, Config { head: 128, size: 1, warps: 4, keys: 32, stages: 3 }),
            d256_bytes = (bf16, u8, Config { head: 256, size: 1, warps: 2, keys: 32, stages: 3 }),
            d256_bytes = (f16, u8, Config { head: 256, size: 1, warps: 2, keys: 32, stages: 3 }),
        ],
        unsafe(requires(
            p.covers([q.len(), k.len(), v.len(), out.len(), lse.len()]),
            p.covers_tables([lengths.len(), table.len(), k_scales.len(), v_scales.len(), scratch.len(), flags.len()])
        ))
    )]
    pub fn decode<T, K, const C: Config>(
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
        #[shared(dynamic, align = 16)]
        let memory: [u8];
        grid::overlap();
        let q_tile: u32 = memory;
        let tiles: u32 = q_tile + 2 * ROWS * (C.head + 8);
        let marks: u32 = tiles + C.rings();
        let slot: u32 = marks + 8 * ROWS * C.warps;
        let mut ring = Ring::<C>::new(tiles);
        let (lengths_at, tables): (u64, u64) = (lengths, table);
        let (q_from, k_from, v_from): (u64, u64, u64) = (q, k, v);
        let (out_to, lse_to, scratch_to, flags_to): (u64, u64, u64, u64) = (out, lse, scratch, flags);
        let (k_factors, v_factors): (u64, u64) = (k_scales, v_scales);
        let output = kv_cache::Output {
            out: out_to,
            lse: lse_to,
            out_strides: p.out,
            lse_strides: p.lse,
            dim: p.dim_v,
            logged: p.logged,
        };

        let heads: u32 = p.heads_k * p.row_tiles;
        let (groups, group): (u32, u32) = (nctaid.x / heads, ctaid.x / heads);
        let number: u32 = ctaid.x - group * heads;
        let (batch, tokens, capacity): (u32, u32, u32) = (p.batch, p.tokens, p.capacity);
        let sequences = kv_cache::Sequences::<{ C.block() }> {
            lengths: lengths_at,
            batch,
            tokens,
            capacity,
            left: p.left,
            right: p.right,
        };
        let shares = scheduler::Shares::new(sequences.total(), groups);
        let (mut round, last): (u32, u32) = (shares.begin(group), shares.begin(group + 1));
        if round == last {
            return;
        }
        let mut place: kv_cache::Place = sequences.find(round);
        let mut work = Work::new(&p, sequences.extent(place.sequence), &place, number, [round, last]);
        let mut cache: Cache = work.cache::<C>(&p, [k_from, v_from], tables);
        work.begin(&p, &mut ring, &cache, q_tile, q_from);
        while round < last {
            let done = work;
            let first_round: u32 = place.first;
            let scores = done.scores(&p, sequences.mask(done.extent.len), factor(k_factors, p.scaled, done.head_k));
            let state: State<C> = done.attend::<T, C>(&mut ring, &cache, &scores, q_tile);
            block::sync();
            // The next work's copies begin before this one's results leave.
            round = place.first + done.until;
            if round < last {
                if done.until == done.extent.rounds {
                    place = kv_cache::Place { sequence: place.sequence + 1, first: round };
                }
                work = Work::new(&p, sequences.extent(place.sequence), &place, number, [round, last]);
                cache = work.cache::<C>(&p, [k_from, v_from], tables);
                work.begin(&p, &mut ring, &cache, q_tile, q_from);
            }
            let warps = Warps::<C> { sums: tiles + ring.fill * (2 * C.tile()), marks };
            state.leave(ring.free(), marks, scores.exponent, &done.packed);
            block::sync();

            let owner: u32 = shares.owner(first_round);
            let count: u32 = shares.owner(first_round + done.extent.rounds - 1) + 1 - owner;
            let first: u32 = number * groups + owner;
            let parts = kv_cache::Parts::<ROWS, { C.head }> { scratch: scratch_to, first, count };
            let v_factor: f32 = factor(v_factors, p.scaled, done.head_k);
            let mut row: u32 = tid.x / 32;
            while row < ROWS {
                if done.packed.has(row) {
                    let columns: [f32; C.head / 32];
                    let log: f32 = warps.combine(row, v_factor, &mut columns);
                    if count == 1 {
                        output.write::<T, { C.head }>(&done.packed, row, &columns, log);
                    } else {
                        parts.store(group - owner, row, &columns, log);
                    }
                }
                row += C.warps;
            }
            parts.reduce::<T, { C.warps }>(&output, &done.packed, flags_to + wide(first) * 4, slot);
        }
    }
}
