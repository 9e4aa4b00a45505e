//! dK and dV, by blocks that own keys and walk over the queries that see them. S and P have keys as rows, so that Pᵀ and dSᵀ are
//! left operands as they are.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

use crate::attention::problem::{Gradients, Problem};
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch = "sm_80", params(Problem, Gradients), modules(crate::attention::device::attention))]
pub(crate) mod kernels {
    use super::{Gradients, Problem};

    /// Extents of the tiles. Each warp owns 16 rows.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of Q and K.
        pub head: u32,
        /// Most elements of a row of V.
        pub head_v: u32,
        /// Warps of a block.
        pub warps: u32,
        /// Rows of a tile that a block walks over.
        pub block: u32,
        /// Tiles in shared memory: with two, one arrives while the other is multiplied.
        pub stages: u32,
        /// The results: 1 is dV, 2 is dK, 3 both.
        pub results: u32,
    }

    impl Config {
        /// Rows that a block owns.
        pub(crate) const fn owned(&self) -> u32 {
            16 * self.warps
        }

        /// Bytes of shared memory: two tiles of the block's own rows, and two of each stage, with two numbers for each row.
        pub(crate) const fn shared(&self) -> u32 {
            2 * (self.owned() + self.stages * self.block) * (self.head + self.head_v + 16)
                + 8 * self.stages * self.block
        }
    }

    /// Shared memory: K and V, later dK and dV, of the block's own rows, and the stages.
    #[align(16)]
    struct Tiles<T, const C: Config> {
        own: [[T; C.head + 8]; C.owned()],
        own_v: [[T; C.head_v + 8]; C.owned()],
        stages: [Stage<T, C>; C.stages],
    }

    /// A tile of Q, one of dO, and two numbers for each query.
    #[align(16)]
    struct Stage<T, const C: Config> {
        rows: [[T; C.head + 8]; C.block],
        rows_v: [[T; C.head_v + 8]; C.block],
        numbers: [[f32; 2]; C.block],
    }

    /// The stage that is not `stage`.
    fn other_stage<T, const C: Config>(stages: u32, stage: u32) -> u32 {
        stages + stages + size_of::<Stage<T, C>>() - stage
    }

    /// Waits until the copies of all threads of the block have arrived.
    fn wait_for_copies() {
        cp_async::wait::<0>();
        block::sync();
    }

    /// Tiles of queries, of one head after the other.
    struct Walk {
        head: u32,
        tile: u32,
        begin: u32,
        end: u32,
    }

    impl Walk {
        /// The next tile, of the next head behind a head's last one.
        fn advance(&mut self) {
            self.tile += 1;
            if self.tile >= self.end {
                self.tile = self.begin;
                self.head += 1;
            }
        }
    }

    /// The tensors that a block walks over: rows of Q and dO of head 0, and two numbers for each head of each token: `line` is that of head 0 of the
    /// sequence, of `lines` with `tokens` tokens each, and `start` its first token.
    struct Queries {
        query: attention::Rows,
        grad: attention::Rows,
        pairs: u64,
        line: u32,
        lines: u64,
        start: u32,
        tokens: u32,
        head_stride: u64,
        grad_stride: u64,
    }

    impl Queries {
        /// Those of a sequence in the tensors at three addresses.
        fn new(p: &Problem, g: &Gradients, from: [u64; 3], in_q: &attention::Sequence) -> Queries {
            let batch: u32 = (p.variable != 0).select(0, ctaid.z);
            cut!(batch <= 65535 && (batch == 0 || p.variable == 0 && batch < p.batch));
            let line: u32 = batch * p.heads;
            cut!(g.lines >= line as u64 + p.heads as u64);
            Queries {
                query: attention::Rows::of_head(from[0], p.q, ctaid.z, 0, in_q, p.dim),
                grad: attention::Rows::of_head(from[1], g.out, ctaid.z, 0, in_q, p.dim_v),
                pairs: from[2],
                line,
                lines: g.lines,
                start: in_q.start,
                tokens: p.tokens_q,
                head_stride: p.q[2],
                grad_stride: g.out[2],
            }
        }

        /// Begins to copy a tile to a stage; queries behind the last one become zeros, and so do their products.
        fn copy<T, const C: Config>(&self, stage: u32, walk: &Walk) {
            let row: u32 = walk.tile * C.block;
            let query = attention::Rows {
                first: self.query.first + walk.head as u64 * self.head_stride,
                stride: self.query.stride,
                len: self.query.len,
                dim: self.query.dim,
            };
            let grad = attention::Rows {
                first: self.grad.first + walk.head as u64 * self.grad_stride,
                stride: self.grad.stride,
                len: self.grad.len,
                dim: self.grad.dim,
            };
            query.copy::<{ C.block }, { C.head }, { 32 * C.warps }>(stage, row);
            let to: u32 = stage + C.block * fragment::pitch(C.head);
            grad.copy::<{ C.block }, { C.head_v }, { 32 * C.warps }>(to, row);
            if tid.x < C.block {
                let bytes: u32 = (row + tid.x < self.query.len).select(8, 0);
                let line: u32 = self.line + walk.head;
                cut!(self.lines > line as u64);
                let from: u64 = self.pairs + (wide(line) * self.tokens + (self.start + row + tid.x) as u64) * 8;
                let pair: u32 = to + C.block * fragment::pitch(C.head_v) + tid.x * 8;
                ptx! { cp.async.ca.shared.global [pair], [from], 8, bytes; }
            }
            cp_async::commit();
        }
    }

    /// The tensors that the forward pass saved, the gradient of its output, and the results. `pairs` has two numbers of each query.
    struct Tensors<T> {
        #[align(16)]
        q: &[T],
        #[align(16)]
        k: &[T],
        #[align(16)]
        v: &[T],
        #[align(16)]
        out_grad: &[T],
        bias: &[T],
        starts_q: &[i32],
        starts_k: &[i32],
        #[align(16)]
        pairs: &[u8],
        #[align(16)]
        k_grad: &mut [T],
        #[align(16)]
        v_grad: &mut [T],
    }

    /// dK and dV, summed over the heads of Q that share a head of K and V.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = g.grid(p, C.owned()),
        shared = C.shared(),
        instances = [
            d64 = ([bf16, f16], Config { head: 64, head_v: 64, warps: 4, block: 64, stages: 2, results: 3 }),
            d96 = ([bf16, f16], Config { head: 96, head_v: 96, warps: 4, block: 32, stages: 2, results: 3 }),
            d128 = ([bf16, f16], Config { head: 128, head_v: 128, warps: 4, block: 32, stages: 2, results: 3 }),
            d192 = ([bf16, f16], Config { head: 192, head_v: 128, warps: 4, block: 32, stages: 2, results: 3 }),
            d256_v = ([bf16, f16], Config { head: 256, head_v: 256, warps: 4, block: 16, stages: 1, results: 1 }),
            d256_k = ([bf16, f16], Config { head: 256, head_v: 256, warps: 4, block: 16, stages: 1, results: 2 })
        ],
        unsafe(
            requires(
                p.is_counted(),
                p.shares(g.heads_k),
                p.holds_queries(2 * tensors.q.len(), p.q, p.dim, 2),
                p.holds_keys(2 * tensors.k.len(), p.k, [g.heads_k, p.dim], 2),
                p.holds_keys(2 * tensors.v.len(), p.v, [g.heads_k, p.dim_v], 2),
                p.holds_queries(2 * tensors.out_grad.len(), g.out, p.dim_v, 2),
                p.holds_bias(2 * tensors.bias.len()),
                p.holds_keys(2 * tensors.k_grad.len(), g.k, [g.heads_k, p.dim], 2),
                p.holds_keys(2 * tensors.v_grad.len(), g.v, [g.heads_k, p.dim_v], 2),
                p.parts_keys(g.k, [g.heads_k, p.dim], 2),
                p.parts_keys(g.v, [g.heads_k, p.dim_v], 2),
                g.holds_pairs(p, tensors.pairs.len()),
                p.separates(tensors.starts_q.len(), tensors.starts_k.len())
            ),
            offsets(tensors.starts_k)
        )
    )]
    pub fn grad_keys<T, const C: Config>(tensors: Tensors<T>, p: Problem, g: Gradients) {
        const NT: u32 = C.block / 8;
        const THREADS: u32 = 32 * C.warps;
        /// Numbers of tiles are no greater, since those of queries fit `i32`.
        const LAST: u32 = (1 << 31) / C.block;
        #[shared(dynamic)]
        let tiles: Tiles<T, C>;

        let first: u32 = ctaid.x * C.owned();
        let in_q = attention::Sequence::locate(tensors.starts_q, p.variable, ctaid.z, p.tokens_q, p.queries);
        let in_k = attention::Sequence::locate(tensors.starts_k, p.variable, ctaid.z, p.tokens_k, p.keys);
        cut!(in_q.start + in_q.len <= p.tokens_q && in_q.len <= p.queries);
        if first >= in_k.len {
            return;
        }
        let last: u32 = (first + C.owned()).min(in_k.len) - 1;
        let mask = attention::Mask::new(in_q.len, in_k.len, p.top_left, p.left, p.right).transposed(in_q.len);
        let (begin, end): (u32, u32) = mask.tiles::<{ C.block }>(first, last);
        cut!(begin <= LAST && end <= LAST);
        let (q_from, k_from, v_from, grad_from, pairs_from): (u64, u64, u64, u64, u64) =
            (tensors.q, tensors.k, tensors.v, tensors.out_grad, tensors.pairs);
        let key = attention::Rows::of_head(k_from, p.k, ctaid.z, ctaid.y, &in_k, p.dim);
        let value = attention::Rows::of_head(v_from, p.v, ctaid.z, ctaid.y, &in_k, p.dim_v);
        let queries = Queries::new(&p, &g, [q_from, grad_from, pairs_from], &in_q);
        let (k_tile, v_tile, stages): (u32, u32, u32) = (tiles.own, tiles.own_v, tiles.stages);
        key.copy::<{ C.owned() }, { C.head }, THREADS>(k_tile, first);
        value.copy::<{ C.owned() }, { C.head_v }, THREADS>(v_tile, first);
        let mut stage: u32 = stages;
        let mut now = Walk { head: ctaid.y * p.kv_group, tile: begin, begin, end };
        let mut next = Walk { head: ctaid.y * p.kv_group, tile: begin, begin, end };
        let mut left: u32 = (end.max(begin) - begin) * p.kv_group;
        cut!(next.head < p.heads && next.tile <= LAST);
        queries.copy::<T, C>(stage, &next);

        let warp_row: u32 = tid.x / 32 * 16;
        let row: u32 = first + warp_row + laneid / 4;
        let a: u32 = fragment::rows_a::<{ C.head }>(k_tile + warp_row * fragment::pitch(C.head));
        let a_value: u32 = fragment::rows_a::<{ C.head_v }>(v_tile + warp_row * fragment::pitch(C.head_v));
        let mut bias_from: u64 = tensors.bias;
        bias_from = (p.biased != 0).select(bias_from, 0);
        let (extents, factors): ([u32; 2], [f32; 2]);
        extents = [in_q.len, in_k.len];
        factors = [p.scale, p.soft_cap];
        let changed: pred = (p.soft_cap > 0.0) | (p.biased != 0);
        let (dk, dv): ([[[f32; 4]; C.head / 8]; 1], [[[f32; 4]; C.head_v / 8]; 1]);
        fragment::clear(&mut dk);
        fragment::clear(&mut dv);
        invariant!(now.tile <= LAST && next.tile <= LAST);
        while left > 0 {
            // While tiles are left, the head is one of those that share this block's head of K: `left` counts the tiles of all that follow.
            assume!(now.head < p.heads);
            cut!(now.head < p.heads && now.tile <= LAST);
            let column: u32 = now.tile * C.block;
            wait_for_copies();
            left -= 1;
            next.advance();
            let rows: u32 = stage;
            let rows_v: u32 = rows + C.block * fragment::pitch(C.head);
            if C.stages == 2 {
                stage = other_stage::<T, C>(stages, stage);
                if left > 0 {
                    assume!(next.head < p.heads);
                    cut!(next.head < p.heads && next.tile <= LAST);
                    queries.copy::<T, C>(stage, &next);
                }
            }
            let (s, slopes): ([[[f32; 4]; NT]; 1], [[[f32; 4]; NT]; 1]);
            fragment::clear(&mut s);
            fragment::clear(&mut slopes);
            fragment::multiply::<T, { C.head }, 1, NT>(&mut s, a, fragment::rows_b::<{ C.head }>(rows));
            if changed {
                let straight = attention::ScoreMod::of_head(bias_from, p.bias, ctaid.z, now.head, extents, factors);
                let score_mod = straight.transposed();
                score_mod.apply::<T, 1, NT, 1>(&mut s, &mut slopes, row, column);
            }
            if mask.hides(first, last, column, column + C.block) {
                mask.apply(&mut s, row, column);
            }
            let numbers: u32 = rows_v + C.block * fragment::pitch(C.head_v) + laneid % 4 * 16;
            let deltas: [[f32; 2]; NT] = exponentiate::<NT>(&mut s, numbers, p.exponent);
            if C.results & 1 == 1 {
                add_products::<T, NT, { C.head_v }>(&mut dv, &s, rows_v);
            }
            if C.results & 2 == 2 {
                differentiate::<T, NT, { C.head_v }>(&mut s, &deltas, a_value, rows_v);
                if p.soft_cap > 0.0 {
                    fragment::multiply_elements(&mut s, &slopes);
                }
                add_products::<T, NT, { C.head }>(&mut dk, &s, rows);
            }
            now.advance();
            if C.stages == 1 {
                block::sync();
                if left > 0 {
                    assume!(next.head < p.heads);
                    cut!(next.head < p.heads && next.tile <= LAST);
                    queries.copy::<T, C>(stage, &next);
                }
            }
        }
        wait_for_copies();
        if C.results & 2 == 2 {
            let to: u64 = tensors.k_grad;
            let result = attention::Rows::of_head(to, g.k, ctaid.z, ctaid.y, &in_k, p.dim);
            fragment::scale(&mut dk, g.slope);
            result.write::<T, { C.head }, 1>(&dk, k_tile + warp_row * fragment::pitch(C.head), first + warp_row);
        }
        if C.results & 1 == 1 {
            let to: u64 = tensors.v_grad;
            let result = attention::Rows::of_head(to, g.v, ctaid.z, ctaid.y, &in_k, p.dim_v);
            result.write::<T, { C.head_v }, 1>(&dv, v_tile + warp_row * fragment::pitch(C.head_v), first + warp_row);
        }
    }

    /// Scores become weights: exp2(s · exponent - logarithm) of each column's query. `numbers` are this lane's first pair in
    /// shared memory: `ld.shared.v4` for each two columns. Returns the second number of each query.
    fn exponentiate<const NT: u32>(s: &mut [[[f32; 4]; NT]; 1], numbers: u32, exponent: f32) -> [[f32; 2]; NT] {
        let deltas: [[f32; 2]; NT];
        for j in 0..NT {
            let pairs: [f32; 4];
            ptx! { ld.shared.v4.f32 {pairs[..]}, [numbers + 64 * j]; }
            for e in 0..4 {
                s[0][j][e] = attention::power(s[0][j][e], exponent, pairs[e % 2 * 2]);
            }
            deltas[j] = [pairs[1], pairs[3]];
        }
        deltas
    }

    /// Weights become gradients of scores: P · (dP - delta), where dP is the product of the block's rows of V, at `a`, and a tile of dO.
    fn differentiate<T, const NT: u32, const HEAD: u32>(
        s: &mut [[[f32; 4]; NT]; 1],
        deltas: &[[f32; 2]; NT],
        a: u32,
        tile: u32,
    ) {
        let dp: [[[f32; 4]; NT]; 1];
        fragment::clear(&mut dp);
        fragment::multiply::<T, HEAD, 1, NT>(&mut dp, a, fragment::rows_b::<HEAD>(tile));
        for j in 0..NT {
            for e in 0..4 {
                s[0][j][e] *= dp[0][j][e] - deltas[j][e % 2];
            }
        }
    }

    /// Adds the product of `s` and a tile in shared memory.
    fn add_products<T, const NT: u32, const HEAD: u32>(
        sums: &mut [[[f32; 4]; HEAD / 8]; 1],
        s: &[[[f32; 4]; NT]; 1],
        tile: u32,
    ) {
        let packed: [[[b32; 4]; NT / 2]; 1] = fragment::pack::<T, 1, { NT / 2 }>(s);
        let right: u32 = fragment::rows_a::<HEAD>(tile);
        fragment::multiply_packed::<T, HEAD, 1, { NT / 2 }, { HEAD / 8 }>(sums, &packed, right);
    }
}
