//! The times of each kind of tile, fitted to the products that its kernels made.
//!
//! Single launches wait for memory, and launches in a row for the tensor cores: kernels that are as fast in the former need not be in the
//! latter. The fit takes what records there are as of the same worth.

use super::random::Random;
use super::{Measured, Products, WORTHWHILE, best_time};
use ptx_kernels::gemm::tuning::Costs;

/// Products without which the times of a tile stay.
const FEW: usize = 6;
/// The weight of the square of a time's distance from where it began, as logarithms, beside that of a product's error: what the data leaves
/// open stays.
const INERTIA: f64 = 1.0;
const STEPS: u32 = 400;
/// Widths of the steps.
const WIDTHS: [f64; 3] = [0.2, 0.05, 0.02];
/// The largest error that counts.
const ERROR: f64 = 0.5;

/// A way to make a product, and its weight, which is less the longer it takes beside the best one.
type Weighted<'a> = (&'a Measured, f64);

/// The times that are nearest to those of the products, the same distance below them as all of the times by which the fit begins.
pub fn fit(products: &Products, from: &Costs) -> Costs {
    let ways: Vec<Weighted<'_>> = products.iter().flat_map(|ways| near_the_best(ways)).collect();
    let error = |costs: &Costs, way: &Measured| way.error(f64::from(way.trial.time(costs)));
    let weights: f64 = ways.iter().map(|(_, weight)| weight).sum();
    let bias = ways.iter().map(|(way, weight)| weight * error(from, way)).sum::<f64>() / weights.max(1.0);
    let mut random = Random::new();
    let mut costs = from.clone();
    for kind in 0..from.tiles.len() {
        let own: Vec<_> = ways.iter().filter(|(way, _)| way.trial.tile() == kind).collect();
        if own.len() < FEW {
            continue;
        }
        let objective = |factors: &[f64; 4]| {
            let costs = scaled(from, kind, factors);
            let square =
                |(way, weight): &&Weighted<'_>| weight * (error(&costs, way) - bias).clamp(-ERROR, ERROR).powi(2);
            own.iter().map(square).sum::<f64>() + INERTIA * factors.iter().map(|factor| factor * factor).sum::<f64>()
        };
        let mut best = (objective(&[0.0; 4]), [0.0; 4]);
        for step in 0..STEPS {
            let mut factors = best.1;
            factors[random.below(4)] += random.normal() * WIDTHS[step as usize % WIDTHS.len()];
            let found = objective(&factors);
            if found < best.0 {
                best = (found, factors);
            }
        }
        costs.tiles.to_mut()[kind] = scaled(from, kind, &best.1).tiles[kind];
    }
    costs
}

/// The ways to make a product that are near the best one.
fn near_the_best(ways: &[Measured]) -> impl Iterator<Item = Weighted<'_>> {
    let best = best_time(ways);
    ways.iter().filter(move |way| way.time < WORTHWHILE * best).map(move |way| (way, (best / way.time).powi(3)))
}

/// The same with other times of one kind of tile, by the logarithms of factors.
fn scaled(costs: &Costs, kind: usize, factors: &[f64; 4]) -> Costs {
    let mut values = costs.values();
    values[4 * kind..].iter_mut().zip(factors).for_each(|(time, factor)| *time *= factor.exp() as f32);
    costs.clone().with_values(&values)
}
