//! The scheduler and the mask of forward kernels whose queries see all keys, or those before their own.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod dense {
    /// If causal, query `i` sees the keys before `i` plus this number.
    fn high<const C: Config>(p: &Problem) -> i32 {
        flash::diagonal::<{ C.causal }>(p.top_left, p.tokens_q, p.tokens_k)
    }

    /// The scheduler of work tiles.
    fn scheduler<const C: Config>(
        p: &Problem,
        head_block: u32,
    ) -> flash::Dense<{ C.rows() }, { C.keys }, { C.causal }> {
        let (count, heads, queries, keys): (u32, u32, u32, u32) = (p.batch, p.heads, p.queries, p.tokens_k);
        flash::Dense { count, heads, queries, keys, high: high::<C>(p), head_block }
    }

    impl<T, const C: Config> Consumer<T, C> {
        /// Hides keys after the last one and, if causal, after the row's own. Most tiles have none.
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

        /// Releases a tile of keys, and after the last one the queries.
        fn release(&self, memory: &Memory<C>, stage: u32, block: u32) {
            memory.k.release(stage);
            if block == 0 {
                memory.q.release(self.warp_group);
            }
        }
    }
}
