//! A block's walk over its share of the keys of all sequences, for latent attention: all heads of Q share one head of the cache.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod walk {
    /// The operands and the results.
    struct Tensors<T> {
        q: &[T],
        cache: &[T],
        /// The keys of each sequence, the new ones included, and the pages that hold them.
        lengths: &[i32],
        table: &[i32],
        out: &mut [T],
        lse: &mut [f32],
        /// The parts of blocks that share a head, and flags that are zeros before and after.
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
            let (splits, split): (u32, u32) = (nctaid.x / p.row_tiles, ctaid.x / p.row_tiles);
            let (batch, tokens, capacity): (u32, u32, u32) = (p.batch, p.tokens, p.capacity);
            let sequences =
                kv_cache::Sequences::<KEYS> { lengths, batch, tokens, capacity, left: p.left, right: p.right };
            let shares = scheduler::Shares::new(sequences.total(), splits);
            let (round, last): (u32, u32) = (shares.begin(split), shares.begin(split + 1));
            let mut place = kv_cache::Place { sequence: 0, first: 0 };
            if round < last {
                place = sequences.find(round);
            }
            Walk { sequences, shares, splits, split, number: ctaid.x - split * p.row_tiles, round, last, place }
        }

        /// The work at the next round.
        fn work(&self, p: &DecodeProblem) -> Work {
            let extent = self.sequences.extent(self.place.sequence);
            let until: u32 = (self.last - self.place.first).min(extent.rounds);
            let packed = kv_cache::Packed {
                sequence: self.place.sequence,
                first: self.number * ROWS,
                count: p.tokens * p.kv_group,
                kv_group: p.kv_group,
                head: 0 * self.number,
            };
            let (at, end): (u32, u32) = (extent.begin + self.round - self.place.first, extent.begin + until);
            Work { packed, at, end, len: extent.len, rounds: extent.rounds }
        }

        /// The block that has the first round of a work's sequence, and the number of blocks that share its rounds.
        fn owners(&self, work: &Work) -> (u32, u32) {
            let owner: u32 = self.shares.owner(self.place.first);
            (owner, self.shares.owner(self.place.first + work.rounds - 1) + 1 - owner)
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
