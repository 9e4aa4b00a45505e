//! A block's share of the keys of all sequences: its parts of sequences one after the other, by any ring that holds tiles of the cache.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod work {
    /// The operands and the results.
    struct Tensors<T, K> {
        q: &[T],
        k: &[K],
        v: &[K],
        /// The keys of each sequence, the new ones included, and the pages that hold them.
        lengths: &[i32],
        table: &[i32],
        /// The factors of the heads of the cache.
        k_scales: &[f32],
        v_scales: &[f32],
        out: &mut [T],
        lse: &mut [f32],
        /// The parts of blocks that share a head, and flags that are zeros before and after.
        scratch: &mut [u8],
        flags: &mut [u32],
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
                count: p.tokens * p.kv_group,
                kv_group: p.kv_group,
                head: head_k * p.kv_group,
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
        fn cache<const C: Config>(&self, p: &DecodeProblem, inputs: &Inputs) -> Cache {
            let sequence: u32 = self.packed.sequence;
            let places = kv_cache::Pages::of_sequence(inputs.tables, p.table_pages, sequence, p.page_size, p.pages);
            Cache::new::<C>(p, &inputs.cache, places, self.head_k, self.extent.len)
        }

        /// Begins to copy its rows of Q, and this warp's tiles of the first rounds.
        fn begin<const C: Config>(&self, p: &DecodeProblem, ring: &mut Ring<C>, cache: &Cache, q_tile: u32, q: u64) {
            self.packed.copy::<ROWS, { C.head }, { 32 * C.warps }>(q_tile, q, p.q, p.dim);
            cp_async::commit();
            let (mut next, end): (u32, u32) = (self.extent.begin + self.from, self.extent.begin + self.until);
            ring.find(cache, next);
            for _i in 0..C.stages - 1 {
                ring.fill(cache, next, end);
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
            ring.wait_for_queries();
            block::sync();
            let queries: [[b32; 4]; C.head / 16] = load_queries::<T, C>(q_tile);
            let mut state = State::<C>::new();
            let (mut at, end): (u32, u32) = (self.extent.begin + self.from, self.extent.begin + self.until);
            while at < end {
                ring.fill(cache, at + (C.stages - 1), end);
                let stage: Stage = ring.wait(cache, at);
                let first: u32 = at * C.block() + tid.x / 32 * C.keys;
                if first < self.extent.len {
                    state.add::<T>(&queries, &stage, scores, first);
                }
                ring.advance();
                at += 1;
            }
            state
        }
    }

    /// Shared memory: rows of Q, the rings of all warps, the row_stats of their sums, and a number.
    struct Memory {
        q_tile: u32,
        tiles: u32,
        row_stats: u32,
        slot: u32,
    }

    /// Inputs of the kernel: the cache as its ring takes it, addresses of Q, lengths and tables, and of the factors of K and V.
    struct Inputs {
        cache: Source,
        q: u64,
        lengths: u64,
        tables: u64,
        factors: [u64; 2],
    }

    /// Addresses of the output, the logarithms, the parts and the flags.
    struct Results {
        out: u64,
        lse: u64,
        scratch: u64,
        flags: u64,
    }

    /// Attends to this block's share of the keys of all sequences.
    fn attend<T, const C: Config>(
        p: &DecodeProblem,
        inputs: &Inputs,
        ring: &mut Ring<C>,
        memory: &Memory,
        results: &Results,
    ) {
        let output = kv_cache::Output {
            out: results.out,
            lse: results.lse,
            out_strides: p.out,
            lse_strides: p.lse,
            dim: p.dim_v,
            logged: p.logged,
        };
        let heads: u32 = p.heads_k * p.row_tiles;
        let (splits, split): (u32, u32) = (nctaid.x / heads, ctaid.x / heads);
        let number: u32 = ctaid.x - split * heads;
        let (batch, tokens, capacity): (u32, u32, u32) = (p.batch, p.tokens, p.capacity);
        let sequences = kv_cache::Sequences::<{ C.block() }> {
            lengths: inputs.lengths,
            batch,
            tokens,
            capacity,
            left: p.left,
            right: p.right,
        };
        let shares = scheduler::Shares::new(sequences.total(), splits);
        let (mut round, last): (u32, u32) = (shares.begin(split), shares.begin(split + 1));
        if round != last {
            let mut place: kv_cache::Place = sequences.find(round);
            let mut work = Work::new(p, sequences.extent(place.sequence), &place, number, [round, last]);
            let mut cache: Cache = work.cache::<C>(p, inputs);
            work.begin::<C>(p, ring, &cache, memory.q_tile, inputs.q);
            while round < last {
                let done = work;
                let first_round: u32 = place.first;
                let scores =
                    done.scores(p, sequences.mask(done.extent.len), factor(inputs.factors[0], p.scaled, done.head_k));
                let state: State<C> = done.attend::<T, C>(ring, &cache, &scores, memory.q_tile);
                block::sync();
                // The next work's copies begin before the results of this one are stored.
                round = place.first + done.until;
                if round < last {
                    if done.until == done.extent.rounds {
                        place = kv_cache::Place { sequence: place.sequence + 1, first: round };
                    }
                    work = Work::new(p, sequences.extent(place.sequence), &place, number, [round, last]);
                    cache = work.cache::<C>(p, inputs);
                    work.begin::<C>(p, ring, &cache, memory.q_tile, inputs.q);
                }
                let warps = Warps::<C> { sums: memory.tiles + ring.to * (2 * C.tile()), row_stats: memory.row_stats };
                state.store_partial(ring.free(), memory.row_stats, scores.exponent, &done.packed);
                block::sync();

                let owner: u32 = shares.owner(first_round);
                let count: u32 = shares.owner(first_round + done.extent.rounds - 1) + 1 - owner;
                let first: u32 = number * splits + owner;
                let parts = kv_cache::Parts::<ROWS, { C.head }> { scratch: results.scratch, first, count };
                let v_factor: f32 = factor(inputs.factors[1], p.scaled, done.head_k);
                let mut row: u32 = tid.x / 32;
                while row < ROWS {
                    if done.packed.has(row) {
                        let columns: [f32; C.head / 32];
                        let log: f32 = warps.combine(row, v_factor, &mut columns);
                        if count == 1 {
                            output.write::<T, { C.head }>(&done.packed, row, &columns, log);
                        } else {
                            parts.store(split - owner, row, &columns, log);
                        }
                    }
                    row += C.warps;
                }
                parts.reduce::<T, { C.warps }>(&output, &done.packed, results.flags + wide(first) * 4, memory.slot);
            }
        }
    }
}
