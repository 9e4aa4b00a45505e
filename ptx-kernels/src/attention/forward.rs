//! Forward on `sm_80` and newer: `cp.async`, `mma.sync`, online softmax. A block owns `block_m` queries of a head and walks
//! over the keys that they see; while S = Q · Kᵀ is multiplied the tile of V arrives, and while P · V is multiplied the next
//! tile of K.
//!
//! Scores never leave registers. S of a warp is 16 rows by 8 columns for each `mma`, which is the layout of the left operand
//! of the next one, so that P needs a conversion and no exchange.
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

use super::factors::Factors;
use super::problem::{Paging, Problem};
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(
    arch = "sm_80",
    params(Problem, Paging, Factors),
    modules(crate::attention::device::{attention, kv_cache})
)]
pub(crate) mod kernels {
    use super::{Factors, Paging, Problem};

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of Q and K.
        pub head: u32,
        /// Most elements of a row of V.
        pub head_v: u32,
        /// Warps of a block.
        pub warps: u32,
        /// Tiles of 16 queries of a warp.
        pub tiles_m: u32,
        /// Keys of a tile.
        pub block_n: u32,
    }

    impl Config {
        /// Queries of a block.
        pub(crate) const fn block_m(&self) -> u32 {
            16 * self.warps * self.tiles_m
        }

        /// Bytes of shared memory.
        pub(crate) const fn shared(&self) -> u32 {
            2 * ((self.block_m() + self.block_n) * (self.head + 8) + self.block_n * (self.head_v + 8))
        }
    }

    /// Shared memory: Q, later O, and one tile of K and of V. Rows have 16 bytes more than they need.
    #[align(16)]
    struct Tiles<T, const C: Config> {
        q: [[T; C.head + 8]; C.block_m()],
        k: [[T; C.head + 8]; C.block_n],
        v: [[T; C.head_v + 8]; C.block_n],
    }

    /// The rows of K or V of a head: of a tensor, or of a cache, whose pages are `page` bytes apart.
    struct Keys<const C: Config> {
        rows: attention::Rows,
        places: kv_cache::Pages,
        page: u64,
        cached: u32,
    }

    impl<const C: Config> Keys<C> {
        /// Begins to copy a tile of rows from number `first` on; those behind the last one become zeros.
        fn copy<I, const COLUMNS: u32>(&self, tile: u32, first: u32) {
            const ACROSS: u32 = if COLUMNS % 64 == 0 { 8 } else { 4 };
            const STEP: u32 = 32 * C.warps / ACROSS;
            if size_of::<I>() == 1 {
                self.rows.copy_e4m3::<{ C.block_n }, COLUMNS, { 32 * C.warps }>(tile, first);
            } else if self.cached == 0 {
                self.rows.copy::<{ C.block_n }, COLUMNS, { 32 * C.warps }>(tile, first);
            } else {
                let (row, column): (u32, u32) = (tid.x / ACROSS, tid.x % ACROSS * 16);
                for i in 0..C.block_n / STEP {
                    let token: u32 = first + row + i * STEP;
                    let known: pred = token < self.rows.len;
                    let (mut page, mut slot): (u32, u32) = (0, 0);
                    if known {
                        (page, slot) = self.places.locate(token);
                    }
                    let from: u64 =
                        self.rows.first + page as u64 * self.page + slot as u64 * self.rows.stride + column as u64;
                    let to: u32 = tile + (row + i * STEP) * fragment::pitch(COLUMNS) + column;
                    for j in 0..COLUMNS / 8 / ACROSS {
                        const AT: u32 = 16 * ACROSS * j;
                        let inside: pred = known & (column + AT < 2 * self.rows.dim);
                        cp_async::copy16_zero(to + AT, from + AT as u64, inside.select(16, 0));
                    }
                }
            }
        }
    }

    /// The keys of sequence `number`: of a cache as many as `lengths` has, else as `attention::Sequence` has them.
    fn locate_keys(p: &Problem, cache: &Paging, starts: Global<i32>, lengths: Global<i32>) -> attention::Sequence {
        let mut keys = attention::Sequence::locate(starts, p.variable, ctaid.z, p.tokens_k, p.keys);
        if cache.cached != 0 {
            let (at, len): (Global<i32>, i32);
            at = lengths.at(ctaid.z);
            ptx! { ld.global.nc.s32 len, [at]; }
            keys.len = unsigned(len.max(0)).min(p.keys);
        }
        keys
    }

    /// The operands of a call.
    struct Inputs<I, T> {
        #[align(16)]
        q: &[I],
        #[align(16)]
        k: &[I],
        #[align(16)]
        v: &[I],
        bias: &[T],
        /// The cumulative lengths of packed sequences.
        starts_q: &[i32],
        starts_k: &[i32],
        /// The keys of each sequence of a cache, and the pages that hold them.
        lengths: &[i32],
        table: &[i32],
        /// The factors of the heads of `e4m3`.
        q_factors: &[f32],
        k_factors: &[f32],
        v_factors: &[f32],
    }

    /// The output, and the logarithms of the sums of exponentials.
    struct Outputs<T> {
        #[align(16)]
        out: &mut [T],
        lse: &mut [f32],
    }

    /// O = softmax(S) · V for `block_m` queries of a head, and the logarithm of each row's sum of exponentials. Tiles of Q, K and V of `e4m3`,
    /// which are bytes here, become `f16`.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = p.grid(C.block_m()),
        shared = C.shared(),
        instances = [
            d64 = ([bf16, f16, u8, u8], [bf16, f16, bf16, f16], Config { head: 64, head_v: 64, warps: 4, tiles_m: 2, block_n: 64 }),
            d96 = ([bf16, f16], [bf16, f16], Config { head: 96, head_v: 96, warps: 4, tiles_m: 2, block_n: 64 }),
            d128 = ([bf16, f16, u8, u8], [bf16, f16, bf16, f16], Config { head: 128, head_v: 128, warps: 4, tiles_m: 2, block_n: 64 }),
            d192 = ([bf16, f16], [bf16, f16], Config { head: 192, head_v: 128, warps: 4, tiles_m: 1, block_n: 64 }),
            d256 = ([bf16, f16, u8, u8], [bf16, f16, bf16, f16], Config { head: 256, head_v: 256, warps: 4, tiles_m: 1, block_n: 64 })
        ],
        unsafe(
            requires(
                p.is_counted(),
                p.has_vectors(size_of::<I>()),
                p.shares(cache.heads_k),
                size_of::<I>() == 2 || cache.cached == 0,
                p.holds_queries(size_of::<I>() * inputs.q.len(), p.q, p.dim, size_of::<I>()),
                cache.holds_keys(p, size_of::<I>() * inputs.k.len(), p.k, p.dim, size_of::<I>()),
                cache.holds_keys(p, size_of::<I>() * inputs.v.len(), p.v, p.dim_v, size_of::<I>()),
                p.holds_queries(2 * outputs.out.len(), p.out, p.dim_v, 2),
                p.parts_queries(p.out, p.dim_v, 2),
                p.parts_queries(p.lse, 1, 4),
                p.holds_logarithms(4 * outputs.lse.len()),
                p.holds_bias(2 * inputs.bias.len()),
                p.separates(inputs.starts_q.len(), inputs.starts_k.len()),
                cache.has_places(p, inputs.lengths.len(), inputs.table.len()),
                f.holds([p.batch, cache.heads_k], [4 * inputs.q_factors.len(), 4 * inputs.k_factors.len(), 4 * inputs.v_factors.len()])
            ),
            offsets(inputs.starts_q)
        )
    )]
    pub fn forward<I, T, const C: Config>(
        inputs: Inputs<I, T>,
        outputs: Outputs<T>,
        p: Problem,
        cache: Paging,
        f: Factors,
    ) {
        const MT: u32 = C.tiles_m;
        const NT: u32 = C.block_n / 8;
        const THREADS: u32 = 32 * C.warps;
        #[shared(dynamic)]
        let tiles: Tiles<T, C>;

        // The last queries see the most keys if causal: they go first.
        let first: u32 = (nctaid.x - 1 - ctaid.x) * C.block_m();
        let in_q = attention::Sequence::locate(inputs.starts_q, p.variable, ctaid.z, p.tokens_q, p.queries);
        let in_k = locate_keys(&p, &cache, inputs.starts_k, inputs.lengths);
        if first >= in_q.len {
            return;
        }
        let last: u32 = (first + C.block_m()).min(in_q.len) - 1;
        let mask = attention::Mask::new(in_q.len, in_k.len, p.top_left, p.left, p.right);
        let (mut block, end): (u32, u32) = mask.tiles::<{ C.block_n }>(first, last);

        let head_k: u32 = ctaid.y / p.kv_group;
        let (q_from, k_from): (u64, u64) = (inputs.q, inputs.k);
        let (v_from, out_from): (u64, u64) = (inputs.v, outputs.out);
        let query = attention::Rows::of_head(q_from, p.q, ctaid.z, ctaid.y, &in_q, p.dim);
        // The number of a page is the table's, and the first page that of sequence 0.
        let own: u32 = (cache.cached != 0).select(0, ctaid.z);
        let (cached, tables): (u32, u64) = (cache.cached, inputs.table);
        let places = kv_cache::Pages::of_sequence(tables, cache.table_pages, ctaid.z, cache.page_size, cache.pages);
        let rows = attention::Rows::of_head(k_from, p.k, own, head_k, &in_k, p.dim);
        let key = Keys::<C> { rows, places, page: p.k[0], cached };
        let rows_v = attention::Rows::of_head(v_from, p.v, own, head_k, &in_k, p.dim_v);
        let value = Keys::<C> { rows: rows_v, places, page: p.v[0], cached };
        let (q_tile, k_tile, v_tile): (u32, u32, u32) = (tiles.q, tiles.k, tiles.v);
        if size_of::<I>() == 1 {
            query.copy_e4m3::<{ C.block_m() }, { C.head }, THREADS>(q_tile, first);
        } else {
            query.copy::<{ C.block_m() }, { C.head }, THREADS>(q_tile, first);
        }
        key.copy::<I, { C.head }>(k_tile, block * C.block_n);
        cp_async::commit();

        let warp_row: u32 = tid.x / 32 * (16 * MT);
        let row: u32 = first + warp_row + laneid / 4;
        let a: u32 = fragment::rows_a::<{ C.head }>(q_tile + warp_row * fragment::pitch(C.head));
        let b: u32 = fragment::rows_b::<{ C.head }>(k_tile);
        let c: u32 = fragment::rows_a::<{ C.head_v }>(v_tile);
        let changed: pred = (p.soft_cap > 0.0) | (p.biased != 0);
        let mut bias_from: u64 = inputs.bias;
        bias_from = (p.biased != 0).select(bias_from, 0);
        let (extents, factors): ([u32; 2], [f32; 2]);
        extents = [in_q.len, in_k.len];
        factors = [p.scale, p.soft_cap];
        let (mut exponent, mut values_factor): (f32, f32) = (p.exponent, 1.0);
        if size_of::<I>() == 1 {
            let addresses: [u64; 3] = [inputs.q_factors, inputs.k_factors, inputs.v_factors];
            values_factor = descale(&f, addresses, head_k, changed, &mut factors, &mut exponent);
        }
        let score_mod = attention::ScoreMod::of_head(bias_from, p.bias, ctaid.z, ctaid.y, extents, factors);
        let mut online = attention::Online::<MT>::new();
        let o: [[[f32; 4]; C.head_v / 8]; MT];
        fragment::clear(&mut o);
        while block < end {
            let keys: u32 = block * C.block_n;
            cp_async::wait::<0>();
            block::sync();
            value.copy::<I, { C.head_v }>(v_tile, keys);
            cp_async::commit();
            let s: [[[f32; 4]; NT]; MT];
            fragment::clear(&mut s);
            multiply_scores::<I, T, { C.head }, MT, NT>(&mut s, a, b);
            if changed {
                let slopes: [[[f32; 4]; NT]; MT];
                score_mod.apply::<T, MT, NT, 0>(&mut s, &mut slopes, row, keys);
            }
            if mask.hides(first, last, keys, keys + C.block_n) {
                mask.apply(&mut s, row, keys);
            }
            online.update(&mut s, &mut o, exponent);
            let weights: [[[b32; 4]; NT / 2]; MT] = pack_weights::<I, T, MT, { NT / 2 }>(&s);
            cp_async::wait::<0>();
            block::sync();
            block += 1;
            if block < end {
                key.copy::<I, { C.head }>(k_tile, keys + C.block_n);
            }
            cp_async::commit();
            multiply_values::<I, T, { C.head_v }, MT, { NT / 2 }, { C.head_v / 8 }>(&mut o, &weights, c);
        }
        cp_async::wait::<0>();
        block::sync();

        let logarithms: [[f32; 2]; MT] = online.finish(&mut o, exponent);
        if size_of::<I>() == 1 {
            fragment::scale(&mut o, values_factor);
        }
        let results = attention::Rows::of_head(out_from, p.out, ctaid.z, ctaid.y, &in_q, p.dim_v);
        let place: u32 = q_tile + warp_row * fragment::pitch(C.head_v);
        results.write::<T, { C.head_v }, MT>(&o, place, first + warp_row);
        if p.logged != 0 {
            let to: u64 = outputs.lse + attention::offset(p.lse, ctaid.z, in_q.start + row, ctaid.y);
            write_logarithms(&logarithms, to, p.lse[1], row, in_q.len);
        }
    }

    /// The factors of a head of `e4m3`: that of the scores joins `factors` or, if nothing changes the scores, the exponent. Returns that of the
    /// values.
    fn descale(
        f: &Factors,
        addresses: [u64; 3],
        head_k: u32,
        changed: pred,
        factors: &mut [f32; 2],
        exponent: &mut f32,
    ) -> f32 {
        let descale = attention::Descale { factors: addresses, strides: [f.q, f.k, f.v], given: f.reach };
        let (score, values): (f32, f32) = descale.of_head(ctaid.z, head_k);
        factors[0] *= changed.select(score, 1.0);
        *exponent *= changed.select(1.0, score);
        values
    }

    /// S += Q · Kᵀ: tiles of `e4m3` are those of `f16`.
    fn multiply_scores<I, T, const K: u32, const MT: u32, const NT: u32>(s: &mut [[[f32; 4]; NT]; MT], a: u32, b: u32) {
        if size_of::<I>() == 1 {
            fragment::multiply::<f16, K, MT, NT>(s, a, b);
        } else {
            fragment::multiply::<T, K, MT, NT>(s, a, b);
        }
    }

    /// P, rounded to the elements that it multiplies.
    fn pack_weights<I, T, const MT: u32, const KT: u32>(s: &[[[f32; 4]; 2 * KT]; MT]) -> [[[b32; 4]; KT]; MT] {
        let weights: [[[b32; 4]; KT]; MT];
        if size_of::<I>() == 1 {
            weights = fragment::pack::<f16, MT, KT>(s);
        } else {
            weights = fragment::pack::<T, MT, KT>(s);
        }
        weights
    }

    /// O += P · V.
    fn multiply_values<I, T, const COLUMNS: u32, const MT: u32, const KT: u32, const NT: u32>(
        o: &mut [[[f32; 4]; NT]; MT],
        weights: &[[[b32; 4]; KT]; MT],
        c: u32,
    ) {
        if size_of::<I>() == 1 {
            fragment::multiply_packed::<f16, COLUMNS, MT, KT, NT>(o, weights, c);
        } else {
            fragment::multiply_packed::<T, COLUMNS, MT, KT, NT>(o, weights, c);
        }
    }

    /// Writes the logarithms of this lane's rows: `st.global.f32` by one lane of each four.
    fn write_logarithms<const MT: u32>(logarithms: &[[f32; 2]; MT], to: u64, stride: u64, row: u32, queries: u32) {
        for i in 0..MT {
            for half in 0..2 {
                let inside: pred = (row + (16 * i + 8 * half) < queries) & (laneid % 4 == 0);
                let at: u64 = to + stride * (16 * i + 8 * half) as u64;
                ptx! { @inside st.global.f32 [at], logarithms[i][half]; }
            }
        }
    }
}
