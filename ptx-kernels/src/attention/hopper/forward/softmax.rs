//! P of the forward kernel: the exponentials of a tile of scores, computed while the product with V of the tile before runs. `forward` has a table of the ways.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod exponentials {
    /// The bit of a warp's run of tiles with a large key that marks growing scores.
    const GROWS: u32 = 4;

    impl<T, const C: Config> Consumer<T, C> {
        /// The limits for tile `block` of `blocks`, from the last one to the first. The tile at the diagonal, of which rows see few keys, does not
        /// count.
        fn large(block: u32, blocks: u32) -> scores::Large {
            scores::Large::new(blocks - 1 - (C.causal | C.masked) - block, blocks)
        }

        /// P of tile `tile[0]` of `tile[1]`, relative to the running maximum, which rescales O when it grows. Meanwhile the product with V of the
        /// tile before ends.
        fn softmax_online(&mut self, memory: &Memory<C>, v_stage: u32, tile: [u32; 2]) {
            let grown: pred = self.softmax.update(&mut self.s, self.exponent);
            // True for all warps, as `wgmma` requires; the branch keeps ptxas from waiting before the exponentials.
            if tile[0] < tile[1] {
                wgmma::wait::<0>();
                if grown {
                    self.softmax.rescale(&mut self.o);
                }
            } else {
                wgmma::wait::<0>();
            }
            memory.v.release(v_stage);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
        }

        /// P of tile `tile[0]` of `tile[1]`, tiles counted from the last one to the first, without a maximum: exponentials are relative to scores of
        /// earlier tiles, unless this warp's scores grow. Meanwhile the product with V of the tile before ends. Each warp takes its own branch, and
        /// all wait at the same place, as `wgmma` requires. Returns true if a sum exceeds its limit.
        fn softmax_speculative(
            &mut self,
            memory: &Memory<C>,
            v_stage: u32,
            tile: [u32; 2],
            sums: &mut [f32; 2],
        ) -> pred {
            let grows: pred = (self.large_run & GROWS) != 0;
            let mut limits: [f32; 2] = [0.0, 0.0];
            let mut wrong: pred = false;
            if grows {
                wrong = self.softmax.update(&mut self.s, self.exponent);
            } else {
                limits = self.softmax.limits(&Self::large(tile[0], tile[1]));
                wrong =
                    self.softmax.speculate::<0, { C.hiding() }>(&mut self.s, self.exponent, sums, [16384.0, 16384.0]);
            }
            // Behind a branch, so that ptxas does not wait before the exponentials.
            wgmma::wait::<0>();
            memory.v.release(v_stage);
            if grows {
                if wrong {
                    self.softmax.rescale(&mut self.o);
                }
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
                wrong = false;
            } else if !wrong {
                wrong =
                    self.softmax.speculate::<{ C.hiding() }, { C.keys / 8 }>(&mut self.s, self.exponent, sums, limits);
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            }
            wrong
        }

        /// Corrects P of tile `tile[0]` of `tile[1]`, whose sum exceeds its limit but whose exponentials fit 16 bits: the score of a large key becomes the
        /// reference. The error is then about that of a running maximum, with which the largest key of a row is not rounded.
        fn softmax_correct(&mut self, tile: [u32; 2], sums: &[f32; 2]) {
            self.softmax.add_sums(sums);
            let large = Self::large(tile[0], tile[1]);
            if self.softmax.correct(&mut self.s, self.exponent, &large) {
                self.softmax.rescale(&mut self.o);
                scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
                self.count_large(tile[0]);
            }
        }

        /// Counts consecutive tiles with a large key. After several, scores grow, and a running maximum is faster.
        fn count_large(&mut self, block: u32) {
            let follows: pred = self.large_run / 8 == block + 1;
            self.large_run = block * 8 + follows.select(self.large_run % 8 + 1, 0);
        }

        /// Computes the scores of a tile again, whose exponentials do not fit 16 bits, takes their maximum as the reference, and rescales earlier sums.
        fn softmax_recompute(&mut self, memory: &Memory<C>, stage: u32, tile: [u32; 2], p: &Problem) {
            let row: u32 = self.warp_group * 64 + tid.x / 32 % 4 * 16;
            let keys: u32 = memory.k.tiles + stage * (C.parts() * C.kv_part());
            scores::recompute::<T, { C.head }, { C.q_part() }, { C.kv_part() }>(&mut self.s, memory.q.tile, row, keys);
            self.mask(tile[0], tile[1], p);
            self.softmax.update(&mut self.s, self.exponent);
            self.softmax.rescale(&mut self.o);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
            self.large_run = GROWS;
        }
    }
}
