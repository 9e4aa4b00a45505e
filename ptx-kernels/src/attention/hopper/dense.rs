//! Parts that the forward kernels share where every query sees all keys or those before its own: their pieces of work, and the keys that rows do not see.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod dense {
    /// If causal, query `i` sees the keys before `i` plus this number.
    fn high<const C: Config>(p: &Problem) -> i32 {
        flash::diagonal::<{ C.causal }>(p.top_left, p.tokens_q, p.tokens_k)
    }

    /// The pieces of work.
    fn pieces<const C: Config>(p: &Problem, section: u32) -> flash::Dense<{ C.rows() }, { C.keys }, { C.causal }> {
        let (count, heads, queries, keys): (u32, u32, u32, u32) = (p.batch, p.heads, p.queries, p.tokens_k);
        flash::Dense { count, heads, queries, keys, high: high::<C>(p), section }
    }

    impl<T, const C: Config> Consumer<T, C> {
        /// Keys that a row does not see: those behind the last one and, if causal, behind the row's own. Most tiles have none.
        fn mask_dense(&mut self, block: u32, keys: u32) {
            let mut least: i32 = signed(keys);
            if C.causal == 1 {
                least = least.min(self.top);
            }
            if signed((block + 1) * C.keys) > least {
                for half in 0..2 {
                    let mut limit: i32 = signed(keys);
                    if C.causal == 1 {
                        limit = limit.min(self.own + 8 * half as i32);
                    }
                    scores::hide_from::<half, { C.keys / 2 }>(&mut self.s, block * C.keys, limit);
                }
            }
        }

        /// Gives a tile of keys back, and behind the last one the queries.
        fn release(&self, memory: &Memory<C>, stage: u32, block: u32) {
            memory.k.release(stage);
            if block == 0 {
                memory.q.release(self.group);
            }
        }
    }
}
