//! P of the forward kernel: exponentials of a tile of scores, beside the product with V of the tile before.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod weights {
    impl<T, const C: Config> Consumer<T, C> {
        /// P of a tile, relative to the largest scores of earlier ones, and its sums; meanwhile the product with V of the tile before ends.
        /// Returns true if the largest scores have grown by too much.
        fn weigh(&mut self, memory: &Memory<C>, v_stage: u32, sums: &mut [f32; 2]) -> pred {
            let mut wrong: pred = self.softmax.guess::<0, { C.hiding() }>(&mut self.s, self.exponent, sums);
            // Behind a branch, so that ptxas does not wait before the exponentials.
            if !wrong {
                wgmma::wait::<0>();
                memory.v.release(v_stage);
                wrong = self.softmax.guess::<{ C.hiding() }, { C.keys / 8 }>(&mut self.s, self.exponent, sums);
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

        /// P of a tile whose largest scores have grown by too much, and earlier sums relative to these.
        fn weigh_again(&mut self, memory: &Memory<C>, stage: u32, begin: u32, block: u32, p: &Problem) {
            let row: u32 = self.group * 64 + tid.x / 32 % 4 * 16;
            let keys: u32 = memory.k.tiles + stage * (C.parts() * C.kv_part());
            scores::multiply::<T, { C.head }, { C.q_part() }, { C.kv_part() }>(&mut self.s, memory.q.tile, row, keys);
            self.mask(begin, block, p);
            self.softmax.update(&mut self.s, self.exponent);
            self.softmax.shrink(&mut self.o);
            scores::pack::<T, { C.keys / 2 }>(&mut self.p, &self.s);
        }
    }
}
