//! The epilogue of a warp of the sm_90 kernels: a lane has four columns of every so many-th row of C, so that what belongs to columns is
//! loaded once, and addresses are added up.
//!
//! Products without options have a short loop of their own. With options, old elements of C and those of the residual are loaded some
//! rows ahead.

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod warps {
    /// Rows that loads are ahead.
    const AHEAD: u32 = 4;

    /// The sums of one lane: `COUNT` times four, `BYTES` apart in shared memory, for every `STEP`-th row of C from a place on.
    struct Lane<const STEP: u32, const COUNT: u32, const BYTES: u32> {
        sums: u32,
        at: Place,
    }

    /// Takes the staged sums of a warp, `COLUMNS` of C by `ROWS`, `PITCH` words from row to row, to C from the place `first` on.
    fn write_sums<S, const ROWS: u32, const COLUMNS: u32, const PITCH: u32>(
        sums: u32,
        first: &Place,
        out: &Output,
        p: &Problem,
    ) {
        const RUNS: u32 = COLUMNS / 4;
        const STEP: u32 = 32 / RUNS;
        let is_half: pred = (out.epilogue.kind == F16) | (out.epilogue.kind == BF16);
        let is_dense: pred = is_half & (out.c.column == 2);
        if is_dense & !has(out.epilogue.flags, OPTIONS | C_WIDE) {
            write_dense::<S, ROWS, COLUMNS, PITCH>(sums, first, out, p);
            return;
        }
        let (row, column): (u32, u32) = (laneid / RUNS, laneid % RUNS * 4);
        let from: u32 = sums + (row * PITCH + column) * 4;
        let at = Place { row: first.row + row, column: first.column + column, batch: first.batch, split: 0 };
        if (at.row < p.m) & (at.column < p.n) {
            let lane = Lane::<STEP, { ROWS / STEP }, { STEP * PITCH * 4 }> { sums: from, at };
            let whole: pred = has(out.epilogue.flags, C_WIDE) & (p.n - at.column >= 4);
            if whole & !has(out.epilogue.flags, OPTIONS) {
                lane.write_plain::<S>(out, p);
            } else if out.epilogue.kind == I32 {
                lane.write_integers(out, p);
            } else {
                lane.write_with_options::<S>(out, p);
            }
        }
    }

    /// Dense rows of 16-bit elements at any address, without options but alpha. A lane has the two elements of an aligned word, so that
    /// a warp's words are neighbors; where rows begin inside of a word, its last lane has the first and the last element.
    fn write_dense<S, const ROWS: u32, const COLUMNS: u32, const PITCH: u32>(
        sums: u32,
        first: &Place,
        out: &Output,
        p: &Problem,
    ) {
        const PAIRS: u32 = COLUMNS / 2;
        const STEP: u32 = 32 / PAIRS;
        let (below, pair): (u32, u32) = (laneid / PAIRS, laneid % PAIRS);
        let at = Place { row: first.row + below, column: first.column, batch: first.batch, split: 0 };
        let (mut row, end): (u32, u32) = (at.row, (first.row + ROWS).min(p.m));
        // Columns of C from the first one on, up to those of the staged ones.
        let left: u32 = (p.n - first.column.min(p.n)).min(COLUMNS);
        let (mut from, step): (u32, u64) = (sums + below * (PITCH * 4), out.c.row * STEP as u64);
        let mut line: u64 = locate(out.c.at, out.c.batch, out.c.row, out.c.column, &at);
        while row < end {
            let odd: u32 = line as u32 / 2 & 1;
            let column: u32 = pair * 2 + odd;
            let to: u64 = line + column as u64 * 2;
            let (both, alone): (pred, pred) = (column + 1 < left, column + 1 == left);
            let low: b32 = half_sum::<S>(from + column * 4, both | alone, out);
            let high: b32 = half_sum::<S>(from + column * 4 + 4, both, out);
            let word: b32 = low | (high << 16);
            let h: b16;
            ptx! {
                cvt.u16.u32 h, low;
                @both st.global.b32 [to], word;
                @alone st.global.b16 [to], h;
            }
            if (odd == 1) & (pair == PAIRS - 1) & (left > 0) {
                let start: b16;
                let bits: b32 = half_sum::<S>(from, left > 0, out);
                ptx! { cvt.u16.u32 start, bits; st.global.b16 [line], start; }
            }
            line += step;
            from += STEP * PITCH * 4;
            row += STEP;
        }
    }

    /// A sum times alpha as `f16` or `bf16`, in the lower half; zero where `inside` is false.
    fn half_sum<S>(from: u32, inside: pred, out: &Output) -> b32 {
        let (sum, mut bits): (S, b32);
        let mut v: f32;
        ptx! { mov.b32 sum, 0; @inside ld.shared.b32 sum, [from]; }
        if type_name::<S>() == "i32" {
            ptx! { cvt.rn.f32.s32 v, sum; }
        } else {
            ptx! { mov.b32 v, sum; }
        }
        v *= out.epilogue.alpha;
        if out.epilogue.kind == F16 {
            let h: b16;
            ptx! { cvt.rn.f16.f32 h, v; cvt.u32.u16 bits, h; }
        } else {
            bits = to_bf16(v);
        }
        bits
    }

    impl<const STEP: u32, const COUNT: u32, const BYTES: u32> Lane<STEP, COUNT, BYTES> {
        /// Whole runs of four, without options but alpha.
        fn write_plain<S>(&self, out: &Output, p: &Problem) {
            let mut to: u64 = locate(out.c.at, out.c.batch, out.c.row, out.c.column, &self.at);
            let (step, left): (u64, u32) = (out.c.row * STEP as u64, p.m - self.at.row);
            for i in 0..COUNT {
                let four: [b32; 4];
                ptx! { ld.shared.v4.b32 {four[..]}, [self.sums + i * BYTES]; }
                if left > i * STEP {
                    store_four::<S>(to, &four, out);
                }
                to += step;
            }
        }

        /// Integers as they are, in runs of any length.
        fn write_integers(&self, out: &Output, p: &Problem) {
            let run = Run { count: p.n - self.at.column, whole: false, step: out.c.column };
            let mut to: u64 = locate(out.c.at, out.c.batch, out.c.row, out.c.column, &self.at);
            let (mut sums, mut row, step): (u32, u32, u64) = (self.sums, self.at.row, out.c.row * STEP as u64);
            let end: u32 = (row + COUNT * STEP).min(p.m);
            while row < end {
                let four: [b32; 4];
                ptx! { ld.shared.v4.b32 {four[..]}, [sums]; }
                store_words(to, &four, &run);
                to += step;
                sums += BYTES;
                row += STEP;
            }
        }

        /// All options, in the order of their description.
        fn write_with_options<S>(&self, out: &Output, p: &Problem) {
            let count: u32 = p.n - self.at.column;
            let whole: pred = count >= 4;
            let flags: u32 = out.epilogue.flags;
            let c = Run { count, whole: has(flags, C_WIDE) & whole, step: out.c.column };
            let other = Run { count, whole: has(flags, RESIDUAL_WIDE) & whole, step: out.residual.column };
            let mut to: u64 = locate(out.c.at, out.c.batch, out.c.row, out.c.column, &self.at);
            let mut from: u64 =
                locate(out.residual.at, out.residual.batch, out.residual.row, out.residual.column, &self.at);
            let (step, from_step): (u64, u64) = (out.c.row * STEP as u64, out.residual.row * STEP as u64);
            let (old, add): ([[b32; 4]; AHEAD], [[b32; 4]; AHEAD]);
            let mut row: u32 = self.at.row;
            for i in 0..AHEAD {
                let inside: pred = row + i * STEP < p.m;
                load_ahead(&mut old[i], to + step * i as u64, &c, inside & has(flags, ACCUMULATE), out);
                load_ahead(&mut add[i], from + from_step * i as u64, &other, inside & has(flags, RESIDUAL), out);
            }
            let columns: Columns = Columns::new(&self.at, out, count);
            let (mut sums, end): (u32, u32) = (self.sums, (self.at.row + COUNT * STEP).min(p.m));
            while row < end {
                let mut v: [f32; 4] = scaled_sums::<S>(sums, out);
                columns.scale(&mut v, row, out);
                if has(flags, ACCUMULATE) {
                    let before: [f32; 4] = to_values(&old[0], out.epilogue.kind);
                    for i in 0..4 {
                        v[i] = before[i].fma(out.epilogue.beta, v[i]);
                    }
                }
                columns.add_bias(&mut v, row, out);
                if has(flags, ACTIVATION) {
                    activate(&mut v, flags);
                }
                if has(flags, RESIDUAL) {
                    let beside: [f32; 4] = to_values(&add[0], out.epilogue.kind);
                    for i in 0..4 {
                        v[i] += beside[i];
                    }
                }
                store(to, &v, &c, out.epilogue.kind);
                let inside: pred = row + AHEAD * STEP < end;
                advance(&mut old);
                advance(&mut add);
                load_ahead(&mut old[AHEAD - 1], to + step * AHEAD as u64, &c, inside & has(flags, ACCUMULATE), out);
                load_ahead(
                    &mut add[AHEAD - 1],
                    from + from_step * AHEAD as u64,
                    &other,
                    inside & has(flags, RESIDUAL),
                    out,
                );
                to += step;
                from += from_step;
                sums += BYTES;
                row += STEP;
            }
        }
    }

    /// A run of C or of the residual as bits, if it is `wanted`.
    fn load_ahead(bits: &mut [b32; 4], from: u64, run: &Run, wanted: pred, out: &Output) {
        for i in 0..4 {
            ptx! { mov.b32 bits[i], 0; }
        }
        if wanted {
            load_bits(from, bits, run, out.epilogue.kind);
        }
    }

    /// Moves rows that are loaded ahead one on.
    fn advance(rows: &mut [[b32; 4]; AHEAD]) {
        for row in 0..AHEAD - 1 {
            for i in 0..4 {
                rows[row][i] = rows[row + 1][i];
            }
        }
    }

    /// Four sums times alpha.
    fn scaled_sums<S>(from: u32, out: &Output) -> [f32; 4] {
        let four: [S; 4];
        let v: [f32; 4];
        ptx! { ld.shared.v4.b32 {four[..]}, [from]; }
        for i in 0..4 {
            if type_name::<S>() == "i32" {
                ptx! { cvt.rn.f32.s32 v[i], four[i]; }
            } else {
                ptx! { mov.b32 v[i], four[i]; }
            }
            v[i] *= out.epilogue.alpha;
        }
        v
    }

    /// Stores four sums, times alpha, as one access; those of integers as they are, if C has integers.
    fn store_four<S>(to: u64, sums: &[b32; 4], out: &Output) {
        if type_name::<S>() == "i32" {
            if out.epilogue.kind == I32 {
                ptx! { st.global.v4.b32 [to], {sums[..]}; }
                return;
            }
        }
        let v: [f32; 4];
        for i in 0..4 {
            if type_name::<S>() == "i32" {
                ptx! { cvt.rn.f32.s32 v[i], sums[i]; }
            } else {
                ptx! { mov.b32 v[i], sums[i]; }
            }
            v[i] *= out.epilogue.alpha;
        }
        if out.epilogue.kind == F32 {
            ptx! { st.global.v4.f32 [to], {v[..]}; }
            return;
        }
        let (low, high): (b32, b32);
        if out.epilogue.kind == F16 {
            ptx! { cvt.rn.f16x2.f32 low, v[1], v[0]; cvt.rn.f16x2.f32 high, v[3], v[2]; }
        } else {
            ptx! { cvt.rn.bf16x2.f32 low, v[1], v[0]; cvt.rn.bf16x2.f32 high, v[3], v[2]; }
        }
        ptx! { st.global.v2.b32 [to], {low, high}; }
    }

    /// Scales and biases of a lane's four columns; what is not there is not used.
    struct Columns {
        scale: [f32; 4],
        bias: [f32; 4],
    }

    impl Columns {
        fn new(at: &Place, out: &Output, count: u32) -> Columns {
            let (mut scale, mut bias): ([f32; 4], [f32; 4]) = ([1.0; 4], [0.0; 4]);
            if has(out.epilogue.flags, SCALE_COLUMNS) {
                let mut from: u64 =
                    out.epilogue.scale_columns.at + out.epilogue.scale_columns.step * (at.column as u64);
                for i in 0..4 {
                    let inside: pred = count > i;
                    ptx! { @inside ld.global.f32 scale[i], [from]; }
                    from += out.epilogue.scale_columns.step;
                }
            }
            if has(out.epilogue.flags, BIAS_COLUMNS) {
                let wide_bias: pred = has(out.epilogue.flags, BIAS_WIDE);
                let run = Run { count, whole: wide_bias & (count >= 4), step: out.epilogue.bias_columns.step };
                let from: u64 = out.epilogue.bias_columns.at + out.epilogue.bias_columns.step * (at.column as u64);
                bias = load(from, &run, out.epilogue.kind);
            }
            Columns { scale, bias }
        }

        /// Multiplies by the scales of the row and of the columns.
        fn scale(&self, v: &mut [f32; 4], row: u32, out: &Output) {
            if has(out.epilogue.flags, SCALE_ROWS) {
                let (from, s): (u64, f32);
                from = out.epilogue.scale_rows.at + out.epilogue.scale_rows.step * (row as u64);
                ptx! { ld.global.f32 s, [from]; }
                for i in 0..4 {
                    v[i] *= s;
                }
            }
            if has(out.epilogue.flags, SCALE_COLUMNS) {
                for i in 0..4 {
                    v[i] *= self.scale[i];
                }
            }
        }

        /// Adds the biases of the row and of the columns.
        fn add_bias(&self, v: &mut [f32; 4], row: u32, out: &Output) {
            if has(out.epilogue.flags, BIAS_ROWS) {
                let one = Run { count: 1, whole: false, step: 0 };
                let from: u64 = out.epilogue.bias_rows.at + out.epilogue.bias_rows.step * (row as u64);
                let add: [f32; 4] = load(from, &one, out.epilogue.kind);
                for i in 0..4 {
                    v[i] += add[0];
                }
            }
            if has(out.epilogue.flags, BIAS_COLUMNS) {
                for i in 0..4 {
                    v[i] += self.bias[i];
                }
            }
        }
    }
}
