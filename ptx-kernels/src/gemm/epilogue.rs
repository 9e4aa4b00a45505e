//! The generic epilogue, which kernels without the TMA epilogue share: from four neighboring sums of a row to C.
//!
//! Kernels bring their sums to `finish` four at a time, through shared memory, in a loop: so its code stands in a kernel once, branches are
//! uniform and decided once for four elements, and accesses are whole runs of a row of C.

pub(super) mod warps;

use ptx_launch::prelude::*;

#[ptx_part]
pub(crate) mod epilogue {
    /// Four neighbors of a row of C: the first one's row and column, the batch, and the part of K.
    struct Place {
        row: u32,
        column: u32,
        batch: u32,
        split: u32,
    }

    /// True if any of `bits` is set: `and`, `setp`.
    fn has(flags: u32, bits: u32) -> pred {
        let p: pred = flags & bits != 0;
        p
    }

    /// The address of a place's first element, in a matrix at `first` with these strides.
    fn locate(first: u64, batch: u64, row: u64, column: u64, at: &Place) -> u64 {
        first + batch * (at.batch as u64) + row * (at.row as u64) + column * (at.column as u64)
    }

    /// Takes four sums (`f32`, or with `INTEGER` = 1 `i32`, as bits) to C, or, where blocks share K, to `partial`. Elements
    /// outside of C are left out.
    fn finish<const INTEGER: u32>(sums: &[b32; 4], at: &Place, out: &Output, p: &Problem) {
        if at.row < p.m {
            if at.column < p.n {
                cut!(at.row < p.m);
                if p.splits > 1 {
                    store_partial(sums, at, p);
                } else {
                    write_out::<INTEGER>(sums, at, out, p);
                }
            }
        }
    }

    /// Stores four partial sums for the kernel that adds them up.
    fn store_partial(sums: &[b32; 4], at: &Place, p: &Problem) {
        let matrix: u64 = wide(at.split) * p.batches + at.batch as u64;
        let row: u64 = matrix * (p.m as u64) + at.row as u64;
        invariant!(matrix + 1 <= p.splits * p.batches);
        invariant!(row + 1 <= p.splits * p.batches * p.m);
        // The same times the pitch, which is a product of too many numbers for a proof.
        assume!(row * p.pitch + p.pitch <= p.splits * p.batches * p.m * p.pitch);
        let to: u64 = p.partial + (row * (p.pitch as u64) + at.column as u64) * 4;
        ptx! { st.global.v4.b32 [to], {sums[..]}; }
    }

    /// The epilogue, in the order of its description.
    fn write_out<const INTEGER: u32>(sums: &[b32; 4], at: &Place, out: &Output, p: &Problem) {
        let count: u32 = p.n - at.column;
        let whole: pred = count >= 4;
        let to: u64 = locate(out.c.at, out.c.batch, out.c.row, out.c.column, at);
        let run = Run { count, whole: has(out.epilogue.flags, C_WIDE) & whole, step: out.c.column };
        if INTEGER == 1 {
            if out.epilogue.kind == I32 {
                store_words(to, sums, &run);
                return;
            }
        }
        let v: [f32; 4];
        for i in 0..4 {
            if INTEGER == 1 {
                ptx! { cvt.rn.f32.s32 v[i], sums[i]; }
            } else {
                ptx! { mov.b32 v[i], sums[i]; }
            }
            v[i] *= out.epilogue.alpha;
        }
        scale(&mut v, at, out, count);
        if has(out.epilogue.flags, ACCUMULATE) {
            let old: [f32; 4] = load(to, &run, out.epilogue.kind);
            for i in 0..4 {
                v[i] = old[i].fma(out.epilogue.beta, v[i]);
            }
        }
        bias(&mut v, at, out, count);
        if has(out.epilogue.flags, ACTIVATION) {
            activate(&mut v, out.epilogue.flags);
        }
        if has(out.epilogue.flags, RESIDUAL) {
            let other = Run { count, whole: has(out.epilogue.flags, RESIDUAL_WIDE) & whole, step: out.residual.column };
            let from: u64 = locate(out.residual.at, out.residual.batch, out.residual.row, out.residual.column, at);
            let add: [f32; 4] = load(from, &other, out.epilogue.kind);
            for i in 0..4 {
                v[i] += add[i];
            }
        }
        store(to, &v, &run, out.epilogue.kind);
    }

