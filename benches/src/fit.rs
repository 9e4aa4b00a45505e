//! Fits the times by which `ptx_kernels::gemm` chooses to the records of `--records`: a random search in the direction of choices that take
//! less time.

use ptx_kernels::gemm::tuning::{Costs, NAMES, SHIPPED, Trial};
use ptx_launch::{Error, Records, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// SMs of the H100 or H200 that the records come from.
const MULTIPROCESSORS: u32 = 132;
/// Steps of the search.
const STEPS: u32 = 10_000;
/// The time of any launch, in picoseconds.
const LAUNCH: f64 = 4.3e6;
/// The temperature of the search at its start.
const WARMTH: f64 = 0.0004;

/// The weight of the square of a time's distance from that of `SHIPPED`, as logarithms: what the data leaves open stays.
const INERTIA: f64 = 2e-4;

/// A measured way to make a product.
struct Measured {
    trial: Trial,
    /// In picoseconds.
    time: f64,
}

/// The products, each with all that was measured.
type Products = Vec<Vec<Measured>>;

/// The fitted times as the source of `SHIPPED`, and the quality of the choices that follow from them.
pub fn fit(files: &[PathBuf]) -> Result<String> {
    let products = read(files)?;
    if products.is_empty() {
        return Err(Error::other("the records have no products"));
    }
    let before = Quality::of(&products, &SHIPPED);
    let costs = search(&products);
    let after = Quality::of(&products, &costs);
    Ok(format!(
        "{}// Of {} products, by the share of the best time: {:.4} (least {:.3}) before, {:.4} (least {:.3}) after.\n",
        source(&costs),
        products.len(),
        before.mean,
        before.least,
        after.mean,
        after.least
    ))
}

fn read(files: &[PathBuf]) -> Result<Products> {
    let mut products = BTreeMap::<String, Vec<Measured>>::new();
    for file in files {
        for (problem, record) in Records::load(file)?.iter() {
            if let Some((product, trial)) = parse(problem) {
                let time = record.time.as_secs_f64() * 1e12;
                products.entry(product).or_default().push(Measured { trial, time });
            }
        }
    }
    Ok(products.into_values().collect())
}

/// `bf16 16 4096 4096 k: wgmma_bf16_few16_kk/2`.
fn parse(problem: &str) -> Option<(String, Trial)> {
    let (product, way) = problem.split_once(": ")?;
    let (name, splits) = way.split_once('/')?;
    let mut words = product.split(' ');
    let kind = words.next()?;
    let mut extent = || words.next()?.parse().ok();
    let shape = [extent()?, extent()?, extent()?];
    let way = (name, splits.parse().ok()?);
    Some((product.to_owned(), Trial::new(kind, shape, words.next()? == "k", way, MULTIPROCESSORS)?))
}

/// The quality of the choices by some costs: shares of the best times, and the objective of the fit.
struct Quality {
    mean: f64,
    least: f64,
    objective: f64,
}

impl Quality {
    /// The objective is the mean logarithm of the time that is lost; the square of it, so that no product loses much; and the square of the
    /// model's error for all that takes less than twice the best time.
    fn of(products: &Products, costs: &Costs) -> Quality {
        let (mut lost, mut squares, mut error, mut close, mut least) = (0.0, 0.0, 0.0, 0u32, 1.0f64);
        for ways in products {
            let best = ways.iter().map(|way| way.time).fold(f64::INFINITY, f64::min);
            let mut chosen = (f64::INFINITY, best);
            for Measured { trial, time } in ways {
                let model = f64::from(trial.time(costs));
                if model < chosen.0 {
                    chosen = (model, *time);
                }
                if *time < 2.0 * best {
                    error += ((model + LAUNCH) / time).ln().powi(2);
                    close += 1;
                }
            }
            let log = (chosen.1 / best).ln();
            (lost, squares, least) = (lost + log, squares + log * log, least.min(best / chosen.1));
        }
        let count = products.len() as f64;
        let mean = lost / count;
        let objective = mean + 0.05 * squares / count + 0.1 * error / f64::from(close.max(1));
        Quality { mean: (-mean).exp(), least, objective }
    }
}

/// Simulated annealing: a step multiplies one to three times by random factors.
fn search(products: &Products) -> Costs {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut values = SHIPPED.values().iter().map(|value| f64::from(value.max(1e-3))).collect::<Vec<_>>();
    let first = values.clone();
    let objective_of = |values: &[f64]| {
        let far = values.iter().zip(&first).map(|(value, first)| (value / first).ln().powi(2)).sum::<f64>();
        Quality::of(products, &costs_of(values)).objective + INERTIA * far
    };
    let mut now = objective_of(&values);
    let mut best = (now, values.clone());
    for step in 0..STEPS {
        let mut next = values.clone();
        for _ in 0..[1, 1, 1, 2, 3][random.below(5)] {
            let (at, width) = (random.below(next.len()), [0.05, 0.2, 0.4][random.below(3)]);
            next[at] *= (random.normal() * width).exp();
        }
        let objective = objective_of(&next);
        let warmth = WARMTH * (1.0 - f64::from(step) / f64::from(STEPS)) + 1e-9;
        if objective < now || random.unit() < ((now - objective) / warmth).exp() {
            (now, values) = (objective, next);
            if now < best.0 {
                best = (now, values.clone());
            }
        }
    }
    costs_of(&best.1)
}

fn costs_of(values: &[f64]) -> Costs {
    SHIPPED.with_values(&values.iter().map(|value| *value as f32).collect::<Vec<_>>())
}

/// The body of `SHIPPED`.
fn source(costs: &Costs) -> String {
    let mut text = "    tiles: [\n".to_owned();
    for (tile, name) in costs.tiles.iter().zip(NAMES) {
        let [slice, latency, start, part] = [tile.slice, tile.latency, tile.tile, tile.part].map(rounded);
        let _ = writeln!(text, "        cost({slice}, {latency}, {start}, {part}), // {name}");
    }
    text += "    ],\n";
    let Costs { pack, copied_byte, reduce, reduce_inside, part_byte, byte, ragged, line, .. } = *costs;
    let Costs { column, column_latency, column_round, hopper, .. } = *costs;
    let others = [
        ("pack", pack),
        ("copied_byte", copied_byte),
        ("reduce", reduce),
        ("reduce_inside", reduce_inside),
        ("part_byte", part_byte),
        ("byte", byte),
        ("ragged", ragged),
        ("line", line),
        ("column", column),
        ("column_latency", column_latency),
        ("column_round", column_round),
        ("hopper", hopper),
    ];
    for (name, value) in others {
        let _ = writeln!(text, "    {name}: {},", rounded(value));
    }
    text
}

/// Three digits.
fn rounded(value: f32) -> String {
    if value < 1e4 { format!("{value:.3}") } else { format!("{:.0}e3", value / 1e3) }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    /// Below one.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Of about the normal distribution.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
