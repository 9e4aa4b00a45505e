//! The choice that `Gemm` makes against all of its algorithms, and against cuBLASLt's first choice: random shapes, a cold second-level
//! cache, or those that `--sizes` lists. `--row` times several launches in a row instead; only the first of them finds the cache cold.
//! `--records` keeps every time, for `--fit`.

use super::kind::{self, Kind};
use crate::bench::{Bench, quickest_call};
use crate::data::Factor;
use crate::rivals::cublaslt::{Lt, Plan, Problem};
use ptx_kernels::gemm::{Gemm, algorithms, modules};
use ptx_launch::prelude::*;
use ptx_launch::{Outcome, Records, Result, TensorMut, TensorRef, Timing, Trial, Tuner, Tuning};
use std::cell::RefCell;
use std::time::Duration;

/// Shapes of a run.
const SHAPES: usize = 300;
/// The largest extent.
const LARGEST: usize = 16384;
/// The most multiplications of a shape: a millisecond of the tensor cores.
const WORK: f64 = 3e11;
/// Multiplications from which kernels without tensor cores, and from which those of `mma.sync`, are not tried.
const NO_SIMT: f64 = 3e7;
const NO_MMA: f64 = 2e10;
/// Multiplications from which a launch takes longer than its call, so that launches in a row are timed and not the calls.
const IN_ROW_WORK: f64 = 2e9;
/// The end of a product's name in records of launches in a row.
pub const IN_ROW: &str = " in a row";
/// Parts of K that are tried.
const SPLITS: [u32; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32];
/// The most rows for kernels that load operands without tiles.
const FEW_ROWS: usize = 8;
/// The contests of which the products of a type have the time.
const CONTESTS: u32 = 10;
/// Launches of each way. The fastest of many has been lucky, too, so the choice, the rival and the fastest few then take more turns.
const TURNS: u32 = 3;
const FINAL_TURNS: u32 = 9;
const FINALISTS: usize = 3;

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
    /// `bf16 16 4096 4096 k`: the type, M, N, K, and the dimension along which B is dense.
    fn name(&self, kind: &str) -> String {
        let [m, n, k] = self.extents;
        format!("{kind} {m} {n} {k} {}", if self.b_k_major { "k" } else { "n" })
    }

    /// Multiplications.
    fn work(&self) -> f64 {
        self.extents.iter().map(|extent| *extent as f64).product()
    }

    /// The shape that `--sizes 4096x512x1000n` lists: M, N, K, and the dimension along which B is dense, K if none is named.
    fn listed(size: &str) -> Option<Shape> {
        let (extents, b_k_major) = match size.strip_suffix('n') {
            Some(extents) => (extents, false),
            None => (size.trim_end_matches('k'), true),
        };
        let extents: Vec<usize> = extents.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
        let extents: [usize; 3] = extents.try_into().ok()?;
        extents.iter().all(|extent| (1..=LARGEST).contains(extent)).then_some(Shape { extents, b_k_major })
    }

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
}

impl<K: Kind> Memory<K> {
    fn new(device: &Device, [a, b, c]: [usize; 3]) -> Result<Memory<K>> {
        Ok(Memory { a: device.zeros(a)?, b: device.zeros(b)?, c: device.zeros(c)? })
    }

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

    /// A way to multiply.
    fn launch(&mut self, stream: &Stream, shape: Shape, way: &Way<'_>) -> Result<()> {
        match way {
            Way::Chosen => self.multiply(stream, shape, None),
            Way::Named(name, splits) => self.multiply(stream, shape, Some((name, *splits))),
            Way::Rival(plan) => plan.launch(stream),
        }
    }
}

/// A way to multiply: the library's choice, an algorithm with K in so many parts, or cuBLASLt's.
#[derive(Clone, Copy)]
enum Way<'a> {
    Chosen,
    Named(&'static str, u32),
    Rival(&'a Plan),
}

impl Way<'_> {
    /// True for kernels of the library that are named.
    fn is_named(&self) -> bool {
        matches!(self, Way::Named(..))
    }
}