    /// Multiplies by the scales of the row and of the columns.
    fn scale(v: &mut [f32; 4], at: &Place, out: &Output, count: u32) {
        if has(out.epilogue.flags, SCALE_ROWS) {
            let (from, s): (u64, f32);
            from = out.epilogue.scale_rows.at + out.epilogue.scale_rows.step * (at.row as u64);
            ptx! { ld.global.f32 s, [from]; }
            for i in 0..4 {
                v[i] *= s;
            }
        }
        if has(out.epilogue.flags, SCALE_COLUMNS) {
            let mut from: u64 = out.epilogue.scale_columns.at + out.epilogue.scale_columns.step * (at.column as u64);
            for i in 0..4 {
                let s: f32;
                let inside: pred = count > i;
                ptx! { mov.f32 s, 0.0; @inside ld.global.f32 s, [from]; }
                v[i] *= s;
                from += out.epilogue.scale_columns.step;
            }
        }
    }

    /// Adds the biases of the row and of the columns.
    fn bias(v: &mut [f32; 4], at: &Place, out: &Output, count: u32) {
        if has(out.epilogue.flags, BIAS_ROWS) {
            let one = Run { count: 1, whole: false, step: 0 };
            let add: [f32; 4] = load(
                out.epilogue.bias_rows.at + out.epilogue.bias_rows.step * (at.row as u64),
                &one,
                out.epilogue.kind,
            );
            for i in 0..4 {
                v[i] += add[0];
            }
        }
        if has(out.epilogue.flags, BIAS_COLUMNS) {
            let wide_bias: pred = has(out.epilogue.flags, BIAS_WIDE);
            let run = Run { count, whole: wide_bias & (count >= 4), step: out.epilogue.bias_columns.step };
            let from: u64 = out.epilogue.bias_columns.at + out.epilogue.bias_columns.step * (at.column as u64);
            let add: [f32; 4] = load(from, &run, out.epilogue.kind);
            for i in 0..4 {
                v[i] += add[i];
            }
        }
    }

    /// The activation that the flags name, of finite and other values as PyTorch has it.
    fn activate(v: &mut [f32; 4], flags: u32) {
        if has(flags, RELU) {
            for i in 0..4 {
                let below: pred = v[i] < 0.0;
                v[i] = below.select(0.0, v[i]);
            }
        } else if has(flags, GELU) {
            for i in 0..4 {
                v[i] *= math::normal_cdf(v[i]);
            }
        } else if has(flags, GELU_TANH) {
            // 1 + tanh(y) is 2 · sigmoid(2y).
            for i in 0..4 {
                let cubed: f32 = v[i] * v[i] * v[i];
                v[i] *= math::sigmoid((v[i] + cubed * 0.044715) * 1.5957691);
            }
        } else {
            for i in 0..4 {
                v[i] *= math::sigmoid(v[i]);
            }
        }
    }

    /// Up to four elements `step` bytes apart, of which the first `count` are there; `whole` if all four are one access.
    struct Run {
        count: u32,
        whole: pred,
        step: u64,
    }

    /// The values of a run of `f32`, `f16` or `bf16`; zeros for what is not there.
    fn load(from: u64, run: &Run, kind: u32) -> [f32; 4] {
        let bits: [b32; 4];
        for i in 0..4 {
            ptx! { mov.b32 bits[i], 0; }
        }
        load_bits(from, &mut bits, run, kind);
        to_values(&bits, kind)
    }

    /// The bits of a run, where they are there.
    fn load_bits(from: u64, bits: &mut [b32; 4], run: &Run, kind: u32) {
        if kind == F32 {
            load_words(from, bits, run);
        } else {
            load_halves(from, bits, run);
        }
    }

