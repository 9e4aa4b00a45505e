//! Decode on `sm_80` and newer: few queries, many keys, which lie in a cache. Memory decides its speed.
//!
//! The queries of all heads that share a head of the cache are the rows of one product, so that every key is read once. A block
//! has a range of the keys (a split); its warps take 16 keys at a time, each with a ring of its own that no other warp waits
//! for. Then the block adds up the warps' parts, and the last block of a head those of the splits (Flash-Decoding, Dao et al., 2023).
#![allow(unsafe_code, reason = "the author of a kernel vouches for its memory")]

use super::problem::DecodeProblem;
use ptx_launch::prelude::*;

/// The kernel and its parts.
#[ptx_module(arch = "sm_80", params(DecodeProblem {
    q: [u64; 3], k: [u64; 3], v: [u64; 3], out: [u64; 3], lse: [u64; 3], reach: [u64; 5], scratch: u64,
    batch: u32, tokens: u32, heads_k: u32, group: u32, dim: u32, dim_v: u32, capacity: u32, page_size: u32, pages: u32,
    table_pages: u32, splits: u32, row_tiles: u32, paged: u32, logged: u32, left: i32, right: i32,
    scale: f32, soft_cap: f32, exponent: f32, pad: u32
}))]
pub(crate) mod kernels {
    use super::DecodeProblem;

