//! The times by which the choices take the least time, and which are near those of the products: the minimum of a smooth loss, by its gradient.
//!
//! A choice is one of many ways, so that small changes of the times seldom change it, and a search that counts choices repeats its products. The
//! loss takes every way instead, the more often the less time the model has for it: each near miss counts.

use super::{Measured, Product};
use ptx_kernels::gemm::tuning::Costs;

const STEPS: u32 = 150;
/// The width of a step, as the logarithm of a factor. The second half of the steps grows shorter.
const RATE: f64 = 0.03;
/// The difference of the logarithms of two times by which one way is taken 2.7 times as often as another; larger by `WARM` at the first step.
const TEMPERATURE: f64 = 0.012;
const WARM: f64 = 3.0;
/// The weight of the square of what a choice loses, so that no product loses much.
const SQUARES: f64 = 5.0;
/// The weight of the squares of the model's errors, and the largest error that counts.
const ERRORS: f64 = 0.3;
const ERROR: f64 = 0.5;
/// The weight of the square of a factor's logarithm beside the loss of one product: what the data leaves open stays.
const INERTIA: f64 = 0.1;
/// Ways that take this many times the time of the best one, or more, are left out.
const WORTHWHILE: f64 = 3.0;
/// Times of an instance.
pub const OWN: usize = 5;
/// The difference of a logarithm by which derivatives are taken.
const DIFFERENCE: f64 = 0.01;
/// The decay of the means of a derivative and of its square.
const DECAYS: [f64; 2] = [0.9, 0.99];

/// The times at the minimum. A time of zero stays.
pub fn fit(products: &[Product], from: &Costs) -> Costs {
    let times = from.values().len();
    let (mut logs, mut means) = (vec![0.0; times], vec![[0.0; 2]; times]);
    for step in 1..=STEPS {
        let left = f64::from(STEPS - step) / f64::from(STEPS);
        let temperature = TEMPERATURE * (1.0 + (WARM - 1.0) * (2.0 * left - 1.0).max(0.0));
        let slopes = slopes(products, &scaled(from, &logs), temperature);
        for ((log, means), slope) in logs.iter_mut().zip(&mut means).zip(slopes) {
            let slope = slope + 2.0 * INERTIA * *log / products.len() as f64;
            let [mean, square] = [0, 1].map(|at| {
                means[at] = DECAYS[at] * means[at] + (1.0 - DECAYS[at]) * slope.powi(at as i32 + 1);
                means[at] / (1.0 - DECAYS[at].powi(step as i32))
            });
            *log -= RATE * (2.0 * left).min(1.0) * mean / (square.sqrt() + 1e-9);
        }
    }
    scaled(from, &logs)
}

/// The derivatives of the loss by the logarithms of all times.
fn slopes(products: &[Product], costs: &Costs, temperature: f64) -> Vec<f64> {
    let values = costs.values();
    let tiles = costs.tiles.len();
    // One time is larger: that of each instance, or a shared one.
    let larger = (0..OWN).map(|time| (0..tiles).map(|tile| OWN * tile + time).collect::<Vec<_>>());
    let larger = larger.chain((OWN * tiles..values.len()).map(|time| vec![time])).map(|times| {
        let mut logs = vec![0.0; values.len()];
        times.iter().for_each(|time| logs[*time] = DIFFERENCE);
        scaled(costs, &logs)
    });
    let larger: Vec<Costs> = larger.collect();
    let mut slopes = vec![0.0; values.len()];
    let all: f64 = products.iter().map(|product| product.weight).sum();
    for product in products {
        let best = product.best_time();
        // Those near the best one.
        let ways: Vec<&Measured> = product.ways.iter().filter(|way| way.time < WORTHWHILE * best).collect();
        let logs = |costs| product.models(&ways, costs).into_iter().map(f64::ln);
        let models: Vec<f64> = logs(costs).collect();
        let by_models = by_models(&ways, &models, (best, temperature));
        for (time, costs) in larger.iter().enumerate() {
            for (((way, model), by_model), larger) in ways.iter().zip(&models).zip(&by_models).zip(logs(costs)) {
                let at = if time < OWN { OWN * way.trial.tile() + time } else { OWN * tiles + time - OWN };
                slopes[at] += by_model * (larger - model) / DIFFERENCE * product.weight / all;
            }
        }
    }
    slopes
}

/// The derivatives of a product's loss by the logarithms of its ways' times in the model. The fastest way takes the time `best`.
fn by_models(ways: &[&Measured], models: &[f64], (best, temperature): (f64, f64)) -> Vec<f64> {
    let lost = |way: &Measured| {
        let log = (way.time / best).ln();
        log + SQUARES * log * log
    };
    let least = models.iter().copied().fold(f64::INFINITY, f64::min);
    let often = ways
        .iter()
        .zip(models)
        .map(|(way, model)| if way.trial.is_tried() { ((least - model) / temperature).exp() } else { 0.0 });
    let often: Vec<f64> = often.collect();
    let all = often.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mean = ways.iter().zip(&often).map(|(way, often)| lost(way) * often / all).sum::<f64>();
    let near: Vec<f64> = ways.iter().map(|way| (best / way.time).powi(3)).collect();
    let all_near: f64 = near.iter().sum();
    let choice = ways.iter().zip(&often).map(|(way, often)| (mean - lost(way)) * often / all / temperature);
    let errors = ways.iter().zip(models).zip(&near).map(|((way, model), near)| {
        let error = model - way.time.ln();
        if error.abs() < ERROR { 2.0 * ERRORS * error * near / all_near } else { 0.0 }
    });
    choice.zip(errors).map(|(choice, error)| choice + error).collect()
}

/// The same with other times, by the logarithms of factors.
fn scaled(costs: &Costs, logs: &[f64]) -> Costs {
    let values: Vec<f32> = costs.values().iter().zip(logs).map(|(value, log)| value * log.exp() as f32).collect();
    costs.clone().with_values(&values)
}