    /// The values of these bits.
    fn to_values(bits: &[b32; 4], kind: u32) -> [f32; 4] {
        let values: [f32; 4];
        if kind == F32 {
            for i in 0..4 {
                ptx! { mov.b32 values[i], bits[i]; }
            }
        } else if kind == F16 {
            for i in 0..4 {
                let h: b16;
                ptx! { cvt.u16.u32 h, bits[i]; cvt.f32.f16 values[i], h; }
            }
        } else {
            for i in 0..4 {
                ptx! { shl.b32 values[i], bits[i], 16; }
            }
        }
        values
    }

    fn load_words(from: u64, bits: &mut [b32; 4], run: &Run) {
        if run.whole {
            ptx! { ld.global.v4.b32 {bits[..]}, [from]; }
        } else {
            let mut at: u64 = from;
            for i in 0..4 {
                let inside: pred = run.count > i;
                ptx! { @inside ld.global.b32 bits[i], [at]; }
                at += run.step;
            }
        }
    }

    fn load_halves(from: u64, bits: &mut [b32; 4], run: &Run) {
        if run.whole {
            let pairs: [b32; 2];
            ptx! { ld.global.v2.b32 {pairs[..]}, [from]; }
            for i in 0..2 {
                ptx! { and.b32 bits[2 * i], pairs[i], 0xffff; shr.u32 bits[2 * i + 1], pairs[i], 16; }
            }
        } else {
            let mut at: u64 = from;
            for i in 0..4 {
                if run.count > i {
                    let h: b16;
                    ptx! { ld.global.b16 h, [at]; cvt.u32.u16 bits[i], h; }
                }
                at += run.step;
            }
        }
    }

    /// Writes a run as `f32`, `f16` or `bf16`, rounded to nearest even.
    fn store(to: u64, values: &[f32; 4], run: &Run, kind: u32) {
        let bits: [b32; 4];
        if kind == F32 {
            for i in 0..4 {
                ptx! { mov.b32 bits[i], values[i]; }
            }
            store_words(to, &bits, run);
        } else {
            if kind == F16 {
                for i in 0..4 {
                    let h: b16;
                    ptx! { cvt.rn.f16.f32 h, values[i]; cvt.u32.u16 bits[i], h; }
                }
            } else {
                for i in 0..4 {
                    bits[i] = to_bf16(values[i]);
                }
            }
            store_halves(to, &bits, run);
        }
    }

    /// The nearest `bf16`, as the lower half of its bits: `cvt`, or before `sm_80` an addition that carries.
    fn to_bf16(x: f32) -> b32 {
        let bits: b32;
        if arch >= sm_80 {
            let h: b16;
            ptx! { cvt.rn.bf16.f32 h, x; cvt.u32.u16 bits, h; }
        } else {
            let (odd, number): (b32, pred);
            number = x == x;
            ptx! {
                mov.b32 bits, x;
                bfe.u32 odd, bits, 16, 1;
                add.u32 bits, bits, odd;
                add.u32 bits, bits, 0x7fff;
                shr.u32 bits, bits, 16;
                selp.b32 bits, bits, 0x7fff, number;
            }
        }
        bits
    }

    fn store_words(to: u64, bits: &[b32; 4], run: &Run) {
        if run.whole {
            ptx! { st.global.v4.b32 [to], {bits[..]}; }
        } else {
            let mut at: u64 = to;
            for i in 0..4 {
                let inside: pred = run.count > i;
                ptx! { @inside st.global.b32 [at], bits[i]; }
                at += run.step;
            }
        }
    }

    fn store_halves(to: u64, bits: &[b32; 4], run: &Run) {
        if run.whole {
            let pairs: [b32; 2];
            for i in 0..2 {
                ptx! { prmt.b32 pairs[i], bits[2 * i], bits[2 * i + 1], 0x5410; }
            }
            ptx! { st.global.v2.b32 [to], {pairs[..]}; }
        } else {
            let mut at: u64 = to;
            for i in 0..4 {
                if run.count > i {
                    let h: b16;
                    ptx! { cvt.u16.u32 h, bits[i]; st.global.b16 [at], h; }
                }
                at += run.step;
            }
        }
    }
}