    /// Extents of the tiles.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Config {
        /// Most elements of a row of Q and K.
        pub head: u32,
        /// Most elements of a row of V.
        pub head_v: u32,
        /// Warps of a block.
        pub warps: u32,
    }

    /// Rows of a block: queries of the heads that share a head of the cache.
    const ROWS: u32 = 16;
    /// Keys of a warp's tile.
    const KEYS: u32 = 16;
    /// Tiles of a warp in shared memory.
    const STAGES: u32 = 2;
    /// Most splits.
    const SPLITS: u32 = 128;

    impl Config {
        /// Keys that a block's warps take at once.
        pub(crate) const fn block(&self) -> u32 {
            KEYS * self.warps
        }

        /// Bytes of a stage: a tile of K and one of V.
        const fn stage(&self) -> u32 {
            2 * KEYS * (self.head + self.head_v + 16)
        }

        /// Bytes of shared memory: Q, and the stages, later sums of the warps; largest scores and sums of each warp, and the weights
        /// of splits.
        pub(crate) const fn shared(&self) -> u32 {
            2 * ROWS * (self.head + 8)
                + self.warps * STAGES * self.stage()
                + 8 * ROWS * self.warps
                + 4 * ROWS * SPLITS
                + 16
        }
    }

    /// The cache of one head of one sequence.
    struct Cache {
        k: u64,
        v: u64,
        k_strides: [u64; 2],
        v_strides: [u64; 2],
        table: u64,
        page_size: u32,
        pages: u32,
        len: u32,
    }

    impl Cache {
        /// The page of a token and its place there. No number of the table leads out of the cache.
        fn locate(&self, token: u32) -> (u32, u32) {
            let (mut page, mut slot): (u32, u32) = (ctaid.z, token);
            if self.table != 0 {
                let number: u32 = token / self.page_size;
                slot = token - number * self.page_size;
                let entry: u64 = self.table + wide(number) * 4;
                ptx! { ld.global.nc.u32 page, [entry]; }
                page = page.min(self.pages - 1);
            }
            (page, slot)
        }

        /// Begins to copy a warp's tile of keys and values from `token` on; those behind the last one become zeros. Four lanes copy a
        /// row.
        fn copy<const C: Config>(&self, stage: u32, token: u32, dim: u32, dim_v: u32) {
            let (row, column): (u32, u32) = (laneid >> 2, laneid & 3);
            let to: u32 = stage + row * fragment::pitch(C.head) + (column << 4);
            let to_v: u32 = stage + KEYS * fragment::pitch(C.head) + row * fragment::pitch(C.head_v) + (column << 4);
            for i in 0..KEYS / 8 {
                let own: u32 = token + row + 8 * i;
                let known: pred = own < self.len;
                let (mut page, mut slot): (u32, u32) = (0, 0);
                if known {
                    (page, slot) = self.locate(own);
                }
                let from: u64 =
                    self.k + page as u64 * self.k_strides[0] + slot as u64 * self.k_strides[1] + wide(column) * 16;
                let from_v: u64 =
                    self.v + page as u64 * self.v_strides[0] + slot as u64 * self.v_strides[1] + wide(column) * 16;
                for j in 0..C.head / 32 {
                    let inside: pred = known & (column * 8 + 32 * j < dim);
                    let bytes: u32 = inside.select(16, 0);
                    cp_async::copy16_zero(
                        to + (8 * i * fragment::pitch(C.head) + 64 * j),
                        from + (64 * j) as u64,
                        bytes,
                    );
                }
                for j in 0..C.head_v / 32 {
                    let inside: pred = known & (column * 8 + 32 * j < dim_v);
                    let bytes: u32 = inside.select(16, 0);
                    cp_async::copy16_zero(
                        to_v + (8 * i * fragment::pitch(C.head_v) + 64 * j),
                        from_v + (64 * j) as u64,
                        bytes,
                    );
                }
            }
            cp_async::commit();
        }
    }

    /// The packed rows of a block: row r is query r / group of head r % group of those that share a head of the cache.
    struct Packed {
        first: u32,
        count: u32,
        group: u32,
        head: u32,
    }

    impl Packed {
        /// The query of a row, and its head.
        fn locate(&self, row: u32) -> (u32, u32) {
            let query: u32 = (self.first + row) / self.group;
            (query, self.head + (self.first + row - query * self.group))
        }

        /// True if there is such a row.
        fn has(&self, row: u32) -> pred {
            self.first + row < self.count
        }
    }

    /// Begins to copy the packed rows of Q.
    fn copy_queries<const C: Config>(tile: u32, q: u64, strides: [u64; 3], packed: &Packed, dim: u32) {
        const LANES: u32 = 2 * C.warps;
        let (row, column): (u32, u32) = (tid.x / LANES, tid.x % LANES);
        let known: pred = packed.has(row);
        let (query, head): (u32, u32) = packed.locate(row);
        let from: u64 = q + attention::offset(strides, ctaid.z, query, head) + wide(column) * 16;
        let to: u32 = tile + row * fragment::pitch(C.head) + (column << 4);
        for j in 0..C.head.div_ceil(8 * LANES) {
            let at: u32 = column * 8 + 8 * LANES * j;
            if at < C.head {
                let inside: pred = known & (at < dim);
                let bytes: u32 = inside.select(16, 0);
                cp_async::copy16_zero(to + 16 * LANES * j, from + (16 * LANES * j) as u64, bytes);
            }
        }
        cp_async::commit();
    }

    /// State of a warp: sums over the keys that it has seen, for this lane's two rows.
    struct State<const C: Config> {
        o: [[[f32; 4]; C.head_v / 8]; 1],
        most: [f32; 2],
        sum: [f32; 2],
    }

    impl<const C: Config> State<C> {
        /// No keys.
        fn new() -> State<C> {
            let o: [[[f32; 4]; C.head_v / 8]; 1];
            let most: [f32; 2];
            fragment::clear(&mut o);
            ptx! {
                mov.f32 most[0], 0fFF800000;
                mov.f32 most[1], 0fFF800000;
            }
            State { o, most, sum: [0.0, 0.0] }
        }

        /// Scores become exponentials relative to the largest one of their row so far, and the sums shrink to match.
        fn update(&mut self, s: &mut [[[f32; 4]; KEYS / 8]; 1], exponent: f32) {
            for half in 0..2 {
                let mut x: f32 = self.most[half];
                for j in 0..KEYS / 8 {
                    x = x.max(s[0][j][2 * half]).max(s[0][j][2 * half + 1]);
                }
                x = fragment::quad_max(x);
                let mut base: f32 = x * exponent;
                base = (base < -3.0e38).select(0.0, base);
                let shrink: f32 = attention::power(self.most[half], exponent, base);
                let mut sum: f32 = 0.0;
                for j in 0..KEYS / 8 {
                    for e in 0..2 {
                        s[0][j][2 * half + e] = attention::power(s[0][j][2 * half + e], exponent, base);
                        sum += s[0][j][2 * half + e];
                    }
                }
                self.most[half] = x;
                self.sum[half] = self.sum[half].fma(shrink, sum);
                for j in 0..C.head_v / 8 {
                    self.o[0][j][2 * half] *= shrink;
                    self.o[0][j][2 * half + 1] *= shrink;
                }
            }
        }

        /// Adds up the warps' parts: sums to `sums`, as `f32` of `head_v` a row, of all warps one behind the other; largest scores
        /// in powers of 2 and sums of exponentials to `marks`. All threads call it.
        fn leave(&self, sums: u32, marks: u32, exponent: f32) {
            let (warp, row): (u32, u32) = (tid.x / 32, laneid / 4);
            for half in 0..2 {
                let total: f32 = fragment::quad_sum(self.sum[half]);
                let mark: u32 = marks + ((warp * ROWS + row + 8 * half) << 3);
                let most: f32 = self.most[half] * exponent;
                let first: pred = laneid % 4 == 0;
                ptx! { @first st.shared.v2.f32 [mark], {most, total}; }
                let to: u32 = sums + ((warp * ROWS + row + 8 * half) * C.head_v + laneid % 4 * 2) * 4;
                for j in 0..C.head_v / 8 {
                    ptx! { st.shared.v2.f32 [to + 32 * j], {self.o[0][j][2 * half], self.o[0][j][2 * half + 1]}; }
                }
            }
        }
    }

    /// The largest of `count` logarithms of a row and the sum of their powers, or of pairs of marks.
    struct Total {
        most: f32,
        sum: f32,
    }

    /// The marks of a row, of all warps, as one.
    fn total_of_warps<const C: Config>(marks: u32, row: u32) -> Total {
        let (mut most, mut sum): (f32, f32) = (-3.4e38, 0.0);
        for warp in 0..C.warps {
            let (own, part): (f32, f32);
            let at: u32 = marks + (row << 3);
            ptx! { ld.shared.v2.f32 {own, part}, [at + 8 * ROWS * warp]; }
            let larger: f32 = most.max(own);
            sum = sum.fma(attention::power(most, 1.0, larger), part * attention::power(own, 1.0, larger));
            most = larger;
        }
        Total { most, sum }
    }

    /// One element of a row, summed over the warps.
    fn sum_of_warps<const C: Config>(sums: u32, marks: u32, row: u32, column: u32, most: f32) -> f32 {
        let mut sum: f32 = 0.0;
        for warp in 0..C.warps {
            let (own, part): (f32, f32);
            let (mark, at): (u32, u32) = (marks + (row << 3), sums + (row * C.head_v + column) * 4);
            ptx! {
                ld.shared.f32 own, [mark + 8 * ROWS * warp];
                ld.shared.f32 part, [at + 4 * ROWS * C.head_v * warp];
            }
            sum = part.fma(attention::power(own, 1.0, most), sum);
        }
        sum
    }

    /// Writes an element of the output, rounded.
    fn write<T>(to: u64, x: f32) {
        let rounded: T;
        ptx! {
            cvt.rn.{T}.f32 rounded, x;
            st.global.b16 [to], rounded;
        }
    }

    /// The output of a few queries against a cache. `lengths` are the keys of each sequence, the new ones included, `table` the pages
    /// of each sequence; `flags` are zeros before and after.
    #[ptx_kernel(
        block = 32 * C.warps,
        grid = p.grid(),
        shared = C.shared(),
        instances = [
            d64 = (bf16, Config { head: 64, head_v: 64, warps: 4 }),
            d64 = (f16, Config { head: 64, head_v: 64, warps: 4 }),
            d96 = (bf16, Config { head: 96, head_v: 96, warps: 4 }),
            d96 = (f16, Config { head: 96, head_v: 96, warps: 4 }),
            d128 = (bf16, Config { head: 128, head_v: 128, warps: 4 }),
            d128 = (f16, Config { head: 128, head_v: 128, warps: 4 }),
            d256 = (bf16, Config { head: 256, head_v: 256, warps: 2 }),
            d256 = (f16, Config { head: 256, head_v: 256, warps: 2 }),
        ],
        unsafe(requires(
            p.covers([q.len(), k.len(), v.len(), out.len(), lse.len()]),
            p.covers_tables([lengths.len(), table.len(), scratch.len(), flags.len()])
        ))
    )]
    pub fn decode<T, const C: Config>(
        q: &[T],
        k: &[T],
        v: &[T],
        lengths: &[i32],
        table: &[i32],
        out: &mut [T],
        lse: &mut [f32],
        scratch: &mut [u8],
        flags: &mut [u32],
        p: DecodeProblem,
    ) {
        #[shared(dynamic, align = 16)]
        let memory: [u8];
        let q_tile: u32 = memory;
        let stages: u32 = q_tile + 2 * ROWS * (C.head + 8);
        let marks: u32 = stages + C.warps * STAGES * C.stage();

        let (split, head_k, row_tile): (u32, u32, u32) = (ctaid.x, ctaid.y / p.row_tiles, ctaid.y % p.row_tiles);
        let len_at = lengths.at(ctaid.z);
        let mut found: i32;
        ptx! { ld.global.nc.s32 found, [len_at]; }
        let len: u32 = unsigned(found.max(0)).min(p.capacity);
        let packed =
            Packed { first: row_tile * ROWS, count: p.tokens * p.group, group: p.group, head: head_k * p.group };
        let (k_from, v_from, q_from, table_from): (u64, u64, u64, u64) = (k, v, q, table);
        let own_table: u64 = table_from + wide(ctaid.z * p.table_pages) * 4;
        let cache = Cache {
            k: k_from + p.k[2] * head_k as u64,
            v: v_from + p.v[2] * head_k as u64,
            k_strides: [p.k[0], p.k[1]],
            v_strides: [p.v[0], p.v[1]],
            table: (p.paged != 0).select(own_table, 0),
            page_size: p.page_size,
            pages: p.pages,
            len,
        };
        copy_queries::<C>(q_tile, q_from, p.q, &packed, p.dim);

        // Keys that any query sees, in rounds of the block; this split's part of them.
        let none: u32 = 0;
        let mask = attention::Mask::new(p.tokens, len, none, p.left, p.right);
        let (begin, end): (u32, u32) = mask.tiles::<{ C.block() }>(none, p.tokens - 1);
        let each: u32 = (end.max(begin) - begin + p.splits - 1) / p.splits;
        let mut round: u32 = begin + split * each;
        let last: u32 = (round + each).min(end);
        let warp: u32 = tid.x / 32;
        let own: u32 = stages + warp * (STAGES * C.stage());
        let mut stage: u32 = own;
        cache.copy::<C>(stage, round * C.block() + warp * KEYS, p.dim, p.dim_v);
        cp_async::wait::<1>();
        block::sync();
        let a: u32 = fragment::rows_a::<{ C.head }>(q_tile);
        let queries: [u32; 2];
        for half in 0..2 {
            let (query, _head): (u32, u32) = packed.locate(laneid / 4 + 8 * half);
            queries[half] = query;
        }
        let mut state = State::<C>::new();
        while round < last {
            let first: u32 = round * C.block() + warp * KEYS;
            let this: u32 = stage;
            stage = own + own + C.stage() - stage;
            round += 1;
            cache.copy::<C>(stage, round * C.block() + warp * KEYS, p.dim, p.dim_v);
            cp_async::wait::<1>();
            warp::sync();
            let s: [[[f32; 4]; KEYS / 8]; 1];
            fragment::clear(&mut s);
            fragment::multiply::<T, { C.head }, 1, { KEYS / 8 }>(&mut s, a, fragment::rows_b::<{ C.head }>(this));
            change(&mut s, &mask, queries, first, [p.scale, p.soft_cap]);
            state.update(&mut s, p.exponent);
            let weights: [[[b32; 4]; 1]; 1] = fragment::pack::<T, 1, 1>(&s);
            let right: u32 = fragment::rows_a::<{ C.head_v }>(this + KEYS * fragment::pitch(C.head));
            fragment::multiply_packed::<T, { C.head_v }, 1, 1, { C.head_v / 8 }>(&mut state.o, &weights, right);
            warp::sync();
        }
        cp_async::wait::<0>();
        block::sync();
        state.leave(stages, marks, p.exponent);
        block::sync();

        let (out_to, lse_to, scratch_to, flags_to): (u64, u64, u64, u64) = (out, lse, scratch, flags);
        let result = Output { out: out_to, lse: lse_to, dim_v: p.dim_v, logged: p.logged };
        if p.splits == 1 {
            finish::<T, C>(&result, p.out, p.lse, &packed, stages, marks);
        } else {
            let head_tile: u32 = ctaid.z * (p.heads_k * p.row_tiles) + ctaid.y;
            let parts: u64 = scratch_to + wide(head_tile * p.splits) * (4 * ROWS * (C.head_v + 1));
            store_part::<C>(parts + wide(split) * (4 * ROWS * (C.head_v + 1)), stages, marks);
            let weights: u32 = marks + 8 * ROWS * C.warps;
            if is_last(flags_to + wide(head_tile) * 4, p.splits, weights + 4 * ROWS * SPLITS) {
                combine::<T, C>(&result, p.out, p.lse, &packed, parts, [p.splits, weights]);
            }
        }
    }

    /// The soft cap, and minus infinity for the keys that a row's query does not see; `first` is the tile's first key.
    fn change(
        s: &mut [[[f32; 4]; KEYS / 8]; 1],
        mask: &attention::Mask,
        queries: [u32; 2],
        first: u32,
        factors: [f32; 2],
    ) {
        if factors[1] > 0.0 {
            for j in 0..KEYS / 8 {
                for e in 0..4 {
                    s[0][j][e] = attention::tanh(s[0][j][e] * factors[0]) * factors[1];
                }
            }
        }
        let column: i32 = signed(first + laneid % 4 * 2);
        for half in 0..2 {
            let query: i32 = signed(queries[half]);
            let from: i32 = query + mask.low - column;
            let to: i32 = (query + mask.high).min(signed(mask.columns)) - column;
            let width: u32 = unsigned((to - from).max(0));
            for j in 0..KEYS / 8 {
                for e in 0..2 {
                    let behind: u32 = unsigned((8 * j + e) as i32 - from);
                    let hidden: pred = behind >= width;
                    ptx! { selp.f32 s[0][j][2 * half + e], 0fFF800000, s[0][j][2 * half + e], hidden; }
                }
            }
        }
    }

    /// The tensors that a block writes.
    struct Output {
        out: u64,
        lse: u64,
        dim_v: u32,
        logged: u32,
    }

    impl Output {
        /// The addresses of a row's output and logarithm.
        fn locate(&self, out: [u64; 3], lse: [u64; 3], packed: &Packed, row: u32) -> (u64, u64) {
            let (query, head): (u32, u32) = packed.locate(row);
            let to: u64 = self.out + attention::offset(out, ctaid.z, query, head);
            (to, self.lse + attention::offset(lse, ctaid.z, query, head))
        }

        /// Writes a row's logarithm by one lane: `most` and the logarithm of `sum` are powers of 2.
        fn log(&self, to: u64, most: f32, sum: f32) {
            let mut log: f32 = 0.0;
            ptx! { lg2.approx.ftz.f32 log, sum; }
            log = (log + most) * 0.6931471805599453;
            let writes: pred = (self.logged != 0) & (laneid == 0);
            ptx! { @writes st.global.f32 [to], log; }
        }
    }

    /// 1 / x, and 0 for 0.
    fn inverse(x: f32) -> f32 {
        let y: f32;
        ptx! { rcp.approx.ftz.f32 y, x; }
        (x == 0.0).select(0.0, y)
    }

    /// Writes the output of the only split: a warp has every so many-th row, a lane every 32nd column.
    fn finish<T, const C: Config>(
        result: &Output,
        out: [u64; 3],
        lse: [u64; 3],
        packed: &Packed,
        sums: u32,
        marks: u32,
    ) {
        for i in 0..ROWS / C.warps {
            let row: u32 = i * C.warps + tid.x / 32;
            if packed.has(row) {
                let total: Total = total_of_warps::<C>(marks, row);
                let (to, log_to): (u64, u64) = result.locate(out, lse, packed, row);
                let by: f32 = inverse(total.sum);
                result.log(log_to, total.most, total.sum);
                for j in 0..C.head_v / 32 {
                    let column: u32 = laneid + 32 * j;
                    if column < result.dim_v {
                        write::<T>(to + wide(column) * 2, sum_of_warps::<C>(sums, marks, row, column, total.most) * by);
                    }
                }
            }
        }
    }

    /// Leaves a split's part in scratch memory: its output as `f32`, and behind it the logarithm of each row's sum in powers of 2.
    fn store_part<const C: Config>(part: u64, sums: u32, marks: u32) {
        for i in 0..ROWS / C.warps {
            let row: u32 = i * C.warps + tid.x / 32;
            let total: Total = total_of_warps::<C>(marks, row);
            let by: f32 = inverse(total.sum);
            let mut log: f32 = 0.0;
            ptx! { lg2.approx.ftz.f32 log, total.sum; }
            log += total.most;
            let first: pred = laneid == 0;
            let log_to: u64 = part + wide(row) * 4;
            ptx! { @first st.global.f32 [log_to + 4 * ROWS * C.head_v], log; }
            for j in 0..C.head_v / 32 {
                let column: u32 = laneid + 32 * j;
                let to: u64 = part + wide(row * C.head_v + column) * 4;
                let x: f32 = sum_of_warps::<C>(sums, marks, row, column, total.most) * by;
                ptx! { st.global.f32 [to], x; }
            }
        }
    }

    /// True in all threads of the last block that comes to `flag`, which is zero then: `fence.acq_rel.gpu`,
    /// `atom.acq_rel.gpu.inc` by one thread. What the other blocks wrote is visible then.
    fn is_last(flag: u64, blocks: u32, slot: u32) -> pred {
        block::sync();
        if tid.x == 0 {
            let before: u32;
            let limit: u32 = blocks - 1;
            ptx! {
                fence.acq_rel.gpu;
                atom.acq_rel.gpu.global.inc.u32 before, [flag], limit;
                st.shared.u32 [slot], before;
            }
        }
        block::sync();
        let before: u32;
        ptx! { ld.shared.u32 before, [slot]; }
        before == blocks - 1
    }

    /// Adds up the parts of all splits, each weighted by its share of the sum of exponentials. `work` is the number of splits, and
    /// shared memory for a number of each of their rows.
    fn combine<T, const C: Config>(
        result: &Output,
        out: [u64; 3],
        lse: [u64; 3],
        packed: &Packed,
        parts: u64,
        work: [u32; 2],
    ) {
        const PART: u32 = 4 * ROWS * (C.head_v + 1);
        let (splits, logs): (u32, u32) = (work[0], work[1]);
        let mut at: u32 = tid.x;
        while at < splits * ROWS {
            let from: u64 = parts + wide(at / ROWS) * PART + wide(at % ROWS) * 4;
            let (log, to): (f32, u32);
            to = logs + at * 4;
            ptx! {
                ld.global.f32 log, [from + 4 * ROWS * C.head_v];
                st.shared.f32 [to], log;
            }
            at += 32 * C.warps;
        }
        block::sync();
        for i in 0..ROWS / C.warps {
            let row: u32 = i * C.warps + tid.x / 32;
            if packed.has(row) {
                let own: u32 = logs + row * 4;
                let mut most: f32 = -3.4e38;
                let mut split: u32 = 0;
                while split < splits {
                    most = most.max(split_log(own, split));
                    split += 1;
                }
                let mut sum: f32 = 0.0;
                let x: [f32; C.head_v / 32];
                for j in 0..C.head_v / 32 {
                    x[j] = 0.0;
                }
                split = 0;
                while split < splits {
                    let weight: f32 = attention::power(split_log(own, split), 1.0, most);
                    sum += weight;
                    let from: u64 = parts + wide(split) * PART + wide(row * C.head_v + laneid) * 4;
                    for j in 0..C.head_v / 32 {
                        let part: f32;
                        ptx! { ld.global.f32 part, [from + 128 * j]; }
                        x[j] = part.fma(weight, x[j]);
                    }
                    split += 1;
                }
                let (to, log_to): (u64, u64) = result.locate(out, lse, packed, row);
                let by: f32 = inverse(sum);
                result.log(log_to, most, sum);
                for j in 0..C.head_v / 32 {
                    let column: u32 = laneid + 32 * j;
                    if column < result.dim_v {
                        write::<T>(to + wide(column) * 2, x[j] * by);
                    }
                }
            }
        }
    }

    /// The logarithm of a split, of the row whose first one is at `logs`.
    fn split_log(logs: u32, split: u32) -> f32 {
        let (log, at): (f32, u32);
        at = logs + split * (4 * ROWS);
        ptx! { ld.shared.f32 log, [at]; }
        log
    }
}
