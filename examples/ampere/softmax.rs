//! Softmax over rows: a row lies in the registers of one block, is read once and written once.
//!
//! Every thread takes its own largest element as the base of its exponentials, so that one exchange of pairs (base, sum)
//! is enough. The exponentials are computed twice: it is registers that are short, and with them rows on their way.

use ptx_examples::Report;
use ptx_examples::rows::{Task, shapes, tasks};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// out\[r\]\[c\] = exp(x\[r\]\[c\]) / sum over c of exp(x\[r\]\[c\]), for rows of up to
/// `EACH · THREADS · VECTORS` columns.
#[ptx_kernel(
    arch = "sm_80",
    block = THREADS,
    grid = rows,
    min_blocks = BLOCKS,
    instances = [
        (f32, 1, 1024, 16, 1), (f32, 4, 256, 2, 1), (f32, 4, 512, 4, 2), (f32, 4, 1024, 8, 1),
        (bf16, 1, 1024, 16, 1), (bf16, 8, 256, 1, 1), (bf16, 8, 256, 4, 4), (bf16, 8, 1024, 4, 1),
    ],
    unsafe(requires(
        columns % EACH == 0,
        columns <= EACH * THREADS * VECTORS,
        x.len() >= rows * columns,
        out.len() >= rows * columns
    ))
)]
pub fn softmax<T, const EACH: u32, const THREADS: u32, const VECTORS: u32, const BLOCKS: u32>(
    x: &[T],
    out: &mut [T],
    rows: u32,
    columns: u32,
) {
    const WORDS: u32 = vector::words::<T, EACH>();
    const STEP: u32 = EACH * THREADS;
    const BYTES: u32 = size_of::<T>();
    /// -∞ as one `f32` or two `bf16`: what lies behind a row's end counts for nothing.
    const NOTHING: u32 = if BYTES == 4 { 0xff800000 } else { 0xff80ff80 };

    let first: u32 = tid.x * EACH;
    let start: u64 = (wide(ctaid.x) * columns + first as u64) * BYTES as u64;
    let (source, target): (u64, u64) = (x + start, out + start);
    let inside: [pred; VECTORS];
    let row: [[b32; WORDS]; VECTORS];
    for i in 0..VECTORS {
        inside[i] = first + i * STEP < columns;
        row[i] = vector::load_once::<T, EACH>(source + (i * STEP * BYTES) as u64, inside[i], NOTHING);
    }

    let base: f32 = largest::<T, EACH, VECTORS>(row);
    // Four chains, so that no addition waits for the one before.
    let mut sum: [f32; 4] = [0.0; 4];
    for i in 0..VECTORS {
        let v: [f32; EACH] = vector::unpack::<T, EACH>(row[i]);
        for j in 0..EACH {
            sum[j % 4] += exp(v[j] - base);
        }
    }
    let (top, mut total): (f32, f32) = meet::<{ THREADS / 32 }>(base, (sum[0] + sum[1]) + (sum[2] + sum[3]));

    // The exponentials again, with the row's own base: what waited in registers is the row as it came.
    ptx! {
        lg2.approx.ftz.f32 total, total;
        neg.f32 total, total;
    }
    for i in 0..VECTORS {
        let mut v: [f32; EACH] = again::<T, EACH>(row[i]);
        for j in 0..EACH {
            let mut power: f32 = v[j] - top;
            ptx! {
                fma.rn.f32 power, power, LOG2_E, total;
                ex2.approx.ftz.f32 v[j], power;
            }
        }
        vector::store::<T, EACH>(target + (i * STEP * BYTES) as u64, vector::pack::<T, EACH>(v), inside[i]);
    }

    const LOG2_E: f32 = 1.4426950408889634;
    /// The base of those who have no element: -∞ less this is still -∞.
    const LEAST: f32 = f32::MIN;

    /// The largest of a thread's elements, in pairs as long as they are packed.
    fn largest<T, const EACH: u32, const VECTORS: u32>(row: [[b32; vector::words::<T, EACH>()]; VECTORS]) -> f32 {
        const WORDS: u32 = vector::words::<T, EACH>();
        const KIND: &str = if size_of::<T>() == 4 { "f32" } else { "bf16x2" };
        let mut most: [b32; WORDS] = [if size_of::<T>() == 4 { 0xff7fffff } else { 0xff7fff7f }; WORDS];
        for i in 0..VECTORS {
            for j in 0..WORDS {
                ptx! { max.{KIND} most[j], most[j], row[i][j]; }
            }
        }
        let mut v: [f32; EACH] = vector::unpack::<T, EACH>(most);
        for j in 1..EACH {
            ptx! { max.f32 v[0], v[0], v[j]; }
        }
        v[0]
    }

    /// What `vector::unpack` gives, by another instruction, `prmt`: ptxas would keep the values of the first time.
    fn again<T, const EACH: u32>(packed: [b32; vector::words::<T, EACH>()]) -> [f32; EACH] {
        if size_of::<T>() == 4 {
            return vector::unpack::<T, EACH>(packed);
        }
        let values: [f32; EACH];
        for i in 0..EACH {
            const HALF: u32 = if i % 2 == 0 { 0x1044 } else { 0x3244 };
            ptx! { prmt.b32 values[i], packed[i / 2], 0, HALF; }
        }
        values
    }

    /// 2 to the power x · log2(e): `mul` and `ex2.approx.ftz`, two units in the last place at most.
    fn exp(x: f32) -> f32 {
        let mut y: f32 = x * LOG2_E;
        ptx! { ex2.approx.ftz.f32 y, y; }
        y
    }

    /// One pair of the pairs of every `LANES` neighbours: the largest base, and the sums brought to it.
    fn merge<const LANES: u32>(base: f32, sum: f32) -> (f32, f32) {
        let (mut most, mut total, mut other): (f32, f32, f32) = (base, 0.0, 0.0);
        for step in [1, 2, 4, 8, 16] {
            if step < LANES {
                ptx! {
                    shfl.sync.bfly.b32 other, most, step, 31, 0xffffffff;
                    max.f32 most, most, other;
                }
            }
        }
        total = sum * exp(base - most);
        for step in [1, 2, 4, 8, 16] {
            if step < LANES {
                ptx! {
                    shfl.sync.bfly.b32 other, total, step, 31, 0xffffffff;
                    add.f32 total, total, other;
                }
            }
        }
        (most, total)
    }

    /// The row's base and sum, of those of all its threads.
    fn meet<const WARPS: u32>(base: f32, sum: f32) -> (f32, f32) {
        const PAIRS: u32 = WARPS;
        const LANES: u32 = PAIRS.min(32);
        #[shared(align = 16)]
        let pairs: [[f32; 2]; PAIRS];
        let (warp_base, warp_sum): (f32, f32) = merge::<32>(base, sum);
        let mine: u32 = pairs + tid.x / 32 * 8;
        if laneid == 0 {
            ptx! { st.shared.v2.f32 [mine], {warp_base, warp_sum}; }
        }
        block::sync();
        let from: u32 = pairs + laneid % LANES * 8;
        let (row_base, row_sum): (f32, f32);
        ptx! { ld.shared.v2.f32 {row_base, row_sum}, [from]; }
        for at in 1..PAIRS / LANES {
            let (b, s, most): (f32, f32, f32);
            ptx! {
                ld.shared.v2.f32 {b, s}, [from + at * 8 * LANES];
                max.f32 most, row_base, b;
            }
            row_sum = row_sum * exp(row_base - most) + s * exp(b - most);
            row_base = most;
        }
        merge::<LANES>(row_base, row_sum)
    }
}

