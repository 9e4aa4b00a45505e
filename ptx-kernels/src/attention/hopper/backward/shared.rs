//! The scratch memory, the scheduler and the shared tiles of both backward kernels.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod scratch {
    /// The scratch memory of a call; with `MASKED` = 0 sequences are not packed.
    fn scratch_of<const MASKED: u32>(memory: u64, p: &Problem) -> flash_grad::Scratch {
        let variable: u32 = if MASKED == 1 { p.variable } else { 0 };
        flash_grad::Scratch { memory, variable, tokens: p.tokens_q, count: p.batch, heads: p.heads }
    }

    /// Counters behind the work tiles that blocks have claimed, in bytes: tiles of sums that warps have claimed to clear, and have cleared; patches
    /// of sums that they have claimed to round; for each head of K and V, its work tiles that have ended.
    const CLEARING: u32 = 4;
    const CLEARED: u32 = 8;
    const ROUNDING: u32 = 12;
    const ENDED: u32 = 16;
}

#[ptx_part]
pub(crate) mod arguments {
    /// The tensor maps of Q, K, V and dO.
    struct Maps {
        q_map: TensorMap,
        k_map: TensorMap,
        v_map: TensorMap,
        grad_map: TensorMap,
    }

    /// The operands, the scratch memory, and the gradients of K and V. `q`, `k`, `v` and `out_grad` are read through their maps.
    struct Tensors<T> {
        q: &[T],
        k: &[T],
        v: &[T],
        bias: &[T],
        out_grad: &[T],
        scratch: &mut [u8],
        k_grad: &mut [T],
        v_grad: &mut [T],
    }

    /// The order of the work tiles: heads of K and V that take turns, 1 for a fixed order of additions, blocks, and the cumulative lengths of packed sequences.
    struct Schedule {
        head_block: u32,
        ordered: u32,
        blocks: u32,
        starts_q: &[i32],
        starts_k: &[i32],
    }
}

#[ptx_part]
pub(crate) mod scheduler {
    /// All work tiles, tiles of keys: of `head_block` heads of K and V at a time one tile after the other. If `ordered`, a work tile waits for those with later
    /// keys, and these come first. With `MASKED` = 0 sequences are not packed.
    struct Scheduler<const MASKED: u32> {
        starts: [Global<i32>; 2],
        heads_k: u32,
        head_block: u32,
        ordered: u32,
    }

    impl<const MASKED: u32> Scheduler<MASKED> {
        /// The keys of work tile `index`. Of a packed sequence there may be none, and behind the last work tile the number of the sequence is not below that of all.
        fn keys(&self, p: &Problem, index: u32) -> flash_grad::Keys {
            let order = flash::Order { tiles: (p.keys + (KEYS - 1)) / KEYS, head_block: self.head_block };
            let (mut tile, column): (u32, u32) = order.locate(index);
            if self.ordered != 0 {
                tile = order.tiles - 1 - tile;
            }
            let (number, head): (u32, u32) = (column / self.heads_k, column % self.heads_k);
            let variable: u32 = if MASKED == 1 { p.variable } else { 0 };
            let known: u32 = number.min(p.batch - 1);
            let q = attention::Sequence::locate(self.starts[0], variable, known, p.tokens_q, p.queries);
            let k = attention::Sequence::locate(self.starts[1], variable, known, p.tokens_k, p.keys);
            keys_of::<MASKED>(p, [tile * KEYS, head, number], q, k)
        }
    }

    /// Keys from number `place[0]` on of head `place[1]` of sequence `place[2]`.
    fn keys_of<const MASKED: u32>(
        p: &Problem,
        place: [u32; 3],
        q: attention::Sequence,
        k: attention::Sequence,
    ) -> flash_grad::Keys {
        let mask = attention::Mask::new(q.len, k.len, p.top_left, p.left, p.right).transposed(q.len);
        let mut batch: u32 = place[2];
        if MASKED == 1 {
            // Packed sequences are one for the tensor maps.
            batch = (p.variable != 0).select(0, batch);
        }
        flash_grad::Keys { first: place[0], head: place[1], q, k, mask, number: place[2], batch }
    }

    /// The tiles of queries in shared memory.
    fn tiles_of<const C: Config>(memory: Shared<Memory<C>>) -> flash_grad_loads::Tiles<Q_STAGES, STAGES> {
        flash_grad_loads::Tiles {
            q: memory.q,
            grad: memory.grad,
            logs: memory.logs,
            deltas: memory.deltas,
            partial: memory.partial,
            q_bars: memory.q_bars,
            grad_bars: memory.grad_bars,
        }
    }
}
