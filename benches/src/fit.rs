//! Fits the times by which `ptx_kernels::gemm` chooses to the records of `--records` (`descent`).

mod descent;

use crate::suites::choice::IN_ROW;
use ptx_kernels::gemm::tuning::{Costs, Dense, Trial, shipped_for};
use ptx_launch::{Error, Records, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{Display, Formatter, Write};
use std::path::PathBuf;

/// SMs of the H100 or H200 that the records come from.
const MULTIPROCESSORS: u32 = 132;
/// The time of any launch, in picoseconds: of a single one, and of one of many in a row.
const LAUNCH: f64 = 4.3e6;
const LAUNCH_IN_ROW: f64 = 1.5e6;
/// The weight of a product in a row beside a single one: programs have as many of them, records one for thirty.
const WEIGHT_IN_ROW: f64 = 5.0;

/// A product with all ways to make it that were measured.
struct Product {
    dense: Dense,
    /// The time of a launch, in picoseconds, which is a part of each way's time.
    launch: f64,
    /// The products that this one stands for in a fit.
    weight: f64,
    ways: Vec<Measured>,
}

/// A measured way, and its time in picoseconds.
struct Measured {
    trial: Trial,
    time: f64,
}

impl Product {
    /// The times of ways by the model, with that of the launch.
    fn models(&self, ways: &[&Measured], costs: &Costs) -> Vec<f64> {
        let estimates = self.dense.estimates(costs);
        ways.iter().map(|way| f64::from(estimates.time(&way.trial)) + self.launch).collect()
    }

    /// The least time.
    fn best_time(&self) -> f64 {
        self.ways.iter().map(|way| way.time).fold(f64::INFINITY, f64::min)
    }
}

/// A type for each table of times.
const KINDS: [&str; 4] = ["bf16", "tf32", "e4m3", "i8"];

/// The fitted times of each table as the source of `gemm::costs`, and the quality of the choices that follow from them.
pub fn fit(files: &[PathBuf]) -> Result<String> {
    let mut text = String::new();
    let mut all = read(files)?;
    for shipped in KINDS.into_iter().filter_map(shipped_for) {
        let is_of = |product: &mut Product| std::ptr::eq(product.dense.costs(), shipped);
        let mut products: Vec<Product> = all.extract_if(.., is_of).collect();
        if products.is_empty() {
            continue;
        }
        let costs = descent::fit(&products, shipped);
        text += &source(&costs);
        text += &comparison(&format!("{} products", products.len()), &products, [shipped, &costs]);
        // A fit that only repeats its products does not gain on others.
        let held_out = products.split_off(products.len() * 4 / 5);
        let of_others = descent::fit(&products, shipped);
        text += &comparison("those of the last fifth, fitted to the others", &held_out, [shipped, &of_others]);
    }
    if text.is_empty() { Err(Error::other("the records have no products")) } else { Ok(text) }
}

/// The quality of the choices by two costs, as a comment.
fn comparison(name: &str, products: &[Product], costs: [&Costs; 2]) -> String {
    let [before, after] = costs.map(|costs| Quality::of(products, costs));
    format!("// Of {name}, by the share of the best time: {before} before, {after} after.\n")
}

fn read(files: &[PathBuf]) -> Result<Vec<Product>> {
    let mut products = BTreeMap::<String, Product>::new();
    for file in files {
        for (problem, record) in Records::load(file)?.iter() {
            let Some((name, (algorithm, splits))) = parse(problem) else { continue };
            let product = match products.entry(name.to_owned()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => match product(name) {
                    Some(product) => new.insert(product),
                    None => continue,
                },
            };
            let time = record.time.as_secs_f64() * 1e12;
            product.ways.extend(product.dense.trial(algorithm, splits).map(|trial| Measured { trial, time }));
        }
    }
    // In no order, so that a part of them is like the whole.
    let mut products: Vec<_> = products.into_iter().filter(|(_, product)| !product.ways.is_empty()).collect();
    products.sort_by_key(|(name, _)| name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte)));
    Ok(products.into_iter().map(|(_, product)| product).collect())
}

/// `bf16 16 4096 4096 k: m16n128k64_1x1_kk_generic/2`, or `bf16 16 4096 4096 k in a row: …`: the product, the algorithm, and the parts of K.
fn parse(problem: &str) -> Option<(&str, (&str, u32))> {
    let (product, way) = problem.split_once(": ")?;
    let (name, splits) = way.split_once('/')?;
    Some((product, (name, splits.parse().ok()?)))
}

/// The product of such a name.
fn product(name: &str) -> Option<Product> {
    let mut words = name.split(' ');
    let kind = words.next()?;
    let mut extent = || words.next()?.parse().ok();
    let shape = [extent()?, extent()?, extent()?];
    let dense = Dense::new(kind, shape, words.next()? == "k", MULTIPROCESSORS)?;
    let (launch, weight) = if name.ends_with(IN_ROW) { (LAUNCH_IN_ROW, WEIGHT_IN_ROW) } else { (LAUNCH, 1.0) };
    Some(Product { dense, launch, weight, ways: Vec::new() })
}

/// The quality of the choices by some costs: shares of the best times.
struct Quality {
    mean: f64,
    least: f64,
    /// Products below [`LOW`].
    low: usize,
}

/// The share of the best time below which a choice is a bad one.
const LOW: f64 = 0.85;

impl Display for Quality {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.4} (least {:.3}; {} below {LOW})", self.mean, self.least, self.low)
    }
}

impl Quality {
    /// Of the ways that the library tries for a product, the one with the least time is chosen.
    fn of(products: &[Product], costs: &Costs) -> Quality {
        let (mut lost, mut least, mut low) = (0.0, 1.0f64, 0);
        for product in products {
            let tried: Vec<&Measured> = product.ways.iter().filter(|way| way.trial.is_tried()).collect();
            let models = product.models(&tried, costs);
            let chosen = tried.iter().zip(models).min_by(|one, other| one.1.total_cmp(&other.1));
            let share = chosen.map_or(0.0, |(way, _)| product.best_time() / way.time);
            (lost, least, low) = (lost - share.ln(), least.min(share), low + usize::from(share < LOW));
        }
        Quality { mean: (-lost / products.len() as f64).exp(), least, low }
    }
}

/// The times as `gemm::costs` has them.
fn source(costs: &Costs) -> String {
    let name = costs.name;
    let mut text =
        format!("pub(super) static {name}: Costs = Costs {{\n    name: \"{name}\",\n    tiles: Cow::Borrowed(&[\n");
    for cost in costs.tiles.iter() {
        let times = [cost.slice, cost.latency, cost.tile, cost.later, cost.part].map(rounded).join(", ");
        let _ = writeln!(text, "        Cost::new(\"{}\", [{times}]),", cost.name);
    }
    text += "    ]),\n";
    for (name, value) in Costs::NAMES.iter().zip(&costs.values()[descent::OWN * costs.tiles.len()..]) {
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
