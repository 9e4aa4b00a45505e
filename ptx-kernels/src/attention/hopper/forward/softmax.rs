//! P of the forward kernel: exponentials of a tile of scores, beside the product with V of the tile before.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod weights {
    /// The part of a warp's streak that says that its scores grow.
    const GROWS: u32 = 4;

    impl<T, const C: Config> Consumer<T, C> {
        /// Parts that are large in tile `block` of `blocks`, from the last one to the first. Where rows see few keys of the tile at the diagonal, that one
        /// does not count.
        fn large(block: u32, blocks: u32) -> scores::Large {
            scores::Large::new(blocks - 1 - (C.causal | C.masked) - block, blocks)
        }

        /// P of tile `tile[0]` of `tile[1]`, from the last one to the first, relative to scores of earlier ones, and its sums; meanwhile the product with
        /// V of the tile before ends. Returns true if a sum exceeds its limit.
        fn weigh(&mut self, memory: &Memory<C>, v_stage: u32, tile: [u32; 2], sums: &mut [f32; 2]) -> pred {
            let limits: [f32; 2] = self.softmax.limits(&Self::large(tile[0], tile[1]));
            let mut wrong: pred =
                self.softmax.guess::<0, { C.hiding() }>(&mut self.s, self.exponent, sums, [16384.0, 16384.0]);
            // Behind a branch, so that ptxas does not wait before the exponentials.
            if !wrong {
                wgmma::wait::<0>();
                memory.v.release(v_stage);
                wrong = self.softmax.guess::<{ C.hiding() }, { C.keys / 8 }>(&mut self.s, self.exponent, sums, limits);
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            } else {
                wgmma::wait::<0>();
                memory.v.release(v_stage);
            }
            wrong
        }

        /// P of a tile and earlier sums, relative to the largest scores of all tiles so far.
        fn weigh_exactly(&mut self, memory: &Memory<C>, v_stage: u32) {
            if self.softmax.update(&mut self.s, self.exponent) {
                wgmma::wait::<0>();
                self.softmax.shrink(&mut self.o);
            }
            // Behind a branch, so that ptxas does not wait before the exponentials.
            wgmma::wait::<0>();
            memory.v.release(v_stage);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
        }

        /// P of tile `tile[0]` of `tile[1]` with a sum that exceeds its limit, but fits 16 bits: where a key is large, exponentials are relative to
        /// its score. This keeps the error near that of a running maximum, for which the largest key of a row is not rounded.
        fn settle(&mut self, tile: [u32; 2], sums: &[f32; 2]) {
            self.softmax.keep(sums);
            let large = Self::large(tile[0], tile[1]);
            if self.softmax.settle(&mut self.s, self.exponent, &large) {
                self.softmax.shrink(&mut self.o);
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
                self.count(tile[0]);
            }
        }

        /// Counts the tiles in a row that have a large key. Where there are more, scores grow, and a running maximum is faster.
        fn count(&mut self, block: u32) {
            let follows: pred = self.streak / 8 == block + 1;
            self.streak = block * 8 + follows.select(self.streak % 8 + 1, 0);
        }

        /// P of a tile whose largest scores have grown by too much, and earlier sums relative to these.
        fn weigh_again(&mut self, memory: &Memory<C>, stage: u32, tile: [u32; 2], p: &Problem) {
            let row: u32 = self.group * 64 + tid.x / 32 % 4 * 16;
            let keys: u32 = memory.k.tiles + stage * (C.parts() * C.kv_part());
            scores::multiply::<T, { C.head }, { C.q_part() }, { C.kv_part() }>(&mut self.s, memory.q.tile, row, keys);
            self.mask(tile[0], tile[1], p);
            self.softmax.update(&mut self.s, self.exponent);
            self.softmax.shrink(&mut self.o);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            self.streak = GROWS;
        }
    }
}
