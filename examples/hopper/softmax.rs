//! Softmax over rows of any width up to a vocabulary's: a row lies in the registers of a cluster of `CLUSTER` blocks, is
//! read once and written once.
//!
//! Every thread takes its own largest element as the base of its exponentials, so that one exchange of pairs (base, sum)
//! is enough: each warp sends its pair to every block of the cluster, in distributed shared memory. The exponentials are
//! computed twice: it is registers that are short, and with them rows on their way.

use ptx_examples::Report;
use ptx_examples::rows::{Task, shapes, tasks};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The kernels and what they are made of.
#[ptx_module(arch = "sm_90a")]
pub mod kernels {
    /// out\[r\]\[c\] = exp(x\[r\]\[c\]) / sum over c of exp(x\[r\]\[c\]), for rows of up to
    /// `EACH · THREADS · VECTORS · CLUSTER` columns.
    #[ptx_kernel(
        block = THREADS,
        grid = rows * CLUSTER,
        cluster = CLUSTER,
        min_blocks = BLOCKS,
        pdl,
        instances = [
            (f32, 1, 512, 16, 8, 1), (f32, 4, 256, 2, 1, 1), (f32, 4, 512, 4, 1, 3), (f32, 4, 512, 16, 4, 1),
            (bf16, 1, 512, 16, 8, 1), (bf16, 8, 256, 1, 1, 1), (bf16, 8, 256, 4, 1, 5), (bf16, 8, 512, 16, 2, 1),
        ],
        unsafe(requires(
            columns % EACH == 0,
            columns <= EACH * THREADS * VECTORS * CLUSTER,
            x.len() >= rows * columns,
            out.len() >= rows * columns
        ))
    )]
    pub fn softmax<
        T,
        const EACH: u32,
        const THREADS: u32,
        const VECTORS: u32,
        const CLUSTER: u32,
        const BLOCKS: u32,
    >(
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

        if CLUSTER > 1 {
            cluster::arrive_relaxed();
        }
        // `%clusterid` is a division.
        let (mut part, mut number): (u32, u32) = (0, ctaid.x);
        if CLUSTER > 1 {
            part = cluster_ctarank;
            number = clusterid.x;
        }
        let first: u32 = (part * (THREADS * VECTORS) + tid.x) * EACH;
        let start: u64 = (wide(number) * columns + first as u64) * BYTES as u64;
        let (source, target): (u64, u64) = (x + start, out + start);
        let inside: [pred; VECTORS];
        let row: [[b32; WORDS]; VECTORS];
        let keep: u64 = cache::evict_last();
        // Clusters that start while others are at work are in their way.
        if CLUSTER == 1 {
            if EACH > 1 {
                grid::fetch_ahead::<BLOCKS>(source, columns * BYTES);
            }
            grid::launch_dependents();
        }
        grid::wait();
        for i in 0..VECTORS {
            inside[i] = first + i * STEP < columns;
            row[i] = vector::load_first::<T, EACH>(source + (i * STEP * BYTES) as u64, inside[i], NOTHING, keep);
        }
        if CLUSTER > 1 {
            grid::launch_dependents();
        }

        let (base, sum): (f32, f32) = powers::<T, EACH, VECTORS>(row);
        let (top, mut total): (f32, f32) = meet::<CLUSTER, { THREADS / 32 }>(base, sum);
        write::<T, EACH, THREADS, VECTORS>(row, inside, target, top, &mut total);
    }

    /// The exponentials of a row in registers: this thread's base, and their sum.
    fn powers<T, const EACH: u32, const VECTORS: u32>(row: [[b32; vector::words::<T, EACH>()]; VECTORS]) -> (f32, f32) {
        let base: f32 = largest::<T, EACH, VECTORS>(row);
        // Four chains, so that no addition waits for the one before.
        let mut sum: [f32; 4] = [0.0; 4];
        for i in 0..VECTORS {
            let v: [f32; EACH] = vector::unpack::<T, EACH>(row[i]);
            for j in 0..EACH {
                sum[j % 4] += exp(v[j] - base);
            }
        }
        (base, (sum[0] + sum[1]) + (sum[2] + sum[3]))
    }

    /// Writes a row whose base and sum are known.
    fn write<T, const EACH: u32, const THREADS: u32, const VECTORS: u32>(
        row: [[b32; vector::words::<T, EACH>()]; VECTORS],
        inside: [pred; VECTORS],
        target: u64,
        top: f32,
        total: &mut f32,
    ) {
        const STEP: u32 = EACH * THREADS;
        const BYTES: u32 = size_of::<T>();

        // The exponentials again, with the row's own base: what waited in registers is the row as it came.
        ptx! {
            lg2.approx.ftz.f32 total, total;
            neg.f32 total, total;
        }
        for i in 0..VECTORS {
            let mut v: [f32; EACH] = vector::unpack_again::<T, EACH, 0>(row[i]);
            for j in 0..EACH {
                const LOG2_E: f32 = log2_e();
                let mut power: f32 = v[j] - top;
                ptx! {
                    fma.rn.f32 power, power, LOG2_E, total;
                    ex2.approx.ftz.f32 v[j], power;
                }
            }
            vector::store_kept::<T, EACH>(target + (i * STEP * BYTES) as u64, vector::pack::<T, EACH>(v), inside[i]);
        }
    }

    /// What brings a power of e to one of 2.
    fn log2_e() -> f32 {
        1.4426950408889634
    }

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

    /// 2 to the power x · log2(e): `mul` and `ex2.approx.ftz`, two units in the last place at most.
    fn exp(x: f32) -> f32 {
        let mut y: f32 = x * log2_e();
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
    fn meet<const CLUSTER: u32, const WARPS: u32>(base: f32, sum: f32) -> (f32, f32) {
        const PAIRS: u32 = CLUSTER * WARPS;
        const LANES: u32 = PAIRS.min(32);
        #[shared(align = 16)]
        let pairs: [[f32; 2]; PAIRS];
        let (warp_base, warp_sum): (f32, f32) = merge::<32>(base, sum);
        let mine: u32 = pairs + (cluster_ctarank * WARPS + tid.x / 32) * 8;
        if CLUSTER == 1 {
            if laneid == 0 {
                ptx! { st.shared.v2.f32 [mine], {warp_base, warp_sum}; }
            }
            block::sync();
        } else {
            // The first half of this barrier stands before the row is read: nobody writes to a block that is not there.
            cluster::wait();
            if laneid < CLUSTER {
                let there: u32 = cluster::map(mine, laneid);
                ptx! { st.shared::cluster.v2.f32 [there], {warp_base, warp_sum}; }
            }
            cluster::sync();
        }
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

use kernels::softmax;

pub(crate) const TASK: Task = tasks::softmax("hopper_softmax");

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
        c if c % 4 != 0 => softmax::<f32, 1, 512, 16, 8, 1>(stream, x, out, rows, c),
        c @ ..=2048 => softmax::<f32, 4, 256, 2, 1, 1>(stream, x, out, rows, c),
        c @ ..=8192 => softmax::<f32, 4, 512, 4, 1, 3>(stream, x, out, rows, c),
        c => softmax::<f32, 4, 512, 16, 4, 1>(stream, x, out, rows, c),
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
        c if c % 8 != 0 => softmax::<bf16, 1, 512, 16, 8, 1>(stream, x, out, rows, c),
        c @ ..=2048 => softmax::<bf16, 8, 256, 1, 1, 1>(stream, x, out, rows, c),
        c @ ..=8192 => softmax::<bf16, 8, 256, 4, 1, 5>(stream, x, out, rows, c),
        c => softmax::<bf16, 8, 512, 16, 2, 1>(stream, x, out, rows, c),
    }
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut checks = TASK.on(device);
    for shape in shapes(device) {
        checks.shape(shape, single)?;
        checks.shape(shape, half)?;
    }
    let vocabulary = (if device.is_cuda() { 512 } else { 1 }, 128_256);
    checks.shape(vocabulary, single)?;
    checks.shape(vocabulary, half)?;
    Ok(checks.report())
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
