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

        /// Exponentials of tile `tile[0]` of `tile[1]` relative to the largest scores of all tiles so far, and P; meanwhile the product with V of the tile
        /// before ends.
        fn weigh_exactly(&mut self, memory: &Memory<C>, v_stage: u32, tile: [u32; 2]) {
            let grown: pred = self.softmax.update(&mut self.s, self.exponent);
            // True for all warps, as `wgmma` requires; the branch keeps ptxas from waiting before the exponentials.
            if tile[0] < tile[1] {
                wgmma::wait::<0>();
                if grown {
                    self.softmax.shrink(&mut self.o);
                }
            } else {
                wgmma::wait::<0>();
            }
            memory.v.release(v_stage);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
        }

        /// Exponentials of tile `tile[0]` of `tile[1]`, from the last one to the first, and P: relative to scores of earlier tiles, unless this warp's
        /// scores grow. Meanwhile the product with V of the tile before ends. Warps decide for themselves, and all wait at the same place, as `wgmma`
        /// requires. Returns true if a sum exceeds its limit.
        fn weigh(&mut self, memory: &Memory<C>, v_stage: u32, tile: [u32; 2], sums: &mut [f32; 2]) -> pred {
            let grows: pred = (self.streak & GROWS) != 0;
            let mut limits: [f32; 2] = [0.0, 0.0];
            let mut wrong: pred = false;
            if grows {
                wrong = self.softmax.update(&mut self.s, self.exponent);
            } else {
                limits = self.softmax.limits(&Self::large(tile[0], tile[1]));
                wrong = self.softmax.guess::<0, { C.hiding() }>(&mut self.s, self.exponent, sums, [16384.0, 16384.0]);
            }
            // Behind a branch, so that ptxas does not wait before the exponentials.
            wgmma::wait::<0>();
            memory.v.release(v_stage);
            if grows {
                if wrong {
                    self.softmax.shrink(&mut self.o);
                }
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
                wrong = false;
            } else if !wrong {
                wrong = self.softmax.guess::<{ C.hiding() }, { C.keys / 8 }>(&mut self.s, self.exponent, sums, limits);
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            }
            wrong
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
