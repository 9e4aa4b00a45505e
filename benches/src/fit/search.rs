//! A search for times by which the choices are better.

use super::random::Random;
use super::{Measured, NEAR, Products, Quality, best_time};
use ptx_kernels::gemm::tuning::Costs;

const STEPS: u32 = 10_000;
/// The temperature at its start.
const WARMTH: f64 = 0.0004;

/// The weight of the square of a time's distance from where it began, as logarithms: what the data leaves open stays.
const INERTIA: f64 = 2e-4;

/// Ways whose time by the model is this many times the least one are not chosen by costs that are near, unless they are fast.
const FAR: f32 = 2.5;

/// Without the ways that no step can make the choice.
fn near_the_choice(products: &Products, from: &Costs) -> Products {
    let near = |ways: &Vec<Measured>| {
        let best = best_time(ways);
        let least = ways.iter().map(|way| way.trial.time(from)).fold(f32::INFINITY, f32::min);
        let is_near = |way: &&Measured| way.time < NEAR * best || way.trial.time(from) < FAR * least;
        ways.iter().filter(is_near).cloned().collect()
    };
    products.iter().map(near).collect()
}

/// Simulated annealing: a step multiplies one to three times by random factors.
pub fn fit(products: &Products, from: &Costs) -> Costs {
    let products = &near_the_choice(products, from);
    let costs_of =
        |values: &[f64]| from.clone().with_values(&values.iter().map(|value| *value as f32).collect::<Vec<_>>());
    let mut random = Random::new();
    let mut values = from.values().iter().map(|value| f64::from(value.max(1e-3))).collect::<Vec<_>>();
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
