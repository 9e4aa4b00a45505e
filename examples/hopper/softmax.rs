//! Softmax over rows of any width up to a vocabulary's: a row lies in the registers of a cluster of `CLUSTER` blocks, is
//! read once and written once.
//!
//! Every thread takes its own largest element as the base of its exponentials, so that one exchange of pairs (base, sum)
//! is enough: each warp sends its pair to every block of the cluster, in distributed shared memory.

use ptx_examples::Report;
use ptx_examples::rows::{Task, shapes};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// out\[r\]\[c\] = exp(x\[r\]\[c\]) / sum over c of exp(x\[r\]\[c\]), for rows of up to
/// `EACH · THREADS · VECTORS · CLUSTER` columns.
#[ptx_kernel(
    arch = "sm_90a",
    block = THREADS,
    grid = rows * CLUSTER,
    cluster = CLUSTER,
    pdl,
    instances = [
        (f32, 1, 512, 16, 8), (f32, 4, 256, 2, 1), (f32, 4, 512, 4, 1), (f32, 4, 512, 16, 4),
        (bf16, 1, 512, 16, 8), (bf16, 8, 256, 1, 1), (bf16, 8, 256, 4, 1), (bf16, 8, 1024, 4, 4),
    ],
    safe(
        columns % EACH == 0,
        columns <= EACH * THREADS * VECTORS * CLUSTER,
        x.len() >= rows * columns,
        out.len() >= rows * columns
    )
)]
pub fn softmax<T, const EACH: u32, const THREADS: u32, const VECTORS: u32, const CLUSTER: u32>(
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

    cluster::arrive_relaxed();
    let first: u32 = (cluster_ctarank * (THREADS * VECTORS) + tid.x) * EACH;
    let start: u64 = (wide(clusterid.x) * columns + first as u64) * BYTES as u64;
    let (source, target): (u64, u64) = (x + start, out + start);
    let inside: [pred; VECTORS];
    let row: [[b32; WORDS]; VECTORS];
    ptx! { griddepcontrol.wait; }
    for i in 0..VECTORS {
        inside[i] = first + i * STEP < columns;
        row[i] = vector::load::<T, EACH>(source + (i * STEP * BYTES) as u64, inside[i], NOTHING);
    }
    ptx! { griddepcontrol.launch_dependents; }

    let v: [[f32; EACH]; VECTORS];
    let base: f32 = LEAST;
    for i in 0..VECTORS {
        v[i] = vector::unpack::<T, EACH>(row[i]);
        for j in 0..EACH {
            ptx! { max.f32 base, base, v[i][j]; }
        }
    }
    let sum: f32 = 0.0;
    for i in 0..VECTORS {
        for j in 0..EACH {
            v[i][j] = exp(v[i][j] - base);
            sum += v[i][j];
        }
    }
    let factor: f32 = share::<CLUSTER, { THREADS / 32 }>(base, sum);
    for i in 0..VECTORS {
        for j in 0..EACH {
            v[i][j] *= factor;
        }
        vector::store::<T, EACH>(target + (i * STEP * BYTES) as u64, vector::pack::<T, EACH>(v[i]), inside[i]);
    }

    /// The base of those who have no element: -∞ less this is still -∞.
    const LEAST: f32 = f32::MIN;

    /// 2 to the power x · log2(e): `mul` and `ex2.approx.ftz`, two units in the last place at most.
    fn exp(x: f32) -> f32 {
        let y: f32 = x * 1.4426950408889634;
        ptx! { ex2.approx.ftz.f32 y, y; }
        y
    }

    /// One pair for the warp: the largest base, and the sums brought to it.
    fn merge(base: f32, sum: f32) -> (f32, f32) {
        let most: f32 = warp::reduce_max(base);
        (most, warp::reduce_sum(sum * exp(base - most)))
    }

    /// What this thread's exponentials must be multiplied with: exp of its base less the row's, divided by the row's sum.
    fn share<const CLUSTER: u32, const WARPS: u32>(base: f32, sum: f32) -> f32 {
        const PAIRS: u32 = CLUSTER * WARPS;
        #[shared(align = 16)]
        let pairs: [[f32; 2]; PAIRS];
        let (warp_base, warp_sum): (f32, f32) = merge(base, sum);
        let mine: u32 = pairs + (cluster_ctarank * WARPS + tid.x / 32) * 8;
        cluster::wait();
        if laneid < CLUSTER {
            let there: u32 = cluster::map(mine, laneid);
            ptx! { st.shared::cluster.v2.f32 [there], {warp_base, warp_sum}; }
        }
        cluster::sync();
        let (row_base, row_sum): (f32, f32) = (LEAST, 0.0);
        for at in (0..PAIRS).step_by(32) {
            let (b, s): (f32, f32) = (LEAST, 0.0);
            if laneid + at < PAIRS {
                let pair: u32 = pairs + (laneid + at) * 8;
                ptx! { ld.shared.v2.f32 {b, s}, [pair]; }
            }
            let most: f32;
            ptx! { max.f32 most, row_base, b; }
            row_sum = row_sum * exp(row_base - most) + s * exp(b - most);
            row_base = most;
        }
        let (all_base, all_sum): (f32, f32) = merge(row_base, row_sum);
        let inverse: f32;
        ptx! { rcp.approx.ftz.f32 inverse, all_sum; }
        exp(base - all_base) * inverse
    }
}

pub(crate) const TASK: Task = Task { name: "hopper_softmax", inputs: &[true], reference };

fn reference(rows: &[&[f64]]) -> Vec<f64> {
    let [x] = rows else { return Vec::new() };
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = x.iter().map(|x| (x - top).exp()).sum();
    x.iter().map(|x| (x - top).exp() / total).collect()
}

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
        c if c % 4 != 0 => softmax::<f32, 1, 512, 16, 8>(stream, x, out, rows, c),
        c @ ..=2048 => softmax::<f32, 4, 256, 2, 1>(stream, x, out, rows, c),
        c @ ..=8192 => softmax::<f32, 4, 512, 4, 1>(stream, x, out, rows, c),
        c => softmax::<f32, 4, 512, 16, 4>(stream, x, out, rows, c),
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
        c if c % 8 != 0 => softmax::<bf16, 1, 512, 16, 8>(stream, x, out, rows, c),
        c @ ..=2048 => softmax::<bf16, 8, 256, 1, 1>(stream, x, out, rows, c),
        c @ ..=8192 => softmax::<bf16, 8, 256, 4, 1>(stream, x, out, rows, c),
        c => softmax::<bf16, 8, 1024, 4, 4>(stream, x, out, rows, c),
    }
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut checks = TASK.on(device);
    for shape in shapes(device) {
        checks.shape(shape, single)?;
        checks.shape(shape, half)?;
    }
    let vocabulary = (if device.is_cuda() { 4096 } else { 1 }, 128_256);
    checks.shape(vocabulary, single)?;
    checks.shape(vocabulary, half)?;
    Ok(checks.report())
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