fn run<K: Kind>(bench: &mut Bench) -> Result<()> {
    let kernel = format!("gemm choice {}", K::NAME);
    let listed: Vec<Shape> = bench.options.sizes.iter().filter_map(|size| Shape::listed(size)).collect();
    let is_wanted = |bench: &mut Bench| {
        let is_listed = !listed.is_empty() && !bench.budget.is_counting;
        is_listed || listed.is_empty() && bench.wants_share(&kernel, "random", CONTESTS)
    };
    if !bench.device.is_cuda() || !is_wanted(bench) {
        return Ok(());
    }
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let mut memory = Memory::<K>::new(&device, [LARGEST * LARGEST; 3])?;
    K::Stored::draw(&stream, &mut memory.a, bench.seed())?;
    K::Stored::draw(&stream, &mut memory.b, bench.seed())?;
    let lt = Lt::open(&device);
    // Neighboring seeds have shapes of their own.
    let mut state = bench.options.seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % below
    };
    let row = bench.options.row;
    let tuner = Tuner::new(&stream).turns(TURNS).batch(row);
    let kernels: Vec<u64> = modules().map(|(_, module)| Records::hash_module(module)).collect();
    let mut records = Records::new();
    let (mut to_best, mut to_rival) = (Vec::new(), Vec::new());
    let random = std::iter::repeat_with(|| Shape::random(&mut next)).take(if listed.is_empty() { SHAPES } else { 0 });
    for shape in listed.into_iter().chain(random) {
        if bench.budget.is_over() || bench.budget.is_share_over() {
            break;
        }
        if row > 1 && shape.work() < IN_ROW_WORK {
            continue;
        }
        let addresses = (memory.a.address(), memory.b.address(), memory.c.address());
        let problem = Problem { shape: shape.extents, operand: K::NUMBER, a_k_major: true, b_k_major: shape.b_k_major };
        let plan = lt.as_ref().ok().and_then(|lt| lt.first_choice(&problem, addresses).ok());
        let mut ways: Vec<(String, Way<'_>)> = vec![("chosen".to_owned(), Way::Chosen)];
        ways.extend(plan.as_ref().map(|plan| ("cuBLASLt".to_owned(), Way::Rival(plan))));
        ways.extend(ways_of(K::NAME, shape));
        let choice = memory.choice(&stream, shape)?;
        let product = shape.name(K::NAME) + if row > 1 { IN_ROW } else { "" };
        let cell = RefCell::new(&mut memory);
        // Tests check results: here memory is reused for all shapes.
        let launch = |stream: &Stream, way: &Way<'_>| cell.borrow_mut().launch(stream, shape, way);
        let found = tuner.search(ways, launch, |_| Ok(true))?;
        let mut keep = |name: &str, time: Duration| {
            records.insert(&device, &kernels, &format!("{product}: {name}"), name, time);
        };
        for trial in &found.trials {
            if let (true, Outcome::Timed(timing)) = (trial.candidate.is_named(), &trial.outcome) {
                keep(&trial.name, timing.min());
            }
        }
        let found = tuner.clone().turns(FINAL_TURNS).search(finalists(found), launch, |_| Ok(true))?;
        // More turns than before.
        for trial in &found.trials {
            if let Outcome::Timed(timing) = &trial.outcome {
                match trial.candidate {
                    Way::Chosen => keep(&choice, timing.min()),
                    Way::Named(..) => keep(&trial.name, timing.min()),
                    Way::Rival(_) => {}
                }
            }
        }
        let times = final_times(&found.trials, &choice);
        let [chosen, best, rival] = times;
        println!("{product} | {choice} {chosen:.2} | best {best:.2} | cuBLASLt {rival:.2}");
        to_best.push(best.min(chosen) / chosen);
        to_rival.extend((rival > 0.0).then_some(rival / chosen));
    }
    let [best, rival] = [summary(&to_best), summary(&to_rival)];
    bench.note(format!("{kernel}: to the best {best}; to cuBLASLt's first choice {rival}"));
    if let Some(path) = &bench.options.records {
        if path.exists() {
            records.extend(Records::load(path)?);
        }
        records.save(path)?;
    }
    Ok(())
}

