//! RMSNorm and LayerNorm with what `sm_100` has for them: 32 bytes a thread and access, and two `f32` in one instruction
//! (`fma.rn.f32x2`). A block has a row, which stays in registers from its sums to its scaling.
//!
//! For rows of whole 32 bytes. Where there is no such chip, the CPU device runs them; nobody has measured them here.

use ptx_examples::Report;
use ptx_examples::blackwell::{self, NO_FIGURE};
use ptx_examples::rows::Task;
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The kernels. `T` is `f32` or `bf16`; a row has at most `VECTORS` · 32 bytes for each of 256 threads.
#[ptx_module(arch = "sm_100a")]
pub mod kernels {
    /// Two equal `f32`.
    fn both(x: f32) -> b64 {
        let pair: b64;
        ptx! { mov.b64 pair, {x, x}; }
        pair
    }

    /// The sum of the two halves, over the block.
    fn total(pair: b64) -> f32 {
        let (low, high): (f32, f32);
        ptx! { mov.b64 {low, high}, pair; }
        block::reduce_sum::<8, f32>(low + high)
    }

    /// How many pairs of elements are 32 bytes.
    fn pairs<T>() -> u32 {
        16 / size_of::<T>()
    }

    /// 32 bytes as pairs of `f32`; zeros where `inside` is false. A `bf16` is the upper half of an `f32`.
    fn load<T>(from: u64, inside: pred) -> [b64; pairs::<T>()] {
        let values: [b64; pairs::<T>()];
        if size_of::<T>() == 4 {
            for i in 0..4 {
                ptx! { mov.b64 values[i], 0; }
            }
            ptx! { @inside ld.global.v4.b64 {values[..]}, [from]; }
        } else {
            let packed: [b32; 8];
            for i in 0..8 {
                ptx! { mov.b32 packed[i], 0; }
            }
            ptx! { @inside ld.global.v8.b32 {packed[..]}, [from]; }
            for i in 0..8 {
                let (low, high): (b32, b32);
                ptx! {
                    shl.b32 low, packed[i], 16;
                    and.b32 high, packed[i], 0xffff0000;
                    mov.b64 values[i], {low, high};
                }
            }
        }
        values
    }

    /// Writes 32 bytes where `inside` holds.
    fn store<T>(to: u64, values: [b64; pairs::<T>()], inside: pred) {
        if size_of::<T>() == 4 {
            ptx! { @inside st.global.v4.b64 [to], {values[..]}; }
        } else {
            let packed: [b32; 8];
            for i in 0..8 {
                let (low, high): (f32, f32);
                ptx! {
                    mov.b64 {low, high}, values[i];
                    cvt.rn.bf16x2.f32 packed[i], high, low;
                }
            }
            ptx! { @inside st.global.v8.b32 [to], {packed[..]}; }
        }
    }

    /// The sum of the squares of all elements of a row, over the block.
    fn squares<T, const VECTORS: u32>(row: [[b64; pairs::<T>()]; VECTORS]) -> f32 {
        let mut sum: b64 = both(0.0);
        for i in 0..VECTORS {
            for pair in row[i] {
                ptx! { fma.rn.f32x2 sum, pair, pair, sum; }
            }
        }
        total(sum)
    }

