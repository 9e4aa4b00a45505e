//! The choice that `Gemm` makes against all of its algorithms, and against cuBLASLt's first choice: random shapes, a cold second-level
//! cache. A line for each shape has every time, so that the costs in `ptx_kernels::gemm` can be fitted to it.

use super::kind::{self, Kind};
use crate::bench::Bench;
use crate::data::Factor;
use crate::rivals::cublaslt::{Lt, Problem};
use ptx_kernels::gemm::{Gemm, algorithms};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMut, TensorRef};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Shapes of a run.
const SHAPES: u32 = 300;
/// The largest extent.
const LARGEST: usize = 16384;
/// The most multiplications of a shape: a millisecond of the tensor cores.
const WORK: f64 = 3e11;
/// Multiplications from which kernels without tensor cores, and from which those of `mma.sync`, are not tried.
const NO_SIMT: f64 = 3e7;
const NO_MMA: f64 = 2e10;
/// Parts of K that are tried.
const SPLITS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// Launches of each way.
const TURNS: u32 = 3;

macro_rules! suites {
    ($($name:ident: $kind:ty;)*) => { $(
        pub fn $name(bench: &mut Bench) -> Result<()> {
            run::<$kind>(bench)
        }
    )* };
}
suites! {
    bf16: kind::Bf16;
    f16: kind::F16;
    tf32: kind::Tf32;
    e4m3: kind::E4m3;
    i8: kind::I8;
}

/// A product: M, N, K, and the layout of B.
#[derive(Clone, Copy)]
struct Shape {
    extents: [usize; 3],
    b_k_major: bool,
}

impl Shape {
    /// Half of the shapes have at most 64 rows, two of three extents are multiples of 64.
    fn random(mut next: impl FnMut(usize) -> usize) -> Shape {
        let mut log_uniform = |least: f64, most: f64| -> usize {
            let size = least * (most / least).powf(next(1 << 16) as f64 / 65536.0);
            let step = [64, 64, 64, 8, 8, 1][next(6)];
            (size as usize).next_multiple_of(if size < 64.0 { 1 } else { step })
        };
        let m = if log_uniform(1.0, 4.0) < 2 { log_uniform(1.0, 65.0) } else { log_uniform(65.0, 16385.0) };
        let (n, mut k) = (log_uniform(64.0, 16385.0), log_uniform(64.0, 16385.0));
        let [m, n] = [m, n].map(|extent| extent.min(LARGEST));
        while m as f64 * n as f64 * k as f64 > WORK {
            k = (k / 2).next_multiple_of(8);
        }
        Shape { extents: [m, n, k.min(LARGEST)], b_k_major: next(10) < 7 }
    }
}

/// The memory of all shapes.
struct Memory<K: Kind> {
    a: Buffer<K::Stored>,
    b: Buffer<K::Stored>,
    c: Buffer<K::Output>,
    /// Twice the second-level cache.
    flush: Buffer<u32>,
}

impl<K: Kind> Memory<K> {
    fn multiply(&mut self, stream: &Stream, shape: Shape, way: Option<(&str, u32)>) -> Result<()> {
        let [m, n, k] = shape.extents;
        let a = TensorRef::strided(&self.a, [m, k], [k, 1])?;
        let b = TensorRef::strided(&self.b, [k, n], if shape.b_k_major { [1, k] } else { [n, 1] })?;
        K::multiply(stream, (a, b), TensorMut::strided(&mut self.c, [m, n], [n, 1])?, way)
    }

    /// The name and the parts of K that are chosen.
    fn choice(&mut self, stream: &Stream, shape: Shape) -> Result<String> {
        let [m, n, k] = shape.extents;
        let a = TensorRef::strided(&self.a, [m, k], [k, 1])?.cast::<K::Operand>();
        let b = TensorRef::strided(&self.b, [k, n], if shape.b_k_major { [1, k] } else { [n, 1] })?.cast();
        let (Some(a), Some(b)) = (a, b) else { return Err(ptx_launch::Error::other("operands have another size")) };
        let c = TensorMut::strided(&mut self.c, [m, n], [n, 1])?;
        let choice = Gemm::<K::Output, 2>::new().tf32(K::TF32).choose(stream, a, b, c)?;
        Ok(format!("{}/{}", choice.algorithm, choice.splits))
    }

    /// The quickest of some launches, each with a cold cache; `None` if it cannot be launched.
    fn time(&mut self, stream: &Stream, launch: &mut dyn FnMut(&mut Self) -> Result<()>) -> Option<Duration> {
        launch(self).ok()?;
        let mut best = Duration::MAX;
        for turn in 0..TURNS {
            stream.fill(&mut self.flush, turn).ok()?;
            let timer = Timer::new().warm_up(0).runs(1);
            best = best.min(timer.measure(stream, || launch(self)).ok()?.median());
        }
        Some(best)
    }
}

