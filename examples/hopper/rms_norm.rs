//! RMSNorm: a block a row, which is read for the sum of its squares, and again, from the first-level cache, to be scaled.
//! So it takes few registers, and more rows are on their way.
//!
//! `griddepcontrol` lets the next launch start while the last rows of this one are written.

use ptx_examples::Report;
use ptx_examples::rows::tasks::{self, RMS_EPSILON};
use ptx_examples::rows::{Task, shapes};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The kernels and what they are made of.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// out = x · weight / sqrt(mean(x²) + epsilon), row by row, for rows of up to `EACH · THREADS · VECTORS` columns;
    /// `BLOCKS` blocks at least fit a multiprocessor.
    #[ptx_kernel(
        block = THREADS,
        grid = rows,
        min_blocks = BLOCKS,
        pdl,
        instances = [
            (f32, 1, 1024, 16, 1), (f32, 4, 256, 2, 1), (f32, 4, 1024, 2, 2), (f32, 4, 1024, 8, 1),
            (bf16, 1, 1024, 16, 1), (bf16, 8, 256, 1, 1), (bf16, 8, 512, 2, 4), (bf16, 8, 1024, 4, 1),
        ],
        unsafe(requires(
            columns % EACH == 0,
            columns <= EACH * THREADS * VECTORS,
            x.len() >= rows * columns,
            weight.len() >= columns,
            out.len() >= rows * columns
        ))
    )]
    pub fn rms_norm<T, const EACH: u32, const THREADS: u32, const VECTORS: u32, const BLOCKS: u32>(
        x: &[T],
        weight: &[T],
        out: &mut [T],
        epsilon: f32,
        rows: u32,
        columns: u32,
    ) {
        const WORDS: u32 = vector::words::<T, EACH>();
        const STEP: u32 = EACH * THREADS;
        const BYTES: u32 = size_of::<T>();
        /// Whether there are registers for the weights while the row comes.
        const EARLY: bool = BYTES == 4 && VECTORS <= 2;
        /// Whether rows are fetched before their turn; in `f32` that costs more than it brings.
        const AHEAD: bool = BYTES == 2 && EACH > 1;

        let first: u32 = tid.x * EACH;
        let start: u64 = (wide(ctaid.x) * columns + first as u64) * BYTES as u64;
        let (source, scale, target): (u64, u64, u64) = (x + start, weight + wide(first) * BYTES, out + start);
        let inside: [pred; VECTORS];
        let row: [[b32; WORDS]; VECTORS];
        let weights: [[b32; WORDS]; VECTORS];
        let (keep, leave): (u64, u64) = (cache::evict_last(), cache::evict_first());
        if AHEAD {
            grid::fetch_ahead::<BLOCKS>(source, columns * BYTES);
        }
        grid::wait();
        for i in 0..VECTORS {
            inside[i] = first + i * STEP < columns;
            row[i] = vector::load_first::<T, EACH>(source + (i * STEP * BYTES) as u64, inside[i], 0, keep);
        }
        // The division, and the weights, while the row comes.
        let share: f32 = 1.0 / columns as f32;
        if EARLY {
            for i in 0..VECTORS {
                weights[i] = vector::load_shared::<T, EACH>(scale + (i * STEP * BYTES) as u64, inside[i]);
            }
        }
        grid::launch_dependents();

        let mut squares: f32 = 0.0;
        for i in 0..VECTORS {
            for v in vector::unpack::<T, EACH>(row[i]) {
                ptx! { fma.rn.f32 squares, v, v, squares; }
            }
        }
        let mut inverse: f32 = block::reduce_sum_once::<{ THREADS / 32 }>(squares) * share + epsilon;
        ptx! { rsqrt.approx.f32 inverse, inverse; }

        for i in 0..VECTORS {
            let at: u64 = (i * STEP * BYTES) as u64;
            row[i] = vector::load_again::<T, EACH>(source + at, inside[i], 0, leave);
            let mut v: [f32; EACH] = vector::unpack::<T, EACH>(row[i]);
            if !EARLY {
                weights[i] = vector::load_shared::<T, EACH>(scale + at, inside[i]);
            }
            let w: [f32; EACH] = vector::unpack::<T, EACH>(weights[i]);
            for j in 0..EACH {
                v[j] = v[j] * inverse * w[j];
            }
            vector::store_kept::<T, EACH>(target + at, vector::pack::<T, EACH>(v), inside[i]);
        }
    }
}

use kernels::rms_norm;

pub(crate) const TASK: Task = tasks::rms_norm("hopper_rms_norm");

/// The instance for a number of columns: as few registers as hold the row, single elements where rows are not aligned.
pub(crate) fn single(
    stream: &Stream,
    inputs: &[Buffer<f32>],
    out: &mut Buffer<f32>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let (x, weight) = (&inputs[0], &inputs[1]);
    match columns {
        c if c % 4 != 0 => rms_norm::<f32, 1, 1024, 16, 1>(stream, x, weight, out, RMS_EPSILON, rows, c),
        c @ ..=2048 => rms_norm::<f32, 4, 256, 2, 1>(stream, x, weight, out, RMS_EPSILON, rows, c),
        c @ ..=8192 => rms_norm::<f32, 4, 1024, 2, 2>(stream, x, weight, out, RMS_EPSILON, rows, c),
        c => rms_norm::<f32, 4, 1024, 8, 1>(stream, x, weight, out, RMS_EPSILON, rows, c),
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
    let (x, weight) = (&inputs[0], &inputs[1]);
    match columns {
        c if c % 8 != 0 => rms_norm::<bf16, 1, 1024, 16, 1>(stream, x, weight, out, RMS_EPSILON, rows, c),
        c @ ..=2048 => rms_norm::<bf16, 8, 256, 1, 1>(stream, x, weight, out, RMS_EPSILON, rows, c),
        c @ ..=8192 => rms_norm::<bf16, 8, 512, 2, 4>(stream, x, weight, out, RMS_EPSILON, rows, c),
        c => rms_norm::<bf16, 8, 1024, 4, 1>(stream, x, weight, out, RMS_EPSILON, rows, c),
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
