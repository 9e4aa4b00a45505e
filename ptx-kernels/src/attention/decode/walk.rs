//! A block's walk over its share of the keys of all sequences, for latent attention: all heads of Q share one head of the cache.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod walk {
    /// The operands and the results.
    struct Tensors<T> {
        #[align(16)]
        q: &[T],
        #[align(16)]
        cache: &[T],
        /// The keys of each sequence, the new ones included, and the pages that hold them.
        lengths: &[i32],
        table: &[i32],
        #[align(16)]
        out: &mut [T],
        lse: &mut [f32],
        /// The parts of blocks that share a head, and flags that are zeros before and after.
        #[align(16)]
        scratch: &mut [u8],
        flags: &mut [u32],
    }

    /// The walk of a block with `ROWS` packed rows of Q over rounds of `KEYS` keys: the next round, the end, and the sequence of the next round.
    struct Walk<const ROWS: u32, const KEYS: u32> {
        sequences: kv_cache::Sequences<KEYS>,
        shares: scheduler::Shares,
        splits: u32,
        split: u32,
        number: u32,
        round: u32,
        last: u32,
        place: kv_cache::Place,
    }

    impl<const ROWS: u32, const KEYS: u32> Walk<ROWS, KEYS> {
        /// From the first round on.
        fn new(p: &DecodeProblem, lengths: u64) -> Walk<ROWS, KEYS> {
            let split: u32 = ctaid.x / p.split_blocks;
            let number: u32 = ctaid.x - split * p.split_blocks;
            cut!(split < p.splits && number < p.split_blocks);
            let (batch, tokens, capacity): (u32, u32, u32) = (p.batch, p.tokens, p.capacity);
            let sequences =
                kv_cache::Sequences::<KEYS> { lengths, batch, tokens, capacity, left: p.left, right: p.right };
            let shares = scheduler::Shares::new(sequences.total(), p.splits);
            let (round, last): (u32, u32) = (shares.begin(split), shares.begin(split + 1));
            // No place depends on which rounds these are.
            cut!(round >= 0 && last >= 0 && shares.base >= 0 && shares.extra >= 0);
            let mut place = kv_cache::Place { sequence: 0, first: 0 };
            if round < last {
                place = sequences.find(round);
            }
            Walk { sequences, shares, splits: p.splits, split, number, round, last, place }
        }

        /// The work at the next round.
        fn work(&self, p: &DecodeProblem) -> Work {
            // As long as rounds are left, so is a sequence.
            let sequence: u32 = self.place.sequence.min(self.sequences.batch - 1);
            cut!(sequence < self.sequences.batch);
            let extent = self.sequences.extent(sequence);
            let until: u32 = (self.last - self.place.first).min(extent.rounds);
            let first: u32 = self.number * ROWS;
            cut!(first < 1 << 22);
            let packed = kv_cache::Packed {
                sequence,
                first,
                count: p.tokens * p.kv_group,
                tokens: p.tokens,
                kv_group: p.kv_group,
                head: 0 * self.number,
                heads: p.heads,
            };
            let (at, end): (u32, u32) = (extent.begin + self.round - self.place.first, extent.begin + until);
            cut!(at >= 0 && end >= 0);
            Work { packed, at, end, len: extent.len, rounds: extent.rounds }
        }

        /// The blocks that share the rounds of a work's sequence: the number of the first one, this one's place among them, and how many there are.
        fn owners(&self, work: &Work) -> (u32, u32, u32) {
            let owner: u32 = self.shares.owner(self.place.first);
            let behind: u32 = self.shares.owner(self.place.first + work.rounds - 1) + 1;
            // They are splits one after the other, of which this is one.
            cut!(owner >= 0 && behind >= 0);
            assume!(owner <= self.split && self.split < behind && behind <= self.splits);
            let (first, part, count): (u32, u32, u32) =
                (self.number * self.splits + owner, self.split - owner, behind - owner);
            cut!(part < count && first + count <= nctaid.x);
            (first, part, count)
        }

        /// Moves on behind a work.
        fn advance(&mut self, work: &Work) {
            self.round += work.end - work.at;
            if self.round == self.place.first + work.rounds {
                self.place = kv_cache::Place { sequence: self.place.sequence + 1, first: self.round };
            }
        }
    }

    /// A part of a sequence: tiles from number `at` to before `end`, of `rounds` that its rows see.
    struct Work {
        packed: kv_cache::Packed,
        at: u32,
        end: u32,
        len: u32,
        rounds: u32,
    }
}
