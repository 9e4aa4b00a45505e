//! A block's share of the keys of all sequences: its parts of sequences one after the other, by any ring that holds tiles of the cache.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod work {
    /// The operands and the results.
    struct Tensors<T, K> {
        #[align(16)]
        q: &[T],
        #[align(16)]
        k: &[K],
        #[align(16)]
        v: &[K],
        /// The keys of each sequence, the new ones included, and the pages that hold them.
        lengths: &[i32],
        table: &[i32],
        /// The factors of the heads of the cache.
        k_scales: &[f32],
        v_scales: &[f32],
        #[align(16)]
        out: &mut [T],
        lse: &mut [f32],
        /// The parts of blocks that share a head, and flags that are zeros before and after.
        #[align(16)]
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

    /// A block's rows: the number of its head and tile of rows, the head of the cache, the first of the packed rows, and the first of the heads of Q.
    struct Own {
        number: u32,
        head_k: u32,
        first: u32,
        head: u32,
    }

    impl Own {
        /// Those of block `number` of a split.
        fn new(p: &DecodeProblem, number: u32) -> Own {
            let head_k: u32 = number / p.row_tiles;
            let tile: u32 = number - head_k * p.row_tiles;
            cut!(head_k < p.heads_k && tile < p.row_tiles);
            let (first, head): (u32, u32) = (tile * ROWS, head_k * p.kv_group);
            cut!(first < 1 << 20 && head + p.kv_group <= p.heads);
            Own { number, head_k, first, head }
        }

        /// The packed rows of a sequence.
        fn packed(&self, p: &DecodeProblem, sequence: u32) -> kv_cache::Packed {
            let (count, kv_group): (u32, u32) = (p.tokens * p.kv_group, p.kv_group);
            let (first, head, tokens, heads): (u32, u32, u32, u32) = (self.first, self.head, p.tokens, p.heads);
            kv_cache::Packed { sequence, first, count, tokens, kv_group, head, heads }
        }
    }

    /// A block's part of one sequence: its rounds, counted from the first one of the sequence.
    struct Work {
        sequence: u32,
        extent: kv_cache::Extent,
        from: u32,
        until: u32,
    }

    impl Work {
        /// The part that begins with round `rounds[0]`; the block's rounds end before `rounds[1]`.
        fn new<const BLOCK: u32>(
            sequences: &kv_cache::Sequences<BLOCK>,
            place: &kv_cache::Place,
            rounds: [u32; 2],
        ) -> Work {
            // As long as rounds are left, so is a sequence.
            let sequence: u32 = place.sequence.min(sequences.batch - 1);
            let extent = sequences.extent(sequence);
            let (from, until): (u32, u32) = (rounds[0] - place.first, (rounds[1] - place.first).min(extent.rounds));
            Work { sequence, extent, from, until }
        }

        /// The scores of its rows; `factor` is that of K.
        fn scores(
            p: &DecodeProblem,
            packed: &kv_cache::Packed,
            mask: attention::Mask,
            factor: f32,
        ) -> kv_cache::Scores {
            let (upper, lower): (u32, u32) = (packed.query(laneid / 4), packed.query(laneid / 4 + 8));
            let capped: pred = p.soft_cap > 0.0;
            kv_cache::Scores {
                mask,
                queries: [upper, lower],
                last: p.tokens - 1,
                factors: [p.scale * factor, p.soft_cap],
                exponent: capped.select(p.exponent, p.exponent * factor),
            }
        }

        /// The cache of a head and its sequence.
        fn cache<const C: Config>(&self, p: &DecodeProblem, inputs: &Inputs, head_k: u32) -> Cache {
            let places =
                kv_cache::Pages::of_sequence(inputs.tables, p.table_pages, self.sequence, p.page_size, p.pages);
            Cache::new::<C>(p, &inputs.cache, places, head_k, self.extent.len)
        }

        /// Begins to copy the rows of Q, and this warp's tiles of the first rounds.
        fn begin<const C: Config>(
            &self,
            p: &DecodeProblem,
            inputs: &Inputs,
            own: &Own,
            ring: &mut Ring<C>,
            q_tile: u32,
        ) {
            let packed: kv_cache::Packed = own.packed(p, self.sequence);
            packed.copy::<ROWS, { C.head }, { 32 * C.warps }>(q_tile, inputs.q, p.q, p.dim);
            cp_async::commit();
            let cache: Cache = self.cache::<C>(p, inputs, own.head_k);
            let (mut next, end): (u32, u32) = (self.extent.begin + self.from, self.extent.begin + self.until);
            ring.find(&cache, next);
            for _i in 0..C.stages - 1 {
                ring.fill(&cache, next, end);
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
            invariant!(ring.to < C.stages && ring.read < C.stages);
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
        let split: u32 = ctaid.x / p.split_blocks;
        let number: u32 = ctaid.x - split * p.split_blocks;
        cut!(split < p.splits && number < p.split_blocks);
        let own = Own::new(p, number);
        let (batch, tokens, capacity): (u32, u32, u32) = (p.batch, p.tokens, p.capacity);
        let sequences = kv_cache::Sequences::<{ C.block() }> {
            lengths: inputs.lengths,
            batch,
            tokens,
            capacity,
            left: p.left,
            right: p.right,
        };
        let shares = scheduler::Shares::new(sequences.total(), p.splits);
        let (mut round, last): (u32, u32) = (shares.begin(split), shares.begin(split + 1));
        // No place depends on which rounds these are.
        cut!(round >= 0 && last >= 0 && shares.base >= 0 && shares.extra >= 0);
        if round != last {
            let mut place: kv_cache::Place = sequences.find(round);
            let mut work = Work::new::<{ C.block() }>(&sequences, &place, [round, last]);
            work.begin::<C>(p, inputs, &own, ring, memory.q_tile);
            invariant!(work.sequence < p.batch && work.extent.len <= p.capacity);
            invariant!(ring.to < C.stages && ring.read < C.stages);
            while round < last {
                let done = work;
                let packed: kv_cache::Packed = own.packed(p, done.sequence);
                let cache: Cache = done.cache::<C>(p, inputs, own.head_k);
                let first_round: u32 = place.first;
                let k_factor: f32 = factor(inputs.factors[0], p.scaled, own.head_k);
                let scores = Work::scores(p, &packed, sequences.mask(done.extent.len), k_factor);
                let state: State<C> = done.attend::<T, C>(ring, &cache, &scores, memory.q_tile);
                block::sync();
                // The next work's copies begin before the results of this one are stored.
                round = place.first + done.until;
                if round < last {
                    if done.until == done.extent.rounds {
                        place = kv_cache::Place { sequence: place.sequence + 1, first: round };
                    }
                    work = Work::new::<{ C.block() }>(&sequences, &place, [round, last]);
                    work.begin::<C>(p, inputs, &own, ring, memory.q_tile);
                }
                cut!(work.sequence < p.batch && work.extent.len <= p.capacity);
                cut!(ring.to < C.stages);
                let warps = Warps::<C> { sums: memory.tiles + ring.to * (2 * C.tile()), row_stats: memory.row_stats };
                state.store_partial(ring.free(), memory.row_stats, scores.exponent, &packed);
                block::sync();

                let owner: u32 = shares.owner(first_round);
                let behind: u32 = shares.owner(first_round + done.extent.rounds - 1) + 1;
                // Blocks that share a sequence are splits one after the other, of which this is one.
                cut!(owner >= 0 && behind >= 0);
                assume!(owner <= split && split < behind && behind <= p.splits);
                let (first, part, count): (u32, u32, u32) = (number * p.splits + owner, split - owner, behind - owner);
                cut!(part < count && first + count <= nctaid.x);
                let parts = kv_cache::Parts::<ROWS, { C.head }> { scratch: results.scratch, first, count };
                let v_factor: f32 = factor(inputs.factors[1], p.scaled, own.head_k);
                let mut row: u32 = tid.x / 32;
                // Proofs take all turns at once.
                invariant!(row < ROWS + C.warps);
                while row < ROWS {
                    let one: u32 = row;
                    cut!(one < ROWS);
                    if packed.has(one) {
                        let columns: [f32; C.head / 32];
                        let log: f32 = warps.combine(one, v_factor, &mut columns);
                        if count == 1 {
                            output.write::<T, { C.head }>(&packed, one, &columns, log);
                        } else {
                            parts.store(part, one, &columns, log);
                        }
                    }
                    row += C.warps;
                }
                parts.reduce::<T, { C.warps }>(&output, &packed, results.flags + wide(first) * 4, memory.slot);
            }
        }
    }
}
