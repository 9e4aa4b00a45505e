//! LayerNorm: a block a row, which stays in registers while its mean and then its variance are found.
//!
//! The variance is the mean square of what is left when the mean is gone: nothing cancels.

use ptx_examples::Report;
use ptx_examples::rows::tasks::{self, LAYER_EPSILON};
use ptx_examples::rows::{Task, shapes};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// out = (x − mean(x)) / sqrt(variance(x) + epsilon) · weight + bias, row by row, for rows of up to
/// `EACH · THREADS · VECTORS` columns.
#[ptx_kernel(
    arch = "sm_80",
    block = THREADS,
    grid = rows,
    instances = [
        (f32, 1, 1024, 16), (f32, 4, 256, 2), (f32, 4, 512, 4), (f32, 4, 1024, 8),
        (bf16, 1, 1024, 16), (bf16, 8, 256, 1), (bf16, 8, 256, 4), (bf16, 8, 1024, 4),
    ],
    unsafe(requires(
        columns % EACH == 0,
        columns <= EACH * THREADS * VECTORS,
        x.len() >= rows * columns,
        weight.len() >= columns,
        bias.len() >= columns,
        out.len() >= rows * columns
    ))
)]
pub fn layer_norm<T, const EACH: u32, const THREADS: u32, const VECTORS: u32>(
    x: &[T],
    weight: &[T],
    bias: &[T],
    out: &mut [T],
    epsilon: f32,
    rows: u32,
    columns: u32,
) {
    const WORDS: u32 = vector::words::<T, EACH>();
    const STEP: u32 = EACH * THREADS;
    const BYTES: u32 = size_of::<T>();

    let first: u32 = tid.x * EACH;
    let start: u64 = (wide(ctaid.x) * columns + first as u64) * BYTES as u64;
    let (source, target): (u64, u64) = (x + start, out + start);
    let (scale, shift): (u64, u64) = (weight + wide(first) * BYTES, bias + wide(first) * BYTES);
    let inside: [pred; VECTORS];
    let row: [[b32; WORDS]; VECTORS];
    for i in 0..VECTORS {
        inside[i] = first + i * STEP < columns;
        row[i] = vector::load_once::<T, EACH>(source + (i * STEP * BYTES) as u64, inside[i], 0);
    }

    let share: f32 = 1.0 / columns as f32;
    let mut sum: f32 = 0.0;
    for i in 0..VECTORS {
        for v in vector::unpack::<T, EACH>(row[i]) {
            sum += v;
        }
    }
    let mean: f32 = block::reduce_sum::<{ THREADS / 32 }, f32>(sum) * share;

    let mut squares: f32 = 0.0;
    for i in 0..VECTORS {
        for v in vector::unpack::<T, EACH>(row[i]) {
            let rest: f32 = v - mean;
            ptx! { @inside[i] fma.rn.f32 squares, rest, rest, squares; }
        }
    }
    let mut inverse: f32 = block::reduce_sum::<{ THREADS / 32 }, f32>(squares) * share + epsilon;
    ptx! { rsqrt.approx.f32 inverse, inverse; }

    for i in 0..VECTORS {
        let at: u64 = (i * STEP * BYTES) as u64;
        let mut v: [f32; EACH] = vector::unpack::<T, EACH>(row[i]);
        let w: [f32; EACH] = vector::unpack::<T, EACH>(vector::load_shared::<T, EACH>(scale + at, inside[i]));
        let b: [f32; EACH] = vector::unpack::<T, EACH>(vector::load_shared::<T, EACH>(shift + at, inside[i]));
        for j in 0..EACH {
            let unit: f32 = (v[j] - mean) * inverse;
            ptx! { fma.rn.f32 v[j], unit, w[j], b[j]; }
        }
        vector::store::<T, EACH>(target + at, vector::pack::<T, EACH>(v), inside[i]);
    }
}

pub(crate) const TASK: Task = tasks::layer_norm("ampere_layer_norm");

/// The instance for a number of columns: as few registers as hold the row, single elements where rows are not aligned.
pub(crate) fn single(
    stream: &Stream,
    inputs: &[Buffer<f32>],
    out: &mut Buffer<f32>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let (x, weight, bias) = (&inputs[0], &inputs[1], &inputs[2]);
    match columns {
        c if c % 4 != 0 => layer_norm::<f32, 1, 1024, 16>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
        c @ ..=2048 => layer_norm::<f32, 4, 256, 2>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
        c @ ..=8192 => layer_norm::<f32, 4, 512, 4>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
        c => layer_norm::<f32, 4, 1024, 8>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
    }
}

/// The same in `bf16`.
pub(crate) fn half(
    stream: &Stream,
    inputs: &[Buffer<bf16>],
    out: &mut Buffer<bf16>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let (x, weight, bias) = (&inputs[0], &inputs[1], &inputs[2]);
    match columns {
        c if c % 8 != 0 => layer_norm::<bf16, 1, 1024, 16>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
        c @ ..=2048 => layer_norm::<bf16, 8, 256, 1>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
        c @ ..=8192 => layer_norm::<bf16, 8, 256, 4>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
        c => layer_norm::<bf16, 8, 1024, 4>(stream, x, weight, bias, out, LAYER_EPSILON, rows, c),
    }
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut checks = TASK.on(device);
    for shape in shapes(device) {
        checks.shape(shape, single)?;
        checks.shape(shape, half)?;
    }
    Ok(checks.report())
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