    /// out = x · weight / sqrt(mean(x²) + epsilon), row by row.
    #[ptx_kernel(
        block = 256,
        grid = rows,
        instances = [(f32, 1), (f32, 4), (bf16, 1), (bf16, 4)],
        unsafe(requires(
            columns % (32 / size_of::<T>() as u32) == 0,
            columns <= 256 * VECTORS * (32 / size_of::<T>() as u32),
            x.len() >= rows * columns,
            weight.len() >= columns,
            out.len() >= rows * columns
        ))
    )]
    pub fn rms_norm<T, const VECTORS: u32>(
        #[align(32)] x: &[T],
        #[align(32)] weight: &[T],
        #[align(32)] out: &mut [T],
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = 2 * pairs::<T>();
        let first: u32 = tid.x * EACH;
        let start: u64 = (wide(ctaid.x) * columns + first as u64) * size_of::<T>();
        let inside: [pred; VECTORS];
        let row: [[b64; pairs::<T>()]; VECTORS];
        for i in 0..VECTORS {
            inside[i] = first + i * 256 * EACH < columns;
            row[i] = load::<T>(x + start + (i * 8192) as u64, inside[i]);
        }
        let mut inverse: f32 = squares::<T, VECTORS>(row) / columns as f32 + epsilon;
        ptx! { rsqrt.approx.f32 inverse, inverse; }
        let scale: b64 = both(inverse);
        for i in 0..VECTORS {
            let w: [b64; pairs::<T>()] =
                load::<T>(weight + wide(first) * size_of::<T>() + (i * 8192) as u64, inside[i]);
            for j in 0..pairs::<T>() {
                ptx! {
                    mul.rn.f32x2 row[i][j], row[i][j], scale;
                    mul.rn.f32x2 row[i][j], row[i][j], w[j];
                }
            }
            store::<T>(out + start + (i * 8192) as u64, row[i], inside[i]);
        }
    }

    /// out = (x − mean(x)) / sqrt(variance(x) + epsilon) · weight + bias, row by row.
    #[ptx_kernel(
        block = 256,
        grid = rows,
        instances = [(f32, 1), (f32, 4), (bf16, 1), (bf16, 4)],
        unsafe(requires(
            columns % (32 / size_of::<T>() as u32) == 0,
            columns <= 256 * VECTORS * (32 / size_of::<T>() as u32),
            x.len() >= rows * columns,
            weight.len() >= columns,
            bias.len() >= columns,
            out.len() >= rows * columns
        ))
    )]
    pub fn layer_norm<T, const VECTORS: u32>(
        #[align(32)] x: &[T],
        #[align(32)] weight: &[T],
        #[align(32)] bias: &[T],
        #[align(32)] out: &mut [T],
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const EACH: u32 = 2 * pairs::<T>();
        let first: u32 = tid.x * EACH;
        let start: u64 = (wide(ctaid.x) * columns + first as u64) * size_of::<T>();
        let inside: [pred; VECTORS];
        let row: [[b64; pairs::<T>()]; VECTORS];
        let mut sum: b64 = both(0.0);
        for i in 0..VECTORS {
            inside[i] = first + i * 256 * EACH < columns;
            row[i] = load::<T>(x + start + (i * 8192) as u64, inside[i]);
            for pair in row[i] {
                ptx! { add.rn.f32x2 sum, sum, pair; }
            }
        }
        let share: f32 = 1.0 / columns as f32;
        // What is left when the mean is gone; nothing, where there was no element.
        let minus: b64 = both(-(total(sum) * share));
        for i in 0..VECTORS {
            for j in 0..pairs::<T>() {
                ptx! { @inside[i] add.rn.f32x2 row[i][j], row[i][j], minus; }
            }
        }
        let mut inverse: f32 = squares::<T, VECTORS>(row) * share + epsilon;
        ptx! { rsqrt.approx.f32 inverse, inverse; }
        let scale: b64 = both(inverse);
        for i in 0..VECTORS {
            let at: u64 = wide(first) * size_of::<T>() + (i * 8192) as u64;
            let w: [b64; pairs::<T>()] = load::<T>(weight + at, inside[i]);
            let b: [b64; pairs::<T>()] = load::<T>(bias + at, inside[i]);
            for j in 0..pairs::<T>() {
                ptx! {
                    mul.rn.f32x2 row[i][j], row[i][j], scale;
                    fma.rn.f32x2 row[i][j], row[i][j], w[j], b[j];
                }
            }
            store::<T>(out + start + (i * 8192) as u64, row[i], inside[i]);
        }
    }
}

const EPSILON: f32 = 1e-6;
const RMS: Task = Task { name: "blackwell_rms_norm", inputs: &[true, false], reference: rms_reference };
const LAYER: Task = Task { name: "blackwell_layer_norm", inputs: &[true, false, false], reference: layer_reference };

fn rms_reference(rows: &[&[f64]]) -> Vec<f64> {
    let [x, weight] = rows else { return Vec::new() };
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().zip(*weight).map(|(x, w)| x * w / (mean + f64::from(EPSILON)).sqrt()).collect()
}

fn layer_reference(rows: &[&[f64]]) -> Vec<f64> {
    let [x, weight, bias] = rows else { return Vec::new() };
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (variance + f64::from(EPSILON)).sqrt();
    x.iter().zip(weight.iter().zip(*bias)).map(|(x, (w, b))| (x - mean) * scale * w + b).collect()
}

/// Rows and columns: full rows, rows that end within a block's step, and one of a single access.
const SHAPES: [(u32, u32); 4] = [(4, 8192), (3, 1008), (2, 4112), (1, 16)];

macro_rules! check {
    ($checks:expr, $kernel:ident, $type:ty, [$($input:literal),+]) => {
        for (rows, columns) in SHAPES {
            $checks.shape::<$type>((rows, columns), |stream, inputs, out, rows, columns| {
                if columns * size_of::<$type>() as u32 <= 8192 {
                    kernels::$kernel::<$type, 1>(stream, $(&inputs[$input]),+, out, EPSILON, rows, columns)
                } else {
                    kernels::$kernel::<$type, 4>(stream, $(&inputs[$input]),+, out, EPSILON, rows, columns)
                }
            })?;
        }
    };
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &blackwell::device(device);
    let (mut rms, mut layer) = (RMS.on(device), LAYER.on(device));
    check!(rms, rms_norm, f32, [0, 1]);
    check!(rms, rms_norm, bf16, [0, 1]);
    check!(layer, layer_norm, f32, [0, 1, 2]);
    check!(layer, layer_norm, bf16, [0, 1, 2]);
    let (rms, layer) = (rms.report(), layer.report());
    Ok(Report { name: "blackwell_norms", error: rms.error.max(layer.error), figure: NO_FIGURE.into(), ..rms })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
