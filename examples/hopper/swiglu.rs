//! SwiGLU: element by element, 16 bytes an access, `VECTORS` loads of each input on their way at once.

use ptx_examples::Report;
use ptx_examples::rows::{Task, shapes, tasks};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// out = gate / (1 + exp(−gate)) · up, for `n` elements.
#[ptx_kernel(
    arch = "sm_90a",
    block = THREADS,
    grid = n.div_ceil(EACH * THREADS * VECTORS),
    pdl,
    instances = [(f32, 1, 256, 1), (f32, 4, 256, 1), (bf16, 1, 256, 1), (bf16, 8, 256, 1)],
    unsafe(requires(n % EACH == 0, gate.len() >= n, up.len() >= n, out.len() >= n))
)]
pub fn swiglu<T, const EACH: u32, const THREADS: u32, const VECTORS: u32>(gate: &[T], up: &[T], out: &mut [T], n: u32) {
    const WORDS: u32 = vector::words::<T, EACH>();
    const STEP: u32 = EACH * THREADS;
    const BYTES: u32 = size_of::<T>();

    let first: u32 = ctaid.x * (STEP * VECTORS) + tid.x * EACH;
    let at: u64 = wide(first) * BYTES;
    let (gates, ups, target): (u64, u64, u64) = (gate + at, up + at, out + at);
    let inside: [pred; VECTORS];
    let (g, u): ([[b32; WORDS]; VECTORS], [[b32; WORDS]; VECTORS]);
    // A multiprocessor has room for 2048 threads.
    if EACH > 1 && VECTORS == 1 {
        if first + STEP <= n {
            grid::fetch_ahead::<{ 2048 / THREADS }>(gates, STEP * BYTES);
            grid::fetch_ahead::<{ 2048 / THREADS }>(ups, STEP * BYTES);
        }
    }
    grid::wait();
    for i in 0..VECTORS {
        const AT: u64 = (i * STEP * BYTES) as u64;
        inside[i] = first + i * STEP < n;
        g[i] = vector::load::<T, EACH>(gates + AT, inside[i], 0);
        u[i] = vector::load::<T, EACH>(ups + AT, inside[i], 0);
    }
    grid::launch_dependents();

    for i in 0..VECTORS {
        let mut v: [f32; EACH] = vector::unpack::<T, EACH>(g[i]);
        let w: [f32; EACH] = vector::unpack::<T, EACH>(u[i]);
        for j in 0..EACH {
            v[j] = silu(v[j]) * w[j];
        }
        vector::store::<T, EACH>(target + (i * STEP * BYTES) as u64, vector::pack::<T, EACH>(v), inside[i]);
    }

    /// x / (1 + exp(−x)); exp(−x) is 2 to the power −x · log2(e).
    fn silu(x: f32) -> f32 {
        let mut power: f32 = x * -1.4426950408889634;
        ptx! { ex2.approx.ftz.f32 power, power; }
        let mut whole: f32 = power + 1.0;
        ptx! { rcp.approx.ftz.f32 whole, whole; }
        x * whole
    }
}

pub(crate) const TASK: Task = tasks::swiglu("hopper_swiglu");

/// Vectors where the number of elements allows.
pub(crate) fn single(
    stream: &Stream,
    inputs: &[Buffer<f32>],
    out: &mut Buffer<f32>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let (gate, up) = (&inputs[0], &inputs[1]);
    match rows * columns {
        n if n % 4 != 0 => swiglu::<f32, 1, 256, 1>(stream, gate, up, out, n),
        n => swiglu::<f32, 4, 256, 1>(stream, gate, up, out, n),
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
    let (gate, up) = (&inputs[0], &inputs[1]);
    match rows * columns {
        n if n % 8 != 0 => swiglu::<bf16, 1, 256, 1>(stream, gate, up, out, n),
        n => swiglu::<bf16, 8, 256, 1>(stream, gate, up, out, n),
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
