//! dQ, by blocks that own queries and walk over the keys that they see.
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
    }

    impl Config {
        /// Rows that a block owns.
        pub(crate) const fn owned(&self) -> u32 {
            16 * self.warps
        }

        /// Bytes of shared memory: two tiles of the block's own rows, and two of each stage.
        pub(crate) const fn shared(&self) -> u32 {
            2 * (self.owned() + self.stages * self.block) * (self.head + self.head_v + 16)
        }
    }

    /// Shared memory: Q, later dQ, and dO of the block's own rows, and the stages.
    #[align(16)]
    struct Tiles<T, const C: Config> {
        own: [[T; C.head + 8]; C.owned()],
        own_v: [[T; C.head_v + 8]; C.owned()],
        stages: [Stage<T, C>; C.stages],
    }

    /// A tile of K and one of V.
    #[align(16)]
    struct Stage<T, const C: Config> {
        rows: [[T; C.head + 8]; C.block],
        rows_v: [[T; C.head_v + 8]; C.block],
    }

    /// The stage that is not `stage`.
    fn other_stage<T, const C: Config>(stages: u32, stage: u32) -> u32 {
        stages + stages + size_of::<Stage<T, C>>() - stage
    }

    /// The number of a query's first pair in the scratch memory, which has two numbers for each head of each token.
    fn pair_at(p: &Problem, pairs: u64, sequence: &attention::Sequence, query: u32, head: u32) -> u64 {
        let batch: u32 = (p.variable != 0).select(0, ctaid.z);
        pairs + (wide(batch * p.heads + head) * p.tokens_q + (sequence.start + query) as u64) * 8
    }

    /// Begins to copy tile `block` of keys and values to a stage.
    fn copy_keys<T, const C: Config>(stage: u32, key: &attention::Rows, value: &attention::Rows, block: u32) {
        key.copy::<{ C.block }, { C.head }, { 32 * C.warps }>(stage, block * C.block);
        let to: u32 = stage + C.block * fragment::pitch(C.head);
        value.copy::<{ C.block }, { C.head_v }, { 32 * C.warps }>(to, block * C.block);
        cp_async::commit();
    }

    /// The sum of a row's products of O and dO, for this lane's two rows: its four lanes read 16 bytes each, 64 at a time.
    fn row_deltas<T>(out: &attention::Rows, grad: &attention::Rows, row: u32) -> [f32; 2] {
        let deltas: [f32; 2];
        for half in 0..2 {
            let mut sum: f32 = 0.0;
            let inside: pred = row + 8 * half < out.len;
            let (mut a, mut b): (u64, u64) = (out.at(row + 8 * half), grad.at(row + 8 * half));
            let mut at: u32 = laneid % 4 * 8;
            a += wide(at) * 2;
            b += wide(at) * 2;
            while at < out.dim {
                let x: [f32; 8] = vector::unpack::<T, 8>(vector::load::<T, 8>(a, inside, 0));
                let y: [f32; 8] = vector::unpack::<T, 8>(vector::load::<T, 8>(b, inside, 0));
                for i in 0..8 {
                    sum = x[i].fma(y[i], sum);
                }
                a += 64;
                b += 64;
                at += 32;
            }
            deltas[half] = fragment::quad_sum(sum);
        }
        deltas
    }

    /// Reads the logarithms of this lane's two queries, as powers of 2 and zero for a query that sees no key, so that its
    /// hidden scores become zero; writes them with `deltas` to the scratch memory.
    fn exchange(logs_from: u64, log_stride: u64, pairs_to: u64, row: u32, queries: u32, deltas: [f32; 2]) -> [f32; 2] {
        let logs: [f32; 2];
        for half in 0..2 {
            let inside: pred = row + 8 * half < queries;
            let writes: pred = inside & (laneid % 4 == 0);
            let from: u64 = logs_from + log_stride * (8 * half) as u64;
            let mut log: f32 = 0.0;
            ptx! { @inside ld.global.nc.f32 log, [from]; }
            log *= 1.4426950408889634;
            log = (log < -3.0e38).select(0.0, log);
            ptx! { @writes st.global.v2.f32 [pairs_to + 64 * half], {log, deltas[half]}; }
            logs[half] = log;
        }
        logs
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
        out: &[T],
        lse: &[f32],
        #[align(16)]
        out_grad: &[T],
        bias: &[T],
        starts_q: &[i32],
        starts_k: &[i32],
        #[align(16)]
        q_grad: &mut [T],
        #[align(16)]
        pairs: &mut [u8],
    }

    /// dQ, and for each query of each head a pair of numbers in scratch memory, which `grad_keys` reads: its logarithm in powers of
    /// 2, and delta.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = p.grid(C.owned()),
        shared = C.shared(),
        instances = [
            d64 = ([bf16, f16], Config { head: 64, head_v: 64, warps: 4, block: 64, stages: 2 }),
            d96 = ([bf16, f16], Config { head: 96, head_v: 96, warps: 4, block: 64, stages: 2 }),
            d128 = ([bf16, f16], Config { head: 128, head_v: 128, warps: 4, block: 32, stages: 2 }),
            d192 = ([bf16, f16], Config { head: 192, head_v: 128, warps: 4, block: 32, stages: 2 }),
            d256 = ([bf16, f16], Config { head: 256, head_v: 256, warps: 4, block: 16, stages: 1 })
        ],
        unsafe(
            requires(
                p.is_counted(),
                p.shares(g.heads_k),
                p.holds_queries(2 * tensors.q.len(), p.q, p.dim, 2),
                p.holds_keys(2 * tensors.k.len(), p.k, [g.heads_k, p.dim], 2),
                p.holds_keys(2 * tensors.v.len(), p.v, [g.heads_k, p.dim_v], 2),
                p.holds_queries(2 * tensors.out.len(), p.out, p.dim_v, 2),
                p.logged == 1,
                p.holds_logarithms(4 * tensors.lse.len()),
                p.holds_bias(2 * tensors.bias.len()),
                p.holds_queries(2 * tensors.out_grad.len(), g.out, p.dim_v, 2),
                p.holds_queries(2 * tensors.q_grad.len(), g.q, p.dim, 2),
                p.parts_queries(g.q, p.dim, 2),
                g.holds_pairs(p, tensors.pairs.len()),
                p.separates(tensors.starts_q.len(), tensors.starts_k.len())
            ),
            offsets(tensors.starts_q)
        )
    )]
    pub fn grad_queries<T, const C: Config>(tensors: Tensors<T>, p: Problem, g: Gradients) {
        const NT: u32 = C.block / 8;
        const THREADS: u32 = 32 * C.warps;
        #[shared(dynamic)]
        let tiles: Tiles<T, C>;

        // The last queries see the most keys if causal: they go first.
        let first: u32 = (nctaid.x - 1 - ctaid.x) * C.owned();
        let in_q = attention::Sequence::locate(tensors.starts_q, p.variable, ctaid.z, p.tokens_q, p.queries);
        let in_k = attention::Sequence::locate(tensors.starts_k, p.variable, ctaid.z, p.tokens_k, p.keys);
        if first >= in_q.len {
            return;
        }
        let last: u32 = (first + C.owned()).min(in_q.len) - 1;
        let mask = attention::Mask::new(in_q.len, in_k.len, p.top_left, p.left, p.right);
        let (mut block, end): (u32, u32) = mask.tiles::<{ C.block }>(first, last);

        let (head, head_k): (u32, u32) = (ctaid.y, ctaid.y / p.kv_group);
        let (q_from, k_from, v_from): (u64, u64, u64) = (tensors.q, tensors.k, tensors.v);
        let (out_from, out_grad_from, q_grad_from): (u64, u64, u64) = (tensors.out, tensors.out_grad, tensors.q_grad);
        let query = attention::Rows::of_head(q_from, p.q, ctaid.z, head, &in_q, p.dim);
        let key = attention::Rows::of_head(k_from, p.k, ctaid.z, head_k, &in_k, p.dim);
        let value = attention::Rows::of_head(v_from, p.v, ctaid.z, head_k, &in_k, p.dim_v);
        let grad = attention::Rows::of_head(out_grad_from, g.out, ctaid.z, head, &in_q, p.dim_v);
        let (q_tile, grad_tile): (u32, u32) = (tiles.own, tiles.own_v);
        query.copy::<{ C.owned() }, { C.head }, THREADS>(q_tile, first);
        grad.copy::<{ C.owned() }, { C.head_v }, THREADS>(grad_tile, first);
        let stages: u32 = tiles.stages;
        let mut stage: u32 = stages;
        copy_keys::<T, C>(stage, &key, &value, block);

        let warp_row: u32 = tid.x / 32 * 16;
        let row: u32 = first + warp_row + laneid / 4;
        let a: u32 = fragment::rows_a::<{ C.head }>(q_tile + warp_row * fragment::pitch(C.head));
        let a_grad: u32 = fragment::rows_a::<{ C.head_v }>(grad_tile + warp_row * fragment::pitch(C.head_v));
        let output = attention::Rows::of_head(out_from, p.out, ctaid.z, head, &in_q, p.dim_v);
        let deltas: [f32; 2] = row_deltas::<T>(&output, &grad, row);
        let logs_from: u64 = tensors.lse + attention::offset(p.lse, ctaid.z, in_q.start + row, head);
        let logs: [f32; 2] =
            exchange(logs_from, p.lse[1], pair_at(&p, tensors.pairs, &in_q, row, head), row, in_q.len, deltas);
        let changed: pred = (p.soft_cap > 0.0) | (p.biased != 0);
        let mut bias_from: u64 = tensors.bias;
        bias_from = (p.biased != 0).select(bias_from, 0);
        let (extents, factors): ([u32; 2], [f32; 2]);
        extents = [in_q.len, in_k.len];
        factors = [p.scale, p.soft_cap];
        let score_mod = attention::ScoreMod::of_head(bias_from, p.bias, ctaid.z, head, extents, factors);
        let sums: [[[f32; 4]; C.head / 8]; 1];
        fragment::clear(&mut sums);
        while block < end {
            let column: u32 = block * C.block;
            cp_async::wait::<0>();
            block::sync();
            block += 1;
            let keys: u32 = stage;
            let values: u32 = keys + C.block * fragment::pitch(C.head);
            if C.stages == 2 {
                stage = other_stage::<T, C>(stages, stage);
                if block < end {
                    copy_keys::<T, C>(stage, &key, &value, block);
                }
            }
            let (s, slopes, dp): ([[[f32; 4]; NT]; 1], [[[f32; 4]; NT]; 1], [[[f32; 4]; NT]; 1]);
            fragment::clear(&mut s);
            fragment::clear(&mut slopes);
            fragment::multiply::<T, { C.head }, 1, NT>(&mut s, a, fragment::rows_b::<{ C.head }>(keys));
            if changed {
                score_mod.apply::<T, 1, NT, 1>(&mut s, &mut slopes, row, column);
            }
            if mask.hides(first, last, column, column + C.block) {
                mask.apply(&mut s, row, column);
            }
            fragment::clear(&mut dp);
            fragment::multiply::<T, { C.head_v }, 1, NT>(&mut dp, a_grad, fragment::rows_b::<{ C.head_v }>(values));
            for j in 0..NT {
                for e in 0..4 {
                    s[0][j][e] = attention::power(s[0][j][e], p.exponent, logs[e / 2]) * (dp[0][j][e] - deltas[e / 2]);
                }
            }
            if p.soft_cap > 0.0 {
                fragment::multiply_elements(&mut s, &slopes);
            }
            let packed: [[[b32; 4]; NT / 2]; 1] = fragment::pack::<T, 1, { NT / 2 }>(&s);
            let right: u32 = fragment::rows_a::<{ C.head }>(keys);
            fragment::multiply_packed::<T, { C.head }, 1, { NT / 2 }, { C.head / 8 }>(&mut sums, &packed, right);
            if C.stages == 1 {
                block::sync();
                if block < end {
                    copy_keys::<T, C>(stage, &key, &value, block);
                }
            }
        }
        cp_async::wait::<0>();
        block::sync();
        fragment::scale(&mut sums, g.slope);
        let result = attention::Rows::of_head(q_grad_from, g.q, ctaid.z, head, &in_q, p.dim);
        result.write::<T, { C.head }, 1>(&sums, q_tile + warp_row * fragment::pitch(C.head), first + warp_row);
    }
}
