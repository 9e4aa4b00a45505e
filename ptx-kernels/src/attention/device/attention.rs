//! Parts of attention kernels: sequences of a batch, which keys a query sees, changes of the scores, the online softmax, operands in
//! tiles.
//!
//! Scores lie in registers as `fragment` has them: `MT` times 16 rows and `NT` times 8 columns of a warp. The rows are queries and
//! the columns keys, or, in kernels that own keys, the rows are keys and the columns queries. For `sm_80` and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod attention {
    /// The tokens of a sequence: the number of the first one in its tensor, and how many there are.
    struct Sequence {
        start: u32,
        len: u32,
    }

    impl Sequence {
        /// Sequence `number`: with `variable` its tokens are those from `starts[number]` to `starts[number + 1]`, else all `tokens`
        /// of the tensor; at most `longest` of them. No number in `starts` leads out of the tensor: two `ld.global.nc`, three `min`.
        fn locate(starts: Global<i32>, variable: u32, number: u32, tokens: u32, longest: u32) -> Sequence {
            let (mut start, mut len): (u32, u32) = (0, tokens);
            if variable != 0 {
                let entry: u64 = starts.at(number);
                let (first, end): (u32, u32);
                ptx! {
                    ld.global.nc.u32 first, [entry];
                    ld.global.nc.u32 end, [entry + 4];
                }
                let inside: u32 = end.min(tokens);
                start = first.min(inside);
                len = inside - start;
            }
            Sequence { start, len: len.min(longest) }
        }
    }

    /// The columns that a row of scores sees: row `i` sees column `j` of `columns` if i + low <= j < i + high.
    struct Mask {
        columns: u32,
        low: i32,
        high: i32,
    }

    impl Mask {
        /// The mask of `queries` rows over `keys` columns: each query sees `left` keys before its own and `right` behind it. Its own
        /// key is the one as far from the end, or with `top_left` as far from the beginning.
        fn new(queries: u32, keys: u32, top_left: u32, left: i32, right: i32) -> Mask {
            let diagonal: i32 = (top_left != 0).select(0, signed(keys - queries));
            Mask { columns: keys, low: diagonal - left, high: diagonal + right + 1 }
        }

        /// The same with keys as rows and `queries` as columns.
        fn transposed(&self, queries: u32) -> Mask {
            Mask { columns: queries, low: 1 - self.high, high: 1 - self.low }
        }

        /// The first tile of `N` columns that any row from `first` to `last` sees, and the one behind the last.
        fn tiles<const N: u32>(&self, first: u32, last: u32) -> (u32, u32) {
            let begin: u32 = unsigned((signed(first) + self.low).max(0)) / N;
            let end: i32 = (signed(last) + self.high).min(signed(self.columns)).max(0);
            (begin, (unsigned(end) + (N - 1)) / N)
        }

        /// True if a row from `first` to `last` does not see a column from `column` to before `end`.
        fn hides(&self, first: u32, last: u32, column: u32, end: u32) -> pred {
            let seen: i32 = (signed(first) + self.high).min(signed(self.columns));
            (signed(end) > seen) | (signed(column) < signed(last) + self.low)
        }

        /// Scores that their row does not see become minus infinity; `row` is this lane's first one, `column` the tile's first one.
        /// For each score a `sub`, a `setp` and a `selp`.
        fn apply<const MT: u32, const NT: u32>(&self, s: &mut [[[f32; 4]; NT]; MT], row: u32, column: u32) {
            let first: i32 = signed(column + laneid % 4 * 2);
            for i in 0..MT {
                for half in 0..2 {
                    let own: i32 = signed(row + (16 * i + 8 * half));
                    let from: i32 = own + self.low - first;
                    let to: i32 = (own + self.high).min(signed(self.columns)) - first;
                    let width: u32 = unsigned((to - from).max(0));
                    for j in 0..NT {
                        for e in 0..2 {
                            let behind: u32 = unsigned((8 * j + e) as i32 - from);
                            let hidden: pred = behind >= width;
                            ptx! { selp.f32 s[i][j][2 * half + e], 0fFF800000, s[i][j][2 * half + e], hidden; }
                        }
                    }
                }
            }
        }
    }

    /// A change of the scores before the softmax: cap · tanh(scale · s) with a `cap` above 0, else scale · s, plus an element of
    /// `bias`, unless that is 0: the address of the first row's first column, with strides in bytes, of `rows` and `columns`.
    struct ScoreMod {
        scale: f32,
        cap: f32,
        bias: u64,
        row_stride: u64,
        column_stride: u64,
        rows: u32,
        columns: u32,
    }

    impl ScoreMod {
        /// The changes of a head's scores: `bias` is the address of the first sequence's first head, or 0, with strides of batch, head,
        /// row and column; `extents` are the numbers of rows and columns, `factors` the scale and the cap.
        fn of_head(
            bias: u64,
            strides: [u64; 4],
            batch: u32,
            head: u32,
            extents: [u32; 2],
            factors: [f32; 2],
        ) -> ScoreMod {
            let first: u64 = bias + strides[0] * batch as u64 + strides[1] * head as u64;
            ScoreMod {
                scale: factors[0],
                cap: factors[1],
                bias: (bias != 0).select(first, 0),
                row_stride: strides[2],
                column_stride: strides[3],
                rows: extents[0],
                columns: extents[1],
            }
        }

        /// The same changes with rows and columns exchanged.
        fn transposed(&self) -> ScoreMod {
            ScoreMod {
                scale: self.scale,
                cap: self.cap,
                bias: self.bias,
                row_stride: self.column_stride,
                column_stride: self.row_stride,
                rows: self.columns,
                columns: self.rows,
            }
        }

        /// Changes the scores of a tile; `row` is this lane's first one, `column` the tile's first one. With `KEEP` = 1 and a cap,
        /// `slopes` become the derivatives 1 - tanh².
        fn apply<T, const MT: u32, const NT: u32, const KEEP: u32>(
            &self,
            s: &mut [[[f32; 4]; NT]; MT],
            slopes: &mut [[[f32; 4]; NT]; MT],
            row: u32,
            column: u32,
        ) {
            let first: u32 = column + laneid % 4 * 2;
            for i in 0..MT {
                for half in 0..2 {
                    let own: u32 = row + (16 * i + 8 * half);
                    let from: u64 = self.bias + own as u64 * self.row_stride + first as u64 * self.column_stride;
                    let known: pred = (own < self.rows) & (self.bias != 0);
                    for j in 0..NT {
                        for e in 0..2 {
                            let mut x: f32 = s[i][j][2 * half + e] * self.scale;
                            if self.cap > 0.0 {
                                let t: f32 = tanh(x);
                                x = self.cap * t;
                                if KEEP == 1 {
                                    slopes[i][j][2 * half + e] = t.fma(-t, 1.0);
                                }
                            }
                            let at: u64 = from + self.column_stride * (8 * j + e) as u64;
                            let inside: pred = known & (first + (8 * j + e) < self.columns);
                            if inside {
                                x += load::<T>(at);
                            }
                            s[i][j][2 * half + e] = x;
                        }
                    }
                }
            }
        }
    }

    /// tanh(x) = 1 - 2 / (exp(2x) + 1), with an error below 2^-21: `mul`, `ex2.approx`, `add`, `rcp.approx`, `fma`.
    fn tanh(x: f32) -> f32 {
        let (mut e, y): (f32, f32);
        e = x * 2.8853900817779268;
        ptx! {
            ex2.approx.ftz.f32 e, e;
            add.f32 e, e, 1.0;
            rcp.approx.ftz.f32 e, e;
            fma.rn.f32 y, e, -2.0, 1.0;
        }
        y
    }

    /// An element of 16 bits as `f32`: `ld.global.nc.b16` and `cvt`.
    fn load<T>(at: u64) -> f32 {
        let (bits, x): (T, f32);
        ptx! {
            ld.global.nc.b16 bits, [at];
            cvt.f32.{T} x, bits;
        }
        x
    }

    /// The rows of Q, K, V, O or a gradient of one head of one sequence: `stride` bytes from one to the next, `len` of them, `dim`
    /// elements each.
    struct Rows {
        first: u64,
        stride: u64,
        len: u32,
        dim: u32,
    }

    impl Rows {
        /// The rows of a head of a sequence in the tensor at `tensor`; `strides` are those of batch, token and head.
        fn of_head(tensor: u64, strides: [u64; 3], batch: u32, head: u32, sequence: &Sequence, dim: u32) -> Rows {
            let first: u64 = tensor + offset(strides, batch, sequence.start, head);
            Rows { first, stride: strides[1], len: sequence.len, dim }
        }

        /// Begins to copy `ROWS` rows from number `row` on to a tile (`fragment::copy_rows`); those behind the last one become zeros.
        fn copy<const ROWS: u32, const COLUMNS: u32, const THREADS: u32>(&self, tile: u32, row: u32) {
            let left: u32 = self.len.max(row) - row;
            fragment::copy_rows::<ROWS, COLUMNS, THREADS>(tile, self.at(row), self.stride, left, self.dim);
        }

        /// The same for rows of `e4m3`, as `f16`: threads of a row take 16 elements each, `ld.global.nc.v4`, `float8::widen` and two `st.shared.v4`.
        fn copy_e4m3<const ROWS: u32, const COLUMNS: u32, const THREADS: u32>(&self, tile: u32, row: u32) {
            const ACROSS: u32 = COLUMNS / 16;
            const STEP: u32 = THREADS / ACROSS;
            let (own, column): (u32, u32) = (tid.x / ACROSS, tid.x % ACROSS * 16);
            let to: u32 = tile + own * fragment::pitch(COLUMNS) + 2 * column;
            for i in 0..ROWS / STEP {
                let at: u32 = row + own + i * STEP;
                let inside: pred = (at < self.len) & (column < self.dim);
                let bytes: [b32; 4] = vector::load_shared::<f32, 4>(self.at(at) + column as u64, inside);
                for half in 0..2 {
                    let (a, b): ([b32; 2], [b32; 2]) =
                        (float8::widen(bytes[2 * half]), float8::widen(bytes[2 * half + 1]));
                    let own_half: u32 = to + (i * STEP * fragment::pitch(COLUMNS) + 16 * half);
                    ptx! { st.shared.v4.b32 [own_half], {a[0], a[1], b[0], b[1]}; }
                }
            }
        }

        /// The address of a row.
        fn at(&self, row: u32) -> u64 {
            self.first + row as u64 * self.stride
        }

        /// Writes `MT` times 16 rows of sums, this warp's from number `row` on, rounded to `T`, through its part of a tile:
        /// `fragment::store`, `bar.warp.sync`, `fragment::write_rows`.
        fn write<T, const COLUMNS: u32, const MT: u32>(
            &self,
            sums: &[[[f32; 4]; COLUMNS / 8]; MT],
            tile: u32,
            row: u32,
        ) {
            fragment::store::<T, COLUMNS, MT, { COLUMNS / 8 }>(sums, tile);
            warp::sync();
            let left: u32 = self.len.max(row) - row;
            fragment::write_rows::<{ 16 * MT }, COLUMNS>(tile, self.at(row), self.stride, left, self.dim);
        }
    }

    impl Rows {
        /// Writes this warp's 16 rows of a warp group's sums by `wgmma`, rounded to `T`, from number `row` on. They go through its rows of a
        /// tile in shared memory, 128 swizzled bytes each, with `PART` bytes from 64 elements to the next ones; with 0 these take turns. `cvt.rn` of pairs and
        /// `stmatrix.x4`, `bar.warp.sync`, `ld.shared.v4` and `st.global.v4`. For `sm_90` and later.
        fn write_sums<T, const COLUMNS: u32, const PART: u32>(&self, sums: &[f32; COLUMNS / 2], tile: u32, row: u32) {
            let own: u32 = tile + (laneid & 15) * 128;
            for part in 0..COLUMNS / 64 {
                for i in 0..4 {
                    let packed: [b32; 4];
                    for j in 0..4 {
                        const AT: u32 = 32 * part + 8 * i + 2 * j;
                        ptx! { cvt.rn.{T}x2.f32 packed[j], sums[AT + 1], sums[AT]; }
                    }
                    let chunk: u32 = (2 * i + (laneid >> 4)) ^ (laneid & 7);
                    matrix::store_x4(own + part * PART + (chunk << 4), packed);
                }
                warp::sync();
                for i in 0..4 {
                    let at: u32 = 4 * i + laneid / 8;
                    let packed: [b32; 4];
                    let from: u32 = tile + part * PART + at * 128 + (((laneid & 7) ^ (at & 7)) << 4);
                    let to: u64 = self.at(row + at) + (part * 128 + (laneid & 7) * 16) as u64;
                    let inside: pred = (row + at < self.len) & (part * 64 + (laneid & 7) * 8 < self.dim);
                    ptx! {
                        ld.shared.v4.b32 {packed[..]}, [from];
                        @inside st.global.v4.b32 [to], {packed[..]};
                    }
                }
                if PART == 0 {
                    warp::sync();
                }
            }
        }
    }

    /// The byte offset of a token's head; `strides` are those of batch, token and head.
    fn offset(strides: [u64; 3], batch: u32, token: u32, head: u32) -> u64 {
        strides[0] * batch as u64 + strides[1] * token as u64 + strides[2] * head as u64
    }

    /// The factors of Q, K and V of `e4m3`: their addresses, their strides of sequence and head in bytes, and 0 where there are none.
    struct Descale {
        factors: [u64; 3],
        strides: [[u64; 2]; 3],
        given: [u64; 3],
    }

    impl Descale {
        /// The factor of a head's scores, and that of its values; factors that are not given are 1. `ld.global.nc.f32`.
        fn of_head(&self, batch: u32, head: u32) -> (f32, f32) {
            let of: [f32; 3];
            for i in 0..3 {
                let at: u64 = self.factors[i] + self.strides[i][0] * batch as u64 + self.strides[i][1] * head as u64;
                let given: pred = self.given[i] != 0;
                of[i] = 1.0;
                ptx! { @given ld.global.nc.f32 of[i], [at]; }
            }
            (of[0] * of[1], of[2])
        }
    }

    /// exp2(s · exponent - log): `fma`, `ex2.approx`.
    fn power(s: f32, exponent: f32, log: f32) -> f32 {
        let mut x: f32 = s.fma(exponent, -log);
        ptx! { ex2.approx.ftz.f32 x, x; }
        x
    }

    /// State of the online softmax, for this lane's two rows of each 16: the largest score so far, and the lane's part of the
    /// sum of exponentials. Powers are those of 2: `exponent` is log2(e) times the scores' scale.
    struct Online<const MT: u32> {
        most: [[f32; 2]; MT],
        sum: [[f32; 2]; MT],
    }

    impl<const MT: u32> Online<MT> {
        /// No keys.
        fn new() -> Online<MT> {
            let (most, sum): ([[f32; 2]; MT], [[f32; 2]; MT]);
            for i in 0..MT {
                for half in 0..2 {
                    ptx! { mov.f32 most[i][half], 0fFF800000; }
                    sum[i][half] = 0.0;
                }
            }
            Online { most, sum }
        }

        /// Scores become exponentials relative to the largest score of their row so far; `o` and the sums shrink to match.
        fn update<const NT: u32, const VT: u32>(
            &mut self,
            s: &mut [[[f32; 4]; NT]; MT],
            o: &mut [[[f32; 4]; VT]; MT],
            exponent: f32,
        ) {
            for i in 0..MT {
                for half in 0..2 {
                    let (mut x, mut y): (f32, f32) = (self.most[i][half], self.most[i][half]);
                    for j in 0..NT {
                        x = x.max(s[i][j][2 * half]);
                        y = y.max(s[i][j][2 * half + 1]);
                    }
                    let most: f32 = fragment::quad_max(x.max(y));
                    let (mut base, mut shrink, mut sum): (f32, f32, f32) = (most * exponent, 0.0, 0.0);
                    // A row that sees no key so far keeps zeros.
                    let blind: pred = base < -3.0e38;
                    base = blind.select(0.0, base);
                    shrink = self.most[i][half] * exponent - base;
                    ptx! { ex2.approx.ftz.f32 shrink, shrink; }
                    for j in 0..NT {
                        for e in 0..2 {
                            let mut power: f32 = s[i][j][2 * half + e].fma(exponent, -base);
                            ptx! { ex2.approx.ftz.f32 power, power; }
                            sum += power;
                            s[i][j][2 * half + e] = power;
                        }
                    }
                    self.most[i][half] = most;
                    self.sum[i][half] = self.sum[i][half].fma(shrink, sum);
                    for j in 0..VT {
                        o[i][j][2 * half] *= shrink;
                        o[i][j][2 * half + 1] *= shrink;
                    }
                }
            }
        }

        /// Divides `o` by the sums; a row that sees no key becomes zeros. Returns the natural logarithms of the rows' sums of
        /// exponentials, minus infinity where there is no key.
        fn finish<const VT: u32>(&self, o: &mut [[[f32; 4]; VT]; MT], exponent: f32) -> [[f32; 2]; MT] {
            let logarithms: [[f32; 2]; MT];
            for i in 0..MT {
                for half in 0..2 {
                    let total: f32 = fragment::quad_sum(self.sum[i][half]);
                    let (mut inverse, mut log): (f32, f32);
                    ptx! {
                        rcp.approx.ftz.f32 inverse, total;
                        lg2.approx.ftz.f32 log, total;
                    }
                    inverse = (total == 0.0).select(0.0, inverse);
                    logarithms[i][half] = self.most[i][half].fma(exponent, log) * 0.6931471805599453;
                    for j in 0..VT {
                        o[i][j][2 * half] *= inverse;
                        o[i][j][2 * half + 1] *= inverse;
                    }
                }
            }
            logarithms
        }
    }

    /// 1 / x, and 0 for 0: `rcp.approx`, `setp`, `selp`.
    fn inverse(x: f32) -> f32 {
        let y: f32;
        ptx! { rcp.approx.ftz.f32 y, x; }
        (x == 0.0).select(0.0, y)
    }

    /// The base-2 logarithm: `lg2.approx`.
    fn log2(x: f32) -> f32 {
        let y: f32;
        ptx! { lg2.approx.ftz.f32 y, x; }
        y
    }
}
