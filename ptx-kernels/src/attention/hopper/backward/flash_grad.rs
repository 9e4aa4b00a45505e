//! Parts of warp-specialized backward kernels of attention, whose blocks own keys and walk over the tiles of queries that see them.
//!
//! Warp groups have keys as rows of their scores, as `wgmma` leaves them, and queries as columns. Sums of dQ are added in scratch memory.
//! `flash_grad_loads` copies their tiles. For `sm_90` and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod flash_grad {
    /// The keys of a block: the number of the first one in its sequence, their head, the sequences of Q and K, the queries that see a key, the
    /// sequence's number, and that for tensor maps.
    struct Keys {
        first: u32,
        head: u32,
        q: attention::Sequence,
        k: attention::Sequence,
        mask: attention::Mask,
        number: u32,
        batch: u32,
    }

    /// Tiles of queries, of one head after the other.
    struct Walk {
        head: u32,
        tile: u32,
        begin: u32,
        end: u32,
        left: u32,
    }

    impl Walk {
        /// The tiles of `QUERIES` that see any of `OWNED` keys, for each of `group` heads that share their head of K and V.
        fn new<const OWNED: u32, const QUERIES: u32>(keys: &Keys, group: u32) -> Walk {
            let last: u32 = (keys.first + OWNED).min(keys.k.len) - 1;
            let (begin, end): (u32, u32) = keys.mask.tiles::<QUERIES>(keys.first, last);
            Walk { head: keys.head * group, tile: begin, begin, end, left: (end.max(begin) - begin) * group }
        }

        /// The same tiles, for another walk.
        fn copy(&self) -> Walk {
            Walk { head: self.head, tile: self.tile, begin: self.begin, end: self.end, left: self.left }
        }

        /// The next tile, of the next head behind a head's last one.
        fn advance(&mut self) {
            self.left -= 1;
            self.tile += 1;
            if self.tile >= self.end {
                self.tile = self.begin;
                self.head += 1;
            }
        }
    }

    /// Scratch memory of a backward pass for `heads` heads of `count` sequences of Q, packed if `variable` is 1, which have `tokens` in all, or each.
    struct Scratch {
        memory: u64,
        variable: u32,
        tokens: u32,
        count: u32,
        heads: u32,
    }

    /// The part of a head of a sequence: for each query, in whole tiles, its logarithm and -delta, and its row of dQ in `f32`, tile by tile as the
    /// threads of the kernel have it; for each tile two numbers of blocks that have added to it.
    struct Sums {
        logs: u64,
        deltas: u64,
        sums: u64,
        turns: u64,
    }

    impl Scratch {
        /// The same memory.
        fn copy(&self) -> Scratch {
            let (memory, variable, tokens, count, heads): (u64, u32, u32, u32, u32) =
                (self.memory, self.variable, self.tokens, self.count, self.heads);
            Scratch { memory, variable, tokens, count, heads }
        }

        /// Queries of a head, and all of them, in whole tiles. Packed sequences begin at whole tiles.
        fn extents<const QUERIES: u32>(&self) -> (u32, u64) {
            let (mut rows, mut slots): (u32, u32) =
                ((self.tokens + (QUERIES - 1)) / QUERIES * QUERIES, self.count * self.heads);
            if self.variable != 0 {
                rows = (self.tokens + self.count * QUERIES) / QUERIES * QUERIES;
                slots = self.heads;
            }
            (rows, wide(slots) * rows)
        }

        /// The number of work tiles that blocks have claimed: a word behind all other numbers.
        fn counters<const QUERIES: u32, const HEAD: u32>(&self) -> u64 {
            let (_, all): (u32, u64) = self.extents::<QUERIES>();
            self.memory + all * (8 + 4 * HEAD) as u64 + all / QUERIES as u64 * 8
        }

        /// The part of a head of sequence `number`, whose first token is `start`.
        fn part<const QUERIES: u32, const HEAD: u32>(&self, number: u32, start: u32, head: u32) -> Sums {
            let (rows, all): (u32, u64) = self.extents::<QUERIES>();
            let (mut slot, mut first): (u32, u32) = (number * self.heads + head, 0);
            if self.variable != 0 {
                slot = head;
                first = (start + number * QUERIES) / QUERIES * QUERIES;
            }
            let own: u64 = wide(slot) * rows + first as u64;
            Sums {
                logs: self.memory + own * 4,
                deltas: self.memory + (all + own) * 4,
                sums: self.memory + all * 8 + own * (HEAD * 4) as u64,
                turns: self.memory + all * (8 + 4 * HEAD) as u64 + own / QUERIES as u64 * 8,
            }
        }
    }

    /// The sums of dQ that a block adds to, tile by tile, in `SHARES` of a warp group each. If `ordered` is not 0, blocks add to a tile in the order of their
    /// keys, the last ones first: this one is number `block` of those until `last`, and `low` is that of the mask of a key. If causal, a block begins with a tile
    /// that is its own first, so that it waits for nobody there, and reaches each other tile one step behind the next block.
    struct QuerySums<const OWNED: u32, const QUERIES: u32, const HEAD: u32, const SHARES: u32> {
        scratch: Scratch,
        start: u32,
        number: u32,
        block: u32,
        last: u32,
        low: i32,
        ordered: u32,
        walk: Walk,
    }

    impl<const OWNED: u32, const QUERIES: u32, const HEAD: u32, const SHARES: u32> QuerySums<OWNED, QUERIES, HEAD, SHARES> {
        /// The sums of a block's keys.
        fn new(scratch: &Scratch, keys: &Keys, walk: &Walk, ordered: u32) -> QuerySums<OWNED, QUERIES, HEAD, SHARES> {
            QuerySums {
                scratch: scratch.copy(),
                start: keys.q.start,
                number: keys.number,
                block: keys.first / OWNED,
                last: (keys.k.len - 1) / OWNED,
                low: keys.mask.low.max(-536870912),
                ordered,
                walk: walk.copy(),
            }
        }

        /// Goes on with the sums of other keys.
        fn turn(&mut self, keys: &Keys, walk: &Walk) {
            self.start = keys.q.start;
            self.number = keys.number;
            self.block = keys.first / OWNED;
            self.last = (keys.k.len - 1) / OWNED;
            self.low = keys.mask.low.max(-536870912);
            self.walk = walk.copy();
        }

        /// This thread's first quad of a share of the current tile, and the number of blocks that have added to that.
        fn place(&self, share: u32) -> (u64, u64) {
            const BYTES: u32 = QUERIES * HEAD * 4;
            let part = self.scratch.part::<QUERIES, HEAD>(self.number, self.start, self.walk.head);
            let own: u64 =
                wide(self.walk.tile) * BYTES + (share * (BYTES / SHARES) + tid.x / 32 % 4 * 4096 + laneid * 16) as u64;
            (part.sums + own, part.turns + wide(self.walk.tile) * 8 + (share * 4) as u64)
        }

        /// Order for the sums of a share, by a warp: for each tile it waits until the blocks before this one have added, lets the warp group add, and then the next
        /// block. `ld.acquire.gpu` in a loop and `bar.arrive`, `bar.sync` and `red.release.gpu`.
        fn keep_order(&mut self, share: u32, may_add: u32, added: u32) {
            while self.walk.left > 0 {
                let (_, turn): (u64, u64) = self.place(share);
                // The last block that sees the tile.
                let seen: i32 = signed(self.walk.tile * QUERIES + (QUERIES - 1)) - self.low;
                let last: u32 = (unsigned(seen) / OWNED).min(self.last);
                if laneid == 0 {
                    loop {
                        let now: u32;
                        ptx! { ld.acquire.gpu.global.u32 now, [turn]; }
                        // There may be more: of packed sequences that overlap.
                        if now >= last - self.block {
                            break;
                        }
                    }
                }
                warp::sync();
                barrier::arrive::<160>(may_add);
                barrier::sync::<160>(added);
                if laneid == 0 {
                    ptx! { red.release.gpu.global.add.u32 [turn], 1; }
                }
                self.walk.advance();
            }
        }

        /// Waits until the warp group may add, if ordered: `bar.sync`.
        fn wait(&self, may_add: u32) {
            if self.ordered != 0 {
                barrier::sync::<160>(may_add);
            }
        }

        /// Says that this thread has added, if ordered (`bar.arrive`), and moves on to the next tile.
        fn pass(&mut self, added: u32) {
            if self.ordered != 0 {
                barrier::arrive::<160>(added);
            }
            self.walk.advance();
        }
    }

    /// Adds quads number `FROM` to `TO` of this thread's sums to those in memory, 512 bytes apart: `red.global.add.v4.f32` for each.
    fn add_sums<const N: u32, const FROM: u32, const TO: u32>(sums: &[f32; N], to: u64) {
        for i in FROM..TO {
            ptx! { red.relaxed.gpu.global.add.v4.f32 [to + 512 * i], {sums[4 * i..4 * i + 4]}; }
        }
    }

    /// One lane of each warp arrives at a barrier when the warp is done.
    fn release(bar: Shared<mbarrier::Barrier>) {
        warp::sync();
        if laneid == 0 {
            bar.arrive();
        }
    }

    /// Sums of 64 rows and `N` columns begin at a number for each column: `ld.shared.v2`.
    fn begin_sums<const N: u32>(acc: &mut [f32; N / 2], numbers: u32) {
        let own: u32 = numbers + laneid % 4 * 8;
        for j in 0..N / 8 {
            ptx! {
                ld.shared.v2.f32 {acc[4 * j..4 * j + 2]}, [own + 32 * j];
                ld.shared.v2.f32 {acc[4 * j + 2..4 * j + 4]}, [own + 32 * j];
            }
        }
    }

    /// `acc` += A · Bᵀ over `K` columns of both, in parts of 64, which are `A_PART` and `B_PART` bytes: `wgmma.mma_async` for each 16 columns.
    fn multiply_rows<T, const N: u32, const K: u32, const A_PART: u32, const B_PART: u32>(
        acc: &mut [f32; N / 2],
        a: u64,
        b: u64,
    ) {
        const SHAPE: &str = wgmma::SHAPES_16[N / 8 - 1];
        for i in 0..K / 16 {
            let at_a: u64 = a + (i / 4 * (A_PART / 16) + i % 4 * 2) as u64;
            let at_b: u64 = b + (i / 4 * (B_PART / 16) + i % 4 * 2) as u64;
            ptx! { wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T} {acc[..]}, at_a, at_b, 1, 1, 1, 0, 0; }
        }
    }

    /// `acc` += A · B: A has `K` columns in registers, 16 at a time as pairs of 16 bits, and B a row of `N` elements for each, 128 swizzled bytes in parts of
    /// `PART` bytes: `wgmma.mma_async` for each 16 columns of A and at most 128 of B.
    fn multiply_packed<T, const N: u32, const K: u32, const PART: u32>(
        acc: &mut [f32; N / 2],
        a: &[b32; K / 4],
        tile: u32,
    ) {
        let b: u64 = wgmma::descriptor_mn128::<PART>(tile);
        for i in 0..K / 16 {
            for j in 0..N.div_ceil(128) {
                const WIDTH: u32 = (N - 128 * j).min(128);
                const SHAPE: &str = wgmma::SHAPES_16[WIDTH / 8 - 1];
                let at_b: u64 = b + (128 * i + j * (PART / 8)) as u64;
                ptx! {
                    wgmma.mma_async.sync.aligned.{SHAPE}.f32.{T}.{T}
                        {acc[64 * j..64 * j + WIDTH / 2]}, {a[4 * i..4 * i + 4]}, at_b, 1, 1, 1, 1;
                }
            }
        }
    }

    /// Scores of 64 keys from number `key` on and `N` queries from `query` on become minus infinity where a query does not see a key; `keys` is the
    /// number of all keys. Most tiles have none. `sub`, `setp` and `selp` for each score.
    fn hide<const N: u32>(s: &mut [f32; N / 2], mask: &attention::Mask, keys: u32, key: u32, query: u32) {
        let ragged: pred = key + 64 > keys;
        if ragged | mask.hides(key, key + 63, query, query + N) {
            for half in 0..2 {
                let own: u32 = key + tid.x / 32 % 4 * 16 + laneid / 4 + 8 * half;
                let from: i32 = signed(own) + mask.low - signed(query + laneid % 4 * 2);
                let width: u32 = (own < keys).select(unsigned(mask.high - mask.low), 0);
                for j in 0..N / 8 {
                    for e in 0..2 {
                        const AT: u32 = 4 * j + 2 * half + e;
                        let behind: u32 = unsigned((8 * j + e) as i32 - from);
                        let hidden: pred = behind >= width;
                        ptx! { selp.f32 s[AT], 0fFF800000, s[AT], hidden; }
                    }
                }
            }
        }
    }

    /// Scores number `FROM` to `TO` become weights: `mul` and `ex2.approx`.
    fn exponentiate<const N: u32, const FROM: u32, const TO: u32>(s: &mut [f32; N], exponent: f32) {
        for i in FROM..TO {
            s[i] *= exponent;
            ptx! { ex2.approx.ftz.f32 s[i], s[i]; }
        }
    }

    /// The bias of this thread's two keys, from a query on: where its elements lie, the bytes from query to query, and how many there are.
    struct BiasRows {
        at: [u64; 2],
        stride: u64,
        known: [i32; 2],
    }

    impl BiasRows {
        /// The bias of 64 keys from number `key` on and of the queries from number `query` on; `changes` have keys as rows.
        fn new(changes: &attention::ScoreMod, key: u32, query: u32) -> BiasRows {
            let own: u32 = key + tid.x / 32 % 4 * 16 + laneid / 4;
            let first: u32 = query + laneid % 4 * 2;
            let at: u64 = changes.bias + own as u64 * changes.row_stride + first as u64 * changes.column_stride;
            let left: i32 = signed(changes.columns) - signed(first);
            BiasRows {
                at: [at, at + changes.row_stride * 8],
                stride: changes.column_stride,
                known: [(own < changes.rows).select(left, 0), (own + 8 < changes.rows).select(left, 0)],
            }
        }

        /// The elements for the next four scores, 0 where there is none: four `ld.global.nc.b16` and `cvt`.
        fn next<T>(&mut self) -> [f32; 4] {
            let values: [f32; 4];
            for e in 0..4 {
                let at: u64 = self.at[e / 2] + self.stride * (e % 2) as u64;
                let inside: pred = self.known[e / 2] > (e % 2) as i32;
                let mut bits: b16 = 0;
                ptx! {
                    @inside ld.global.nc.b16 bits, [at];
                    cvt.f32.{T} values[e], bits;
                }
            }
            for half in 0..2 {
                self.at[half] += self.stride * 8;
                self.known[half] -= 8;
            }
            values
        }
    }

    /// The weight and the derivative of a capped score, whose tanh is `t`, minus infinity for a hidden one; `log` is what `begin_sums` adds to others.
    fn exponentiate_capped(t: f32, log: f32, exponent: f32) -> (f32, f32) {
        let mut weight: f32 = (t + log) * exponent;
        ptx! { ex2.approx.ftz.f32 weight, weight; }
        let seen: f32 = t.max(-1.0);
        (weight, weight * seen.fma(-seen, 1.0))
    }

    /// dS to shared memory, of 64 keys and `N` queries: a row for each query, 128 swizzled bytes. `cvt.rn` of pairs and `stmatrix.x4.trans`.
    fn store_transposed<T, const N: u32>(s: &[f32; N / 2], tile: u32) {
        let lane: u32 = laneid;
        let chunk: u32 = (tid.x / 32 % 4 * 2 + ((lane >> 3) & 1)) ^ (lane & 7);
        let own: u32 = tile + ((lane & 7) + ((lane >> 4) << 3)) * 128 + (chunk << 4);
        for i in 0..N / 16 {
            let four: [b32; 4];
            for j in 0..4 {
                const AT: u32 = 8 * i + 2 * j;
                ptx! { cvt.rn.{T}x2.f32 four[j], s[AT + 1], s[AT]; }
            }
            matrix::store_x4_transposed(own + 2048 * i, four);
        }
    }
}
