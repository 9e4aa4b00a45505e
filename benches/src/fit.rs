//! Fits the times by which `ptx_kernels::gemm` chooses to the records of `--records` (`descent`).

mod descent;

use crate::suites::choice::IN_ROW;
use ptx_kernels::gemm::tuning::{Costs, Trial, shipped_for};
use ptx_launch::{Error, Records, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// SMs of the H100 or H200 that the records come from.
const MULTIPROCESSORS: u32 = 132;
/// The time of any launch, in picoseconds: of a single one, and of one of many in a row.
const LAUNCH: f64 = 4.3e6;
const LAUNCH_IN_ROW: f64 = 1.5e6;

/// A measured way to make a product.
struct Measured {
    trial: Trial,
    /// In picoseconds, with that of the launch.
    time: f64,
    launch: f64,
}

impl Measured {
    /// The time by the model, with that of the launch.
    fn model(&self, costs: &Costs) -> f64 {
        f64::from(self.trial.time(costs)) + self.launch
    }
}

/// The least time of the ways to make a product.
fn best_time<'m>(ways: impl IntoIterator<Item = &'m Measured>) -> f64 {
    ways.into_iter().map(|way| way.time).fold(f64::INFINITY, f64::min)
}

/// The products, each with all that was measured.
type Products = Vec<Vec<Measured>>;

/// Bytes of the elements that have times of their own.
const SIZES: [u64; 3] = [2, 4, 1];

/// The fitted times of each size of elements as the source of `gemm::costs`, and the quality of the choices that follow from them.
pub fn fit(files: &[PathBuf]) -> Result<String> {
    let mut text = String::new();
    for size in SIZES {
        let mut products = read(files)?;
        products.retain(|ways| ways.iter().any(|way| way.trial.size() == size));
        if products.is_empty() {
            continue;
        }
        let shipped = shipped_for(size);
        let costs = descent::fit(&products, shipped);
        text += &source(8 * size, &costs);
        text += &comparison(&format!("{} products", products.len()), &products, [shipped, &costs]);
        // A fit that only repeats its products does not gain on others.
        let held_out = products.split_off(products.len() / 2);
        let of_half = descent::fit(&products, shipped);
        text += &comparison("those of the second half, fitted to the first", &held_out, [shipped, &of_half]);
    }
    if text.is_empty() { Err(Error::other("the records have no products")) } else { Ok(text) }
}

/// The quality of the choices by two costs, as a comment.
fn comparison(name: &str, products: &Products, costs: [&Costs; 2]) -> String {
    let [before, after] = costs.map(|costs| Quality::of(products, costs));
    format!(
        "// Of {name}, by the share of the best time: {:.4} (least {:.3}) before, {:.4} (least {:.3}) after.\n",
        before.mean, before.least, after.mean, after.least
    )
}

fn read(files: &[PathBuf]) -> Result<Products> {
    let mut products = BTreeMap::<String, Vec<Measured>>::new();
    for file in files {
        for (problem, record) in Records::load(file)?.iter() {
            if let Some((product, trial)) = parse(problem) {
                let time = record.time.as_secs_f64() * 1e12;
                let launch = if product.ends_with(IN_ROW) { LAUNCH_IN_ROW } else { LAUNCH };
                products.entry(product).or_default().push(Measured { trial, time, launch });
            }
        }
    }
    // In no order, so that a part of them is like the whole.
    let mut products: Vec<_> = products.into_iter().collect();
    products.sort_by_key(|(name, _)| name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte)));
    Ok(products.into_iter().map(|(_, ways)| ways).collect())
}

/// `bf16 16 4096 4096 k: m16n128k64_1x1_kk_generic/2`, or `bf16 16 4096 4096 k in a row: …`.
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

/// The quality of the choices by some costs: shares of the best times.
struct Quality {
    mean: f64,
    least: f64,
}

impl Quality {
    /// Of the ways that the library tries for a product, the one with the least time is chosen.
    fn of(products: &[Vec<Measured>], costs: &Costs) -> Quality {
        let (mut lost, mut least) = (0.0, 1.0f64);
        for ways in products {
            let best = best_time(ways);
            let tried = ways.iter().filter(|way| way.trial.is_tried());
            let chosen = tried.map(|way| (way.model(costs), way.time)).min_by(|one, other| one.0.total_cmp(&other.0));
            let share = chosen.map_or(0.0, |(_, time)| best / time);
            (lost, least) = (lost - share.ln(), least.min(share));
        }
        Quality { mean: (-lost / products.len() as f64).exp(), least }
    }
}

/// The times of operands of so many bits, as `gemm::costs` has them.
fn source(bits: u64, costs: &Costs) -> String {
    let mut text = format!("pub(super) static BITS_{bits}: Costs = Costs {{\n    tiles: Cow::Borrowed(&[\n");
    for cost in costs.tiles.iter() {
        let times = [cost.slice, cost.latency, cost.tile, cost.part].map(rounded).join(", ");
        let _ = writeln!(text, "        Cost::new(\"{}\", [{times}]),", cost.name);
    }
    text += "    ]),\n";
    for (name, value) in Costs::NAMES.iter().zip(&costs.values()[4 * costs.tiles.len()..]) {
        let _ = writeln!(text, "    {name}: {},", rounded(*value));
    }
    text + "};\n"
}

/// Three digits.
fn rounded(value: f32) -> String {
    let digits = |text: String| text.trim_end_matches('0').to_owned();
    let text = if value < 1e4 { digits(format!("{value:.3}")) } else { format!("{:.0}e3", value / 1e3) };
    if text.ends_with('.') { text + "0" } else { text }
}