pub(crate) const TASK: Task = tasks::softmax("ampere_softmax");

/// The instance for a number of columns: as few registers as hold the row, single elements where rows are not aligned.
pub(crate) fn single(
    stream: &Stream,
    inputs: &[Buffer<f32>],
    out: &mut Buffer<f32>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let x = &inputs[0];
    match columns {
        c if c % 4 != 0 => softmax::<f32, 1, 1024, 16, 1>(stream, x, out, rows, c),
        c @ ..=2048 => softmax::<f32, 4, 256, 2, 1>(stream, x, out, rows, c),
        c @ ..=8192 => softmax::<f32, 4, 512, 4, 2>(stream, x, out, rows, c),
        c => softmax::<f32, 4, 1024, 8, 1>(stream, x, out, rows, c),
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
    let x = &inputs[0];
    match columns {
        c if c % 8 != 0 => softmax::<bf16, 1, 1024, 16, 1>(stream, x, out, rows, c),
        c @ ..=2048 => softmax::<bf16, 8, 256, 1, 1>(stream, x, out, rows, c),
        c @ ..=8192 => softmax::<bf16, 8, 256, 4, 4>(stream, x, out, rows, c),
        c => softmax::<bf16, 8, 1024, 4, 1>(stream, x, out, rows, c),
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
