//! Parts of kernels with a cache of keys and values: the keys of all sequences in a line, packed rows of Q, changes of their scores, pages,
//! and results in parts. For `sm_80` and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod kv_cache {
    /// The sequences of a cache: `lengths` are the keys of each, and the last of `tokens` queries is aligned with the last key. A query sees
    /// `left` keys before its own and `right` behind it. The keys that any query sees are a line of rounds of `BLOCK` keys, sequence by sequence.
    struct Sequences<const BLOCK: u32> {
        lengths: u64,
        batch: u32,
        tokens: u32,
        capacity: u32,
        left: i32,
        right: i32,
    }

    /// A sequence: its keys, the first round that any query sees, and how many there are, at least one.
    struct Extent {
        len: u32,
        begin: u32,
        rounds: u32,
    }

    /// The number of a sequence, and its first round in the line.
    struct Place {
        sequence: u32,
        first: u32,
    }

    impl<const BLOCK: u32> Sequences<BLOCK> {
        /// The extent of a sequence: `ld.global.nc` and the mask's bounds.
        fn extent(&self, sequence: u32) -> Extent {
            let (at, found): (u64, i32);
            at = self.lengths + wide(sequence) * 4;
            ptx! { ld.global.nc.s32 found, [at]; }
            let (len, none): (u32, u32);
            (len, none) = (unsigned(found.max(0)).min(self.capacity), 0);
            let (begin, end): (u32, u32) = self.mask(len).tiles::<BLOCK>(none, self.tokens - 1);
            let rounds: u32 = end.max(begin + 1) - begin;
            // No place depends on the rounds.
            cut!(begin >= 0 && rounds >= 0);
            Extent { len, begin, rounds }
        }

        /// The keys that the queries of a sequence of `len` keys see.
        fn mask(&self, len: u32) -> attention::Mask {
            let none: u32 = 0;
            attention::Mask::new(self.tokens, len, none, self.left, self.right)
        }

        /// The rounds of all sequences. All lanes of a warp call it: each looks at one sequence of 32, then `redux.sync.add`.
        fn total(&self) -> u32 {
            let (mut own, mut sequence): (u32, u32) = (0, laneid);
            while sequence < self.batch {
                let extent = self.extent(sequence);
                own += extent.rounds;
                sequence += 32;
            }
            warp::redux::<"add", u32>(own)
        }

        /// The sequence of a round. All lanes of a warp call it: for each 32 sequences `warp::scan_sum` and a `vote.sync.ballot`.
        fn find(&self, round: u32) -> Place {
            let (mut chunk, mut first, mut lane): (u32, u32, u32) = (0, 0, 0);
            loop {
                let mut own: u32 = 0;
                if chunk + laneid < self.batch {
                    let extent = self.extent(chunk + laneid);
                    own = extent.rounds;
                }
                let through: u32 = warp::scan_sum(own);
                let mut after: b32 = warp::ballot(first + through > round);
                if after != 0 {
                    ptx! {
                        brev.b32 after, after;
                        clz.b32 lane, after;
                    }
                    first += warp::broadcast(through - own, lane);
                    break;
                }
                first += warp::broadcast(through, 31);
                chunk += 32;
            }
            Place { sequence: chunk + lane, first }
        }
    }

    /// The packed rows of decode: row r is query r / `kv_group` of head r % `kv_group` of the heads of Q that share one of the cache, from number
    /// `first` on, of `count` in all, which are `tokens` queries; `head` is the first of these heads, of `heads` in all.
    struct Packed {
        sequence: u32,
        first: u32,
        count: u32,
        tokens: u32,
        kv_group: u32,
        head: u32,
        heads: u32,
    }

    impl Packed {
        /// The query of a row: `add`, `div`.
        fn query(&self, row: u32) -> u32 {
            (self.first + row) / self.kv_group
        }

        /// The query of a row, and its head: `add`, `div`, `mul.lo`, `sub`, `add`.
        fn locate(&self, row: u32) -> (u32, u32) {
            let query: u32 = (self.first + row) / self.kv_group;
            let head: u32 = self.head + (self.first + row - query * self.kv_group);
            cut!(query < self.tokens && head < self.heads || self.first + row >= self.count);
            (query, head)
        }

        /// The same of a row that there is.
        fn locate_own(&self, row: u32) -> (u32, u32) {
            let query: u32 = (self.first + row) / self.kv_group;
            let head: u32 = self.head + (self.first + row - query * self.kv_group);
            cut!(query < self.tokens && head < self.heads);
            (query, head)
        }

        /// True if there is such a row.
        fn has(&self, row: u32) -> pred {
            self.first + row < self.count
        }

        /// The address of a row of the tensor at `tensor`; `strides` are those of batch, token and head.
        fn at(&self, tensor: u64, strides: [u64; 3], row: u32) -> u64 {
            let (query, head): (u32, u32) = self.locate(row);
            tensor + attention::offset(strides, self.sequence, query, head)
        }

        /// Begins to copy `ROWS` rows of Q to a tile of `COLUMNS` elements (`fragment::copy_rows`), of which `dim` are read; those behind the
        /// last one become zeros. `THREADS` threads take part.
        fn copy<const ROWS: u32, const COLUMNS: u32, const THREADS: u32>(
            &self,
            tile: u32,
            q: u64,
            strides: [u64; 3],
            dim: u32,
        ) {
            const ACROSS: u32 = if COLUMNS % 64 == 0 { 8 } else { 4 };
            const STEP: u32 = THREADS / ACROSS;
            let (first, column): (u32, u32) = (tid.x / ACROSS, tid.x % ACROSS * 16);
            for i in 0..ROWS.div_ceil(STEP) {
                let row: u32 = first + i * STEP;
                if row < ROWS {
                    let from: u64 = self.at(q, strides, row) + column as u64;
                    let to: u32 = tile + row * fragment::pitch(COLUMNS) + column;
                    let known: pred = self.has(row);
                    for j in 0..COLUMNS / 8 / ACROSS {
                        const AT: u32 = 16 * ACROSS * j;
                        let inside: pred = known & (column + AT < 2 * dim);
                        cp_async::copy16_zero(to + AT, from + AT as u64, inside.select(16, 0));
                    }
                }
            }
        }
    }

    /// The scores of a lane's two packed rows: which keys they see, their queries, the last query of all, the factor before the soft cap and the
    /// cap or 0, and the factor of the exponents.
    struct Scores {
        mask: attention::Mask,
        queries: [u32; 2],
        last: u32,
        factors: [f32; 2],
        exponent: f32,
    }

    impl Scores {
        /// The soft cap, and minus infinity for the keys that a row's query does not see; `first` is the first key of `NT` times 8.
        fn change<const NT: u32>(&self, s: &mut [[[f32; 4]; NT]; 1], first: u32) {
            if self.factors[1] > 0.0 {
                for j in 0..NT {
                    for e in 0..4 {
                        s[0][j][e] = attention::tanh(s[0][j][e] * self.factors[0]) * self.factors[1];
                    }
                }
            }
            let none: u32 = 0;
            if self.mask.hides(none, self.last, first, first + 8 * NT) {
                let column: i32 = signed(first + laneid % 4 * 2);
                for half in 0..2 {
                    let query: i32 = signed(self.queries[half]);
                    let from: i32 = query + self.mask.low - column;
                    let to: i32 = (query + self.mask.high).min(signed(self.mask.columns)) - column;
                    let width: u32 = unsigned((to - from).max(0));
                    for j in 0..NT {
                        for e in 0..2 {
                            let behind: u32 = unsigned((8 * j + e) as i32 - from);
                            let hidden: pred = behind >= width;
                            ptx! { selp.f32 s[0][j][2 * half + e], 0fFF800000, s[0][j][2 * half + e], hidden; }
                        }
                    }
                }
            }
        }
    }

    /// The pages of one sequence of a cache: the address of its row of the table, and how many it has there, or 0 without pages; tokens of a page, and pages of
    /// the cache.
    struct Pages {
        table: u64,
        each: u32,
        size: u32,
        count: u32,
        sequence: u32,
    }

    impl Pages {
        /// Those of a sequence; `each` are the pages of a sequence in the table, 0 without one.
        fn of_sequence(table: u64, each: u32, sequence: u32, size: u32, count: u32) -> Pages {
            let own: u64 = table + wide(sequence * each) * 4;
            Pages { table: own, each, size, count, sequence }
        }

        /// The table's entry for a token, which `page` makes a page, and its place there; the sequence and the token itself without pages: `div`,
        /// `mul.lo`, `sub`, `ld.global.nc`.
        fn find(&self, token: u32) -> (u32, u32) {
            let (mut entry, mut slot): (u32, u32) = (self.sequence, token);
            if self.each != 0 {
                let number: u32 = token / self.size;
                slot = token - number * self.size;
                entry = self.entry(number);
            }
            (entry, slot)
        }

        /// The same of a token for which a sequence has a place.
        fn find_own(&self, token: u32) -> (u32, u32) {
            let (mut entry, mut slot): (u32, u32) = (self.sequence, token);
            if self.each != 0 {
                let number: u32 = token / self.size;
                slot = token - number * self.size;
                invariant!(number < self.each);
                invariant!(slot < self.size);
                cut!(number < self.each && slot < self.size);
                entry = self.entry(number);
            }
            (entry, slot)
        }

        /// An entry of the table.
        fn entry(&self, number: u32) -> u32 {
            let entry: u32;
            let at: u64 = self.table + wide(number) * 4;
            ptx! { ld.global.nc.u32 entry, [at]; }
            entry
        }

        /// The page of an entry. No number of the table leads out of the cache: `min`.
        fn page(&self, entry: u32) -> u32 {
            entry.min(self.count - 1)
        }

        /// The page of a token and its place there: `find`, `page`.
        fn locate(&self, token: u32) -> (u32, u32) {
            let (entry, slot): (u32, u32) = self.find(token);
            (self.page(entry), slot)
        }
    }

    /// The output and the logarithms of queries against a cache, whose rows have `dim` elements; without logarithms `logged` is 0. Strides of
    /// sequence, token and head count bytes.
    struct Output {
        out: u64,
        lse: u64,
        out_strides: [u64; 3],
        lse_strides: [u64; 3],
        dim: u32,
        logged: u32,
    }

    impl Output {
        /// Writes a row that there is by a warp, rounded to `T`: elements `laneid`, `laneid` + 32 …, and its logarithm, which is a power of 2. `cvt.rn`, `st.global`.
        fn write<T, const COLUMNS: u32>(&self, packed: &Packed, row: u32, columns: &[f32; COLUMNS / 32], log: f32) {
            let (query, head): (u32, u32) = packed.locate_own(row);
            let to: u64 =
                self.out + attention::offset(self.out_strides, packed.sequence, query, head) + wide(laneid) * 2;
            for j in 0..COLUMNS / 32 {
                let inside: pred = laneid + 32 * j < self.dim;
                let rounded: T;
                ptx! {
                    cvt.rn.{T}.f32 rounded, columns[j];
                    @inside st.global.b16 [to + 64 * j], rounded;
                }
            }
            let log_to: u64 = self.lse + attention::offset(self.lse_strides, packed.sequence, query, head);
            let (natural, writes): (f32, pred) = (log * 0.6931471805599453, (self.logged != 0) & (laneid == 0));
            ptx! { @writes st.global.f32 [log_to], natural; }
        }
    }

    /// Some parts: `count` of them, from number `begin` on, each `step`-th one.
    struct Every {
        begin: u32,
        step: u32,
        count: u32,
    }

    /// Parts of the rows of one problem that several blocks leave in memory at `scratch`, for the last of them to add up. Block `first` has
    /// the beginning of the problem, and `count` blocks have some of it. Each block has room for two parts: of the problem in whose middle
    /// it begins, and of the one that it begins. A part is `ROWS` rows of `COLUMNS` sums as `f32`, and the logarithm of each row's sum of
    /// exponentials in powers of 2. `ROWS` is a multiple of 4, so that parts begin at 16 bytes.
    struct Parts<const ROWS: u32, const COLUMNS: u32> {
        scratch: u64,
        first: u32,
        count: u32,
    }

    impl<const ROWS: u32, const COLUMNS: u32> Parts<ROWS, COLUMNS> {
        /// The part of block `first` + `at`.
        fn at(&self, at: u32) -> u64 {
            let slot: u32 = 2 * (self.first + at) + (at == 0).select(1u32, 0);
            cut!(slot < 2 * nctaid.x);
            self.scratch + wide(slot) * (4 * ROWS * (COLUMNS + 1))
        }

        /// The address of a row in part `at`.
        fn row(&self, at: u32, row: u32) -> u64 {
            self.at(at) + wide(row * COLUMNS) * 4
        }

        /// Leaves a row in part `at`: `st.global.v4.f32`, and `st.global.f32` for the rest.
        fn store(&self, at: u32, row: u32, columns: &[f32; COLUMNS / 32], log: f32) {
            const VECTORS: u32 = COLUMNS / 128;
            let (to, log_to): (u64, u64) = (self.row(at, row), self.at(at) + wide(row) * 4);
            let (vectors, rest): (u64, u64) = (to + wide(laneid) * 16, to + wide(laneid) * 4);
            for j in 0..VECTORS {
                ptx! { st.global.v4.f32 [vectors + 512 * j], {columns[4 * j..4 * j + 4]}; }
            }
            for j in 4 * VECTORS..COLUMNS / 32 {
                ptx! { st.global.f32 [rest + 128 * j], columns[j]; }
            }
            let first: pred = laneid == 0;
            ptx! { @first st.global.f32 [log_to + 4 * ROWS * COLUMNS], log; }
        }

        /// Reads what this lane left of a row in part `at`: `ld.global.v4.f32`, and `ld.global.f32` for the rest.
        fn load(&self, at: u32, row: u32, columns: &mut [f32; COLUMNS / 32]) {
            const VECTORS: u32 = COLUMNS / 128;
            let from: u64 = self.row(at, row);
            let (vectors, rest): (u64, u64) = (from + wide(laneid) * 16, from + wide(laneid) * 4);
            for j in 0..VECTORS {
                ptx! { ld.global.v4.f32 {columns[4 * j..4 * j + 4]}, [vectors + 512 * j]; }
            }
            for j in 4 * VECTORS..COLUMNS / 32 {
                ptx! { ld.global.f32 columns[j], [rest + 128 * j]; }
            }
        }

        /// All of them.
        fn all(&self) -> Every {
            Every { begin: 0, step: 1, count: self.count }
        }

        /// The logarithm of a row's sum in one of some parts; minus infinity behind the last one.
        fn log(&self, parts: &Every, number: u32, row: u32) -> f32 {
            let (mut log, known): (f32, pred);
            known = number < parts.count;
            let own: u32 = known.select(number, 0);
            cut!(own < parts.count);
            let from: u64 = self.at(parts.begin + parts.step * own) + wide(row) * 4;
            ptx! {
                mov.f32 log, 0fFF800000;
                @known ld.global.f32 log, [from + 4 * ROWS * COLUMNS];
            }
            log
        }

        /// After all blocks have left their parts: the last one adds them up, and writes the rows by its last `TEAM` warps, which call it. `flag` is 0 before and
        /// after, `slot` is a word of shared memory. `grid::is_last`.
        fn reduce<T, const TEAM: u32>(&self, output: &Output, packed: &Packed, flag: u64, slot: u32) {
            if self.count > 1 {
                if grid::is_last::<{ 32 * TEAM }>(flag, self.count, slot) {
                    let all = self.all();
                    self.write::<T, TEAM>(output, packed, &all);
                }
            }
        }

        /// The same in two steps where there are more than eight parts: the last of each eight blocks adds up theirs, and the last of these the results. The
        /// block has part `at`; `flags` are those of the first block, for each step one.
        fn reduce_in_steps<T, const TEAM: u32>(
            &self,
            at: u32,
            output: &Output,
            packed: &Packed,
            flags: [u64; 2],
            slot: u32,
        ) {
            let begin: u32 = at / 8 * 8;
            let own = Every { begin, step: 1, count: (self.count - begin).min(8) };
            cut!(own.count > 0 && own.begin + own.count <= self.count);
            let mut last: pred = true;
            if own.count > 1 {
                last = grid::is_last::<{ 32 * TEAM }>(flags[0] + wide(own.begin) * 4, own.count, slot);
            }
            if self.count <= 8 {
                if last & (self.count > 1) {
                    self.write::<T, TEAM>(output, packed, &own);
                }
            } else if last {
                if own.count > 1 {
                    self.merge::<TEAM>(packed, &own);
                }
                let chunks: u32 = (self.count + 7) / 8;
                cut!(chunks > 0 && 8 * chunks <= self.count + 7);
                let steps = Every { begin: 0, step: 8, count: chunks };
                if grid::is_last::<{ 32 * TEAM }>(flags[1], steps.count, slot) {
                    self.write::<T, TEAM>(output, packed, &steps);
                }
            }
        }

        /// Adds up some parts, and writes the rows by `TEAM` warps.
        fn write<T, const TEAM: u32>(&self, output: &Output, packed: &Packed, parts: &Every) {
            let mut row: u32 = tid.x / 32 % TEAM;
            // Proofs take all turns at once.
            invariant!(row < ROWS + TEAM);
            while row < ROWS {
                let own: u32 = row;
                cut!(own < ROWS);
                if packed.has(own) {
                    let columns: [f32; COLUMNS / 32];
                    let log: f32 = self.combine(own, parts, &mut columns);
                    output.write::<T, COLUMNS>(packed, own, &columns, log);
                }
                row += TEAM;
            }
        }

        /// Adds up some parts by `TEAM` warps, and leaves the rows in the first of them.
        fn merge<const TEAM: u32>(&self, packed: &Packed, parts: &Every) {
            let mut row: u32 = tid.x / 32 % TEAM;
            // Proofs take all turns at once.
            invariant!(row < ROWS + TEAM);
            while row < ROWS {
                let own: u32 = row;
                cut!(own < ROWS);
                if packed.has(own) {
                    let columns: [f32; COLUMNS / 32];
                    let log: f32 = self.combine(own, parts, &mut columns);
                    warp::sync();
                    self.store(parts.begin, own, &columns, log);
                }
                row += TEAM;
            }
        }

        /// Adds up a row of some parts by a warp, each weighted by its share of the sum of exponentials; returns the logarithm of that sum.
        /// Some 64 elements of each lane are on their way at once.
        fn combine(&self, row: u32, all: &Every, columns: &mut [f32; COLUMNS / 32]) -> f32 {
            const STEP: u32 = if COLUMNS <= 64 {
                32
            } else if COLUMNS <= 128 {
                16
            } else if COLUMNS <= 256 {
                8
            } else {
                4
            };
            let last: u32 = all.count - 1;
            cut!(last + 1 == all.count && self.first + all.begin + all.step * last < nctaid.x);
            let (mut most, mut sum, mut chunk): (f32, f32, u32) = (-3.4e38, 0.0, 0);
            for j in 0..COLUMNS / 32 {
                columns[j] = 0.0;
            }
            while chunk < all.count {
                let log: f32 = self.log(all, chunk + laneid, row);
                let larger: f32 = most.max(warp::reduce_max(log));
                let (weight, shrink): (f32, f32) =
                    (attention::power(log, 1.0, larger), attention::power(most, 1.0, larger));
                most = larger;
                sum = sum.fma(shrink, warp::reduce_sum(weight));
                for j in 0..COLUMNS / 32 {
                    columns[j] *= shrink;
                }
                let (here, mut at): (u32, u32) = ((all.count - chunk).min(32), 0);
                while at < here {
                    let parts: [[f32; COLUMNS / 32]; STEP];
                    let first: u32 = chunk + at;
                    cut!(first >= 0);
                    for i in 0..STEP {
                        let number: u32 = (first + i).min(last);
                        self.load(all.begin + all.step * number, row, &mut parts[i]);
                    }
                    for i in 0..STEP {
                        let own: f32 = warp::broadcast(weight, at + i);
                        for j in 0..COLUMNS / 32 {
                            columns[j] = parts[i][j].fma(own, columns[j]);
                        }
                    }
                    at += STEP;
                }
                chunk += 32;
            }
            let by: f32 = attention::inverse(sum);
            for j in 0..COLUMNS / 32 {
                columns[j] *= by;
            }
            attention::log2(sum) + most
        }
    }
}
