//! Scores of warp-specialized attention kernels: their softmax, their masks, and rows of results.
//!
//! A warp group owns 64 queries. A thread of it has two rows of scores, 8 apart, as `wgmma` leaves them: of each 8 columns two. For `sm_90`
//! and later.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod scores {
    /// The online softmax of this thread's two rows: the score that exponentials are relative to, the thread's part of the sum of exponentials, and
    /// the factor by which the last tile changed earlier sums. Powers are those of 2. The score is the largest one so far, unless later ones exceed it by at
    /// most `SLACK` in the exponent. Exponentials are scaled by `2^(LIFT - HEADROOM)`: with headroom, scores may grow by as much more before exponentials do
    /// not fit 16 bits.
    struct Softmax<const SLACK: u32, const LIFT: u32, const HEADROOM: u32> {
        row_max: [f32; 2],
        row_sum: [f32; 2],
        scores_scale: [f32; 2],
    }

    /// The headroom of exponentials of type `T`: `bf16` has the exponents of `f32`, `f16` has no headroom.
    const fn headroom<T>() -> u32 {
        if type_name::<T>() == "bf16" { 32 } else { 0 }
    }

    /// Limits relative to a row's sum of exponentials: of the sum of a tile, above which its keys are checked, and of a large key. Earlier tiles count less if many
    /// follow.
    struct Large {
        tile: f32,
        key: f32,
    }

    impl Large {
        /// Behind `done` of `all` tiles: an even tile would have the `done`-th part; a key is large that may have 3 % of all, or has 6 % of the keys so far.
        /// With none done a tile has no limit.
        /// `cvt`, `rcp.approx`, `mul`, `min`, `fma`.
        fn new(done: u32, all: u32) -> Large {
            let (earlier, total, mut even): (f32, f32, f32);
            ptx! {
                cvt.rn.f32.u32 earlier, done;
                cvt.rn.f32.u32 total, all;
                rcp.approx.ftz.f32 even, earlier;
            }
            let growth: f32 = (total * even).min(2.0);
            Large { tile: growth.fma(0.12, even + even), key: growth * 0.03 }
        }
    }

    impl<const SLACK: u32, const LIFT: u32, const HEADROOM: u32> Softmax<SLACK, LIFT, HEADROOM> {
        /// No keys.
        fn new() -> Softmax<SLACK, LIFT, HEADROOM> {
            Softmax { row_max: [-1e30, -1e30], row_sum: [0.0, 0.0], scores_scale: [1.0, 1.0] }
        }

        /// Resets a row to no keys.
        fn clear<const HALF: u32>(&mut self) {
            self.row_max[HALF] = -1e30;
            self.row_sum[HALF] = 0.0;
        }

        /// Online softmax: scores become exponentials relative to the running maximum, with their sums and the scale of earlier sums. Returns true if any row
        /// of this warp has a scale other than 1, which the slack makes rare.
        fn update<const N: u32>(&mut self, s: &mut [f32; N], exponent: f32) -> pred {
            let mut grown: pred = false;
            for half in 0..2 {
                let (mut x, mut y): (f32, f32) = (self.row_max[half], self.row_max[half]);
                for j in 0..N / 4 {
                    x = x.max(s[4 * j + 2 * half]);
                    y = y.max(s[4 * j + 2 * half + 1]);
                }
                x = fragment::quad_max(x.max(y));
                self.scores_scale[half] = (self.row_max[half] - x) * exponent;
                let far: pred = self.scores_scale[half] < -(SLACK as f32);
                ptx! {
                    selp.f32 self.scores_scale[half], self.scores_scale[half], 0f00000000, far;
                    selp.f32 x, x, self.row_max[half], far;
                    or.pred grown, grown, far;
                    ex2.approx.ftz.f32 self.scores_scale[half], self.scores_scale[half];
                }
                self.row_max[half] = x;
                let earlier: f32 = self.row_sum[half] * self.scores_scale[half];
                self.row_sum[half] = self.exponentials::<half, 0, { N / 4 }, N>(s, exponent, earlier);
            }
            warp::any(grown)
        }

        /// The exponentials of row `HALF` in the n-tiles of 8 columns from `FROM` to before `TO`, and their sum plus `sum`: for each score `fma`,
        /// `ex2.approx`, `add`.
        fn exponentials<const HALF: u32, const FROM: u32, const TO: u32, const N: u32>(
            &self,
            s: &mut [f32; N],
            exponent: f32,
            sum: f32,
        ) -> f32 {
            let x: f32 = self.row_max[HALF];
            const SCALE: f32 = LIFT as f32 - HEADROOM as f32;
            let base: f32 = if LIFT == HEADROOM { -x * exponent } else { (-x).fma(exponent, SCALE) };
            let (mut a, mut b): (f32, f32) = (sum, 0.0);
            for j in FROM..TO {
                const AT: u32 = 4 * j + 2 * HALF;
                ptx! {
                    fma.rn.f32 s[AT], s[AT], exponent, base;
                    fma.rn.f32 s[AT + 1], s[AT + 1], exponent, base;
                    ex2.approx.ftz.f32 s[AT], s[AT];
                    ex2.approx.ftz.f32 s[AT + 1], s[AT + 1];
                    add.f32 a, a, s[AT];
                    add.f32 b, b, s[AT + 1];
                }
            }
            a + b
        }

        /// The same without a new largest score, for the n-tiles of 8 columns from `FROM` to before `TO` of both rows: adds the exponentials to
        /// `sums` of the tile. Returns true if any such sum of this warp exceeds its limit.
        fn speculate<const FROM: u32, const TO: u32, const N: u32>(
            &self,
            s: &mut [f32; N],
            exponent: f32,
            sums: &mut [f32; 2],
            limits: [f32; 2],
        ) -> pred {
            let mut wrong: pred = false;
            for half in 0..2 {
                sums[half] = self.exponentials::<half, FROM, TO, N>(s, exponent, sums[half]);
                wrong = wrong | (sums[half] > limits[half]);
            }
            warp::any(wrong)
        }

        /// Limits of this thread's sums of a tile. Without a large key, a sum seldom exceeds them. `mul` and `min` for each row.
        fn limits(&self, large: &Large) -> [f32; 2] {
            [(self.row_sum[0] * large.tile).min(16384.0), (self.row_sum[1] * large.tile).min(16384.0)]
        }

        /// Returns true if a sum of this warp exceeds 2^14. Then the largest score has grown so much that exponentials do not fit 16 bits, or are
        /// infinite, and the tile needs `update` with its scores.
        fn overflows(&self, sums: &[f32; 2]) -> pred {
            warp::any(sums[0].max(sums[1]) > 16384.0)
        }

        /// Corrects the reference after a tile with a large key: exponentials become relative to the largest one, whose own exponential becomes a power
        /// of 2, which rounding does not change, and the sums are rescaled. Returns true if any row of this warp has such a key.
        fn correct<const N: u32>(&mut self, s: &mut [f32; N], exponent: f32, large: &Large) -> pred {
            const SCALE: f32 = LIFT as f32 - HEADROOM as f32;
            let mut corrected: pred = false;
            for half in 0..2 {
                let (mut x, mut y): (f32, f32) = (0.0, 0.0);
                for j in 0..N / 4 {
                    x = x.max(s[4 * j + 2 * half]);
                    y = y.max(s[4 * j + 2 * half + 1]);
                }
                x = fragment::quad_max(x.max(y));
                let found: pred = x > fragment::quad_sum(self.row_sum[half]) * large.key;
                let grown: f32 = attention::log2(x) - SCALE;
                self.row_max[half] += found.select(grown * attention::inverse(exponent), 0.0);
                self.scores_scale[half] = attention::power(found.select(grown, 0.0), -1.0, 0.0);
                self.row_sum[half] *= self.scores_scale[half];
                corrected = corrected | found;
            }
            corrected = warp::any(corrected);
            if corrected {
                self.rescale(s);
            }
            corrected
        }

        /// Adds the sums of a tile whose speculation was right: `add`.
        fn add_sums(&mut self, sums: &[f32; 2]) {
            for half in 0..2 {
                self.row_sum[half] += sums[half];
            }
        }

        /// Rescales sums of this thread's rows by the scale of the last tile: `mul`.
        fn rescale<const N: u32>(&self, sums: &mut [f32; N]) {
            for i in 0..N {
                sums[i] *= self.scores_scale[i / 2 % 2];
            }
        }

        /// The inverse of a row's sum of exponentials, 0 without a key, and its logarithm of base 2 (see `logarithm`): `fragment::quad_sum`,
        /// `rcp.approx`, `lg2.approx`.
        fn finish<const HALF: u32>(&self) -> (f32, f32) {
            let total: f32 = fragment::quad_sum(self.row_sum[HALF]);
            let (mut inverse, log): (f32, f32);
            ptx! {
                rcp.approx.ftz.f32 inverse, total;
                lg2.approx.ftz.f32 log, total;
            }
            inverse = (total == 0.0).select(0.0, inverse);
            const SCALE: f32 = LIFT as f32 - HEADROOM as f32;
            (inverse, if LIFT == HEADROOM { log } else { log - SCALE })
        }

        /// The natural logarithm of a row's sum of exponentials, whose `log` is relative to the largest score: `fma`, `mul`.
        fn logarithm<const HALF: u32>(&self, log: f32, exponent: f32) -> f32 {
            self.row_max[HALF].fma(exponent, log) * 0.6931471805599453
        }
    }

    /// The scores of this warp's 16 rows once more, by `mma.sync`: `q` is the tile that has the rows, from number `row` on, and `k` the tile of
    /// the columns. Both have rows of 128 swizzled bytes, in parts of 64 columns that are `Q_PART` and `K_PART` bytes apart. For each 16 of
    /// `HEAD` columns, in a loop, `ldmatrix.x4` and `mma.sync`; then `bar.warp.sync`.
    fn recompute<T, const HEAD: u32, const Q_PART: u32, const K_PART: u32, const N: u32>(
        s: &mut [f32; N],
        q: u32,
        row: u32,
        k: u32,
    ) {
        let lane: u32 = laneid % 8;
        let (a, b): (u32, u32) = (q + (row + laneid % 16) * 128, k + (laneid / 16 * 8 + lane) * 128);
        for i in 0..N {
            s[i] = 0.0;
        }
        let mut step: u32 = 0;
        while step < HEAD / 16 {
            let (part, chunk): (u32, u32) = (step / 4, step % 4 * 2);
            let left: [b32; 4] = matrix::load_x4(a + part * Q_PART + ((chunk + laneid / 16) ^ lane) * 16);
            let from: u32 = b + part * K_PART + ((chunk + laneid / 8 % 2) ^ lane) * 16;
            for j in 0..N / 8 {
                let right: [b32; 4] = matrix::load_x4(from + j * (16 * 128));
                matrix::multiply::<T>(&mut s[8 * j..8 * j + 4], left, [right[0], right[1]]);
                matrix::multiply::<T>(&mut s[8 * j + 4..8 * j + 8], left, [right[2], right[3]]);
            }
            step += 1;
        }
        warp::sync();
    }

    /// Scores of this thread's row `HALF` become minus infinity from column `limit` on; `column` is the tile's first one. `setp` and `selp` for
    /// each score.
    fn hide_from<const HALF: u32, const N: u32>(s: &mut [f32; N], column: u32, limit: i32) {
        let seen: i32 = limit - signed(column + laneid % 4 * 2);
        for j in 0..N / 4 {
            for e in 0..2 {
                const AT: u32 = 4 * j + 2 * HALF + e;
                let hidden: pred = seen <= (8 * j + e) as i32;
                ptx! { selp.f32 s[AT], 0fFF800000, s[AT], hidden; }
            }
        }
    }

    /// Scores of this thread's row `HALF` become minus infinity outside of the columns from `from` to before `to`; `column` is the tile's first
    /// one. `sub`, `setp` and `selp` for each score.
    fn hide_outside<const HALF: u32, const N: u32>(s: &mut [f32; N], column: u32, from: i32, to: i32) {
        let first: i32 = from - signed(column + laneid % 4 * 2);
        let width: u32 = unsigned((to - from).max(0));
        for j in 0..N / 4 {
            for e in 0..2 {
                const AT: u32 = 4 * j + 2 * HALF + e;
                let behind: u32 = unsigned((8 * j + e) as i32 - first);
                let hidden: pred = behind >= width;
                ptx! { selp.f32 s[AT], 0fFF800000, s[AT], hidden; }
            }
        }
    }

    /// Scores become tanh(scale · s): `mul` and `attention::tanh`.
    fn bound<const N: u32>(s: &mut [f32; N], scale: f32) {
        for i in 0..N {
            s[i] = attention::tanh(s[i] * scale);
        }
    }

    /// Elements of a bias for this thread's scores of a row: the address of the one of its first column, the bytes from column to column, and the number
    /// of columns from this one on that exist.
    struct Bias {
        from: u64,
        stride: u64,
        known: i32,
    }

    impl Bias {
        /// Scores of this thread's row `HALF` become factor · s plus the bias. For each two neighbors one `ld.global.nc.b32` if they lie side by side at an
        /// even place, and their number is even, else two loads; `cvt` or `prmt`, and `fma`.
        fn add<T, const HALF: u32, const N: u32>(&self, s: &mut [f32; N], factor: f32) {
            let odd: u64 = (self.from & 3) | (self.known & 1) as u64;
            if (self.stride == 2) & (odd == 0) {
                for j in 0..N / 4 {
                    let known: pred = self.known > (8 * j) as i32;
                    let mut pair: b32 = 0;
                    ptx! { @known ld.global.nc.b32 pair, [self.from + 16 * j]; }
                    let values: [f32; 2] = vector::unpack::<T, 2>([pair]);
                    for e in 0..2 {
                        s[4 * j + 2 * HALF + e] = s[4 * j + 2 * HALF + e].fma(factor, values[e]);
                    }
                }
            } else {
                let mut at: u64 = self.from;
                for j in 0..N / 4 {
                    for e in 0..2 {
                        let mut value: f32 = 0.0;
                        if self.known > (8 * j + e) as i32 {
                            value = attention::load::<T>(at + self.stride * e as u64);
                        }
                        s[4 * j + 2 * HALF + e] = s[4 * j + 2 * HALF + e].fma(factor, value);
                    }
                    at += self.stride * 8;
                }
            }
        }
    }

    /// Exponentials as the left operand of the next product, pairs of columns: `cvt.rn`.
    fn pack<T, const N: u32>(packed: &mut [b32; N / 2], s: &[f32; N]) {
        for i in 0..N / 2 {
            ptx! { cvt.rn.{T}x2.f32 packed[i], s[2 * i + 1], s[2 * i]; }
        }
    }

    /// Writes this thread's row `HALF` of sums, rounded to `T`, to the row at `to`: neighboring lanes exchange pairs, so that four of them write whole
    /// sectors of 32 bytes. With `RAGGED` = 1 the row has `columns` elements, a multiple of 8. `cvt.rn`, `selp`, `shfl.sync.bfly`, and under `inside`
    /// `st.global.v2`.
    fn store_row<T, const HALF: u32, const RAGGED: u32, const N: u32>(
        sums: &[f32; N],
        to: u64,
        inside: pred,
        columns: u32,
    ) {
        let odd: pred = (laneid & 1) != 0;
        let own: u64 = to + ((laneid & 1) * 16 + (laneid & 2) * 4) as u64;
        for t in 0..N / 8 {
            const AT: u32 = 8 * t + 2 * HALF;
            let (x, y, sent, got): (b32, b32, b32, b32);
            ptx! {
                cvt.rn.{T}x2.f32 x, sums[AT + 1], sums[AT];
                cvt.rn.{T}x2.f32 y, sums[AT + 5], sums[AT + 4];
                selp.b32 sent, x, y, odd;
                shfl.sync.bfly.b32 got, sent, 1, 31, 0xffffffff;
                selp.b32 x, got, x, odd;
                selp.b32 y, y, got, odd;
            }
            if RAGGED == 1 {
                let writes: pred = inside & ((laneid & 1) * 8 + 16 * t < columns);
                ptx! { @writes st.global.v2.b32 [own + 32 * t], {x, y}; }
            } else {
                ptx! { @inside st.global.v2.b32 [own + 32 * t], {x, y}; }
            }
        }
    }
}