/// The medians of the choice, of the fastest way, and of the rival, in microseconds. Where the choice is one of the finalists, both were the
/// same launch, and all of its turns count.
fn final_times(trials: &[Trial<Way<'_>>], choice: &str) -> [f64; 3] {
    let is_choice = |trial: &Trial<Way<'_>>| matches!(trial.candidate, Way::Chosen) || trial.name == choice;
    let micros = |trials: &mut dyn Iterator<Item = &Trial<Way<'_>>>| {
        let samples = trials.filter_map(|trial| match &trial.outcome {
            Outcome::Timed(timing) => Some(timing.samples()),
            _ => None,
        });
        Timing::from_samples(samples.flatten().copied().collect()).median().as_secs_f64() * 1e6
    };
    let chosen = micros(&mut trials.iter().filter(|trial| is_choice(trial)));
    let others = trials.iter().filter(|trial| trial.candidate.is_named() && !is_choice(trial));
    let best = others.map(|trial| micros(&mut std::iter::once(trial))).fold(chosen, f64::min);
    let rival = micros(&mut trials.iter().filter(|trial| matches!(trial.candidate, Way::Rival(_))));
    [chosen, best, rival]
}

/// The choice, the rival, and the fastest ones of all others.
fn finalists(found: Tuning<Way<'_>>) -> Vec<(String, Way<'_>)> {
    let timed = found.trials.into_iter().filter_map(|trial| match trial.outcome {
        Outcome::Timed(timing) => Some((timing.min(), trial.name, trial.candidate)),
        _ => None,
    });
    let (mut named, others): (Vec<_>, Vec<_>) = timed.partition(|(.., way)| way.is_named());
    named.sort_by_key(|(time, ..)| *time);
    named.truncate(FINALISTS);
    others.into_iter().chain(named).map(|(_, name, way)| (name, way)).collect()
}

/// The algorithms that may be the best ones for a product, each with K in some numbers of parts.
fn ways_of<'a>(kind: &'static str, shape: Shape) -> impl Iterator<Item = (String, Way<'a>)> {
    algorithms(kind).filter(move |name| is_tried(name, shape)).flat_map(move |name| {
        // A part has at least 64 elements.
        let most = if DIVIDED.contains(&family_of(name)) { (shape.extents[2] / 64).max(1) as u32 } else { 1 };
        SPLITS
            .into_iter()
            .filter(move |splits| *splits <= most)
            .map(move |splits| (format!("{name}/{splits}"), Way::Named(name, splits)))
    })
}

/// The families that take K in parts.
const DIVIDED: [&str; 5] = ["simt", "rows", "runs", "mma", "generic"];

/// The family of an algorithm: the last word of its name.
fn family_of(name: &str) -> &str {
    name.rsplit('_').next().unwrap_or(name)
}

/// True if an algorithm may be the best one.
fn is_tried(name: &str, shape: Shape) -> bool {
    let limit = match family_of(name) {
        "rows" | "runs" if shape.extents[0].min(shape.extents[1]) > FEW_ROWS => 0.0,
        "simt" => NO_SIMT,
        "mma" => NO_MMA,
        _ => f64::INFINITY,
    };
    shape.work() < limit
}

/// `0.98 (least 0.80, of 300)`: the geometric mean.
fn summary(ratios: &[f64]) -> String {
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{mean:.3} (least {least:.3}, of {})", ratios.len())
}

/// The host's time for a call of the library, tensor maps included, beside that of `cublasLtMatmul` with a finished plan, and for a choice.
pub fn host(bench: &mut Bench) -> Result<()> {
    if !bench.device.is_cuda() || !bench.wants("gemm host", "small") {
        return Ok(());
    }
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    for (extents, b_k_major) in [([256, 256, 256], true), ([256, 256, 256], false), ([16, 256, 256], true)] {
        let ([m, n, k], shape) = (extents, Shape { extents, b_k_major });
        let mut memory = Memory::<kind::Bf16>::new(&device, [m * k, n * k, m * n])?;
        let addresses = (memory.a.address(), memory.b.address(), memory.c.address());
        let problem = Problem { shape: extents, operand: kind::Bf16::NUMBER, a_k_major: true, b_k_major };
        let plan = Lt::open(&device).and_then(|lt| lt.first_choice(&problem, addresses));
        let choice = memory.choice(&stream, shape)?;
        let ours = quickest_call(&stream, || memory.multiply(&stream, shape, None))?;
        let chosen = quickest_call(&stream, || memory.choice(&stream, shape).map(|_| ()))?;
        let rival = plan.and_then(|plan| quickest_call(&stream, || plan.launch(&stream)));
        bench.note(format!(
            "gemm host {extents:?} by {choice}: {ours:?} a call, of which a choice with its name {chosen:?}; cuBLASLt {rival:?}"
        ));
    }
    Ok(())
}
