//! Parts of kernels with a cache of keys and values: packed rows of Q, pages, and results in parts. For `sm_80` and later.

/// The packed rows of decode: row r is query r / `group` of head r % `group` of the heads of Q that share one of the cache, from number
/// `first` on, of `count` in all; `head` is the first of these heads.
struct Packed {
    sequence: u32,
    first: u32,
    count: u32,
    group: u32,
    head: u32,
}

impl Packed {
    /// The query of a row, and its head: `add`, `div`, `mul.lo`, `sub`, `add`.
    fn locate(&self, row: u32) -> (u32, u32) {
        let query: u32 = (self.first + row) / self.group;
        (query, self.head + (self.first + row - query * self.group))
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

/// The pages of one sequence of a cache: the address of its row of the table, or 0 without pages; tokens of a page, and pages of the cache.
struct Pages {
    table: u64,
    size: u32,
    count: u32,
    sequence: u32,
}

impl Pages {
    /// Those of a sequence; `each` are the pages of a sequence in the table, 0 without one.
    fn of_sequence(table: u64, each: u32, sequence: u32, size: u32, count: u32) -> Pages {
        let own: u64 = table + wide(sequence * each) * 4;
        Pages { table: (each != 0).select(own, 0), size, count, sequence }
    }

    /// The page of a token and its place there; the sequence and the token itself without pages. No number of the table leads out of the
    /// cache: `div`, `mul.lo`, `sub`, `ld.global.nc`, `min`.
    fn locate(&self, token: u32) -> (u32, u32) {
        let (mut page, mut slot): (u32, u32) = (self.sequence, token);
        if self.table != 0 {
            let number: u32 = token / self.size;
            slot = token - number * self.size;
            let entry: u64 = self.table + wide(number) * 4;
            ptx! { ld.global.nc.u32 page, [entry]; }
            page = page.min(self.count - 1);
        }
        (page, slot)
    }
}

/// Parts of the rows of one problem that several blocks leave in memory at `scratch`, for the last of them to add up. Block `first` has
/// the beginning of the problem, and `count` blocks have some of it. Each block has room for two parts: of the problem in whose middle
/// it begins, and of the one that it begins. A part is `ROWS` rows of `COLUMNS` sums as `f32`, and the logarithm of each row's sum of
/// exponentials in powers of 2.
struct Parts<const ROWS: u32, const COLUMNS: u32> {
    scratch: u64,
    first: u32,
    count: u32,
}

impl<const ROWS: u32, const COLUMNS: u32> Parts<ROWS, COLUMNS> {
    /// The part of block `first` + `at`.
    fn at(&self, at: u32) -> u64 {
        let slot: u32 = 2 * (self.first + at) + (at == 0).select(1u32, 0);
        self.scratch + wide(slot) * (4 * ROWS * (COLUMNS + 1))
    }

    /// Leaves a row in part `at`: elements `laneid`, `laneid` + 32 … `st.global.f32`.
    fn store(&self, at: u32, row: u32, columns: &[f32; COLUMNS / 32], log: f32) {
        let part: u64 = self.at(at);
        let (to, log_to): (u64, u64) = (part + wide(row * COLUMNS + laneid) * 4, part + wide(row) * 4);
        for j in 0..COLUMNS / 32 {
            ptx! { st.global.f32 [to + 128 * j], columns[j]; }
        }
        let first: pred = laneid == 0;
        ptx! { @first st.global.f32 [log_to + 4 * ROWS * COLUMNS], log; }
    }

    /// The logarithm of a row's sum in part `at`; minus infinity behind the last part.
    fn log(&self, at: u32, row: u32) -> f32 {
        let (mut log, known): (f32, pred);
        known = at < self.count;
        let from: u64 = self.at(known.select(at, 0)) + wide(row) * 4;
        ptx! {
            mov.f32 log, 0fFF800000;
            @known ld.global.f32 log, [from + 4 * ROWS * COLUMNS];
        }
        log
    }

    /// Adds up a row of all parts by a warp, each weighted by its share of the sum of exponentials; returns the logarithm of that sum.
    /// Some 32 elements of each lane are on their way at once.
    fn combine(&self, row: u32, columns: &mut [f32; COLUMNS / 32]) -> f32 {
        const STEP: u32 = (32 * 32 / COLUMNS).max(4);
        let (mut most, mut sum, mut chunk): (f32, f32, u32) = (-3.4e38, 0.0, 0);
        for j in 0..COLUMNS / 32 {
            columns[j] = 0.0;
        }
        while chunk < self.count {
            let log: f32 = self.log(chunk + laneid, row);
            let larger: f32 = most.max(warp::reduce_max(log));
            let (weight, shrink): (f32, f32) = (attention::power(log, 1.0, larger), attention::power(most, 1.0, larger));
            most = larger;
            sum = sum.fma(shrink, warp::reduce_sum(weight));
            for j in 0..COLUMNS / 32 {
                columns[j] *= shrink;
            }
            let (here, mut at): (u32, u32) = ((self.count - chunk).min(32), 0);
            while at < here {
                let parts: [[f32; COLUMNS / 32]; STEP];
                for i in 0..STEP {
                    let part: u64 = self.at((chunk + at + i).min(self.count - 1));
                    let from: u64 = part + wide(row * COLUMNS + laneid) * 4;
                    for j in 0..COLUMNS / 32 {
                        ptx! { ld.global.f32 parts[i][j], [from + 128 * j]; }
                    }
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