fn run<K: Kind>(bench: &mut Bench) -> Result<()> {
    let kernel = format!("gemm choice {}", K::NAME);
    if !bench.device.is_cuda() || !bench.wants(&kernel, "random") {
        return Ok(());
    }
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let mut memory = Memory::<K> {
        a: device.zeros(LARGEST * LARGEST)?,
        b: device.zeros(LARGEST * LARGEST)?,
        c: device.zeros(LARGEST * LARGEST)?,
        flush: device.zeros(32 << 20)?,
    };
    K::Stored::draw(&stream, &mut memory.a, bench.seed())?;
    K::Stored::draw(&stream, &mut memory.b, bench.seed())?;
    let lt = Lt::open(&device);
    let mut state = bench.options.seed | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % below
    };
    let (mut to_best, mut to_rival) = (Vec::new(), Vec::new());
    for _ in 0..SHAPES {
        if bench.options.until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        let shape = Shape::random(&mut next);
        let addresses = (memory.a.address(), memory.b.address(), memory.c.address());
        let [m, n, k] = shape.extents;
        let mut line = format!("{} {m} {n} {k} {}", K::NAME, if shape.b_k_major { "k" } else { "n" });
        let Some(chosen) = memory.time(&stream, &mut |memory| memory.multiply(&stream, shape, None)) else { continue };
        let mut best = chosen;
        let mut all = String::new();
        for name in algorithms().filter(|name| is_tried(name, K::NAME, shape)) {
            let mut least = Duration::MAX;
            for splits in SPLITS {
                let way = Some((name, splits));
                let Some(time) = memory.time(&stream, &mut |memory| memory.multiply(&stream, shape, way)) else {
                    break;
                };
                let _ = write!(all, " {name}/{splits} {:.2}", time.as_secs_f64() * 1e6);
                if name == "hopper" || least < Duration::MAX && time > least.mul_f64(1.15) {
                    break;
                }
                least = least.min(time);
            }
            best = best.min(least);
        }
        let problem = Problem { shape: shape.extents, operand: K::NUMBER, a_k_major: true, b_k_major: shape.b_k_major };
        let plan = lt.as_ref().ok().and_then(|lt| lt.first_choice(&problem, addresses).ok());
        let rival = plan.and_then(|plan| memory.time(&stream, &mut |_| plan.launch(&stream)));
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let _ = write!(line, " | {} {:.2}", memory.choice(&stream, shape)?, micros(chosen));
        let _ = write!(line, " | lt {:.2} |{all}", rival.map_or(0.0, micros));
        println!("{line}");
        to_best.push(best.as_secs_f64() / chosen.as_secs_f64());
        to_rival.extend(rival.map(|rival| rival.as_secs_f64() / chosen.as_secs_f64()));
    }
    println!("{kernel}: to the best {}; to cuBLASLt's first choice {}", summary(&to_best), summary(&to_rival));
    Ok(())
}

/// True if an algorithm for this type may be the best one.
fn is_tried(name: &str, kind: &str, shape: Shape) -> bool {
    let work: f64 = shape.extents.iter().map(|extent| *extent as f64).product();
    let (family, rest) = name.split_once('_').unwrap_or((name, kind));
    let limit = match family {
        "simt" => NO_SIMT,
        "mma" => NO_MMA,
        _ => f64::INFINITY,
    };
    rest.split('_').next() == Some(kind) && work < limit
}

/// `0.98 (least 0.80, of 300)`: the geometric mean.
fn summary(ratios: &[f64]) -> String {
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{mean:.3} (least {least:.3}, of {})", ratios.len())
}

/// Calls of one measurement: fewer than a stream's queue holds.
const CALLS: u32 = 400;

/// The host's time for a call of the library, tensor maps included, beside that of `cublasLtMatmul` with a finished plan, and for a choice.
pub fn host(bench: &mut Bench) -> Result<()> {
    if !bench.device.is_cuda() || !bench.wants("gemm host", "small") {
        return Ok(());
    }
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    for (extents, b_k_major) in [([256, 256, 256], true), ([256, 256, 256], false), ([16, 256, 256], true)] {
        let ([m, n, k], shape) = (extents, Shape { extents, b_k_major });
        let flush = device.zeros(1)?;
        let mut memory =
            Memory::<kind::Bf16> { a: device.zeros(m * k)?, b: device.zeros(n * k)?, c: device.zeros(m * n)?, flush };
        let addresses = (memory.a.address(), memory.b.address(), memory.c.address());
        let problem = Problem { shape: extents, operand: kind::Bf16::NUMBER, a_k_major: true, b_k_major };
        let plan = Lt::open(&device).and_then(|lt| lt.first_choice(&problem, addresses));
        let choice = memory.choice(&stream, shape)?;
        let ours = quickest_call(&stream, || memory.multiply(&stream, shape, None))?;
        let chosen = quickest_call(&stream, || memory.choice(&stream, shape).map(|_| ()))?;
        let rival = plan.and_then(|plan| quickest_call(&stream, || plan.launch(&stream)));
        println!(
            "gemm host {extents:?} by {choice}: {ours:?} a call, of which a choice with its name {chosen:?}; cuBLASLt {rival:?}"
        );
    }
    Ok(())
}

/// The host's time for a call, the least of some measurements.
fn quickest_call(stream: &Stream, mut call: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        stream.synchronize()?;
        let start = Instant::now();
        (0..CALLS).try_for_each(|_| call())?;
        best = best.min(start.elapsed() / CALLS);
    }
    Ok(best)
}
