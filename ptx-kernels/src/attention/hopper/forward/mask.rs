//! The mask of the forward kernel: keys that queries do not see, the soft cap, and the bias.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod masks {
    impl<T, const C: Config> Consumer<T, C> {
        /// Rows of V after the end of a packed sequence belong to another one and may be NaN: they become zeros. Only the first tile of a main loop,
        /// whose first key is `key`, has any.
        fn clear_values(&self, memory: &Memory<C>, at: &flash::Position<{ C.stages }>, key: u32, variable: u32) {
            if (variable != 0) & (key + C.keys > self.mask.columns) {
                memory.v.wait(at);
                memory.v.clear_rows(at.stage, self.mask.columns.max(key) - key, tid.x - 128, 128 * C.groups);
                barrier::sync::<{ 128 * C.groups }>(1);
            }
        }

        /// The cap of scores, their bias, and keys that a row does not see: those behind the last one and, if causal, behind the row's own, or outside of
        /// its window. Most tiles have none.
        fn mask(&mut self, begin: u32, block: u32, p: &Problem) {
            if C.masked == 1 {
                if p.soft_cap > 0.0 {
                    scores::bound(&mut self.s, p.scale);
                }
                let (first, column): (u32, u32) = (unsigned(self.top), (begin + block) * C.keys);
                if p.biased != 0 {
                    self.add_bias(column, p);
                }
                if self.mask.hides(first, first + 63, column, column + C.keys) {
                    for half in 0..2 {
                        let own: i32 = self.own + 8 * half as i32;
                        let to: i32 = (own + self.mask.high).min(signed(self.mask.columns));
                        scores::hide_outside::<half, { C.keys / 2 }>(&mut self.s, column, own + self.mask.low, to);
                    }
                }
            } else {
                self.mask_dense(block, p.tokens_k);
            }
        }

        /// Adds the bias to the scores of a tile, whose first column is `column`, after their factor or the cap's.
        fn add_bias(&mut self, column: u32, p: &Problem) {
            let factor: f32 = (p.soft_cap > 0.0).select(p.soft_cap, p.scale);
            let first: u32 = column + laneid % 4 * 2;
            for half in 0..2 {
                let own: u32 = unsigned(self.own) + 8 * half;
                let from: u64 = self.bias_rows + own as u64 * p.bias[2] + first as u64 * p.bias[3];
                let known: i32 = (own < p.tokens_q).select(signed(p.tokens_k) - signed(first), 0);
                let bias = scores::Bias { from, stride: p.bias[3], known };
                bias.add::<T, half, { C.keys / 2 }>(&mut self.s, factor);
            }
        }
    }
}
