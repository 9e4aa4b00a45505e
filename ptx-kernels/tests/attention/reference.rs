//! Attention in `f64`, forward and backward, with bounds of the error that rounding to 16 bits explains.

use super::case::{Case, Data};

/// The exact values of one head of one sequence, and what an element may differ by. Matrices are row by row.
pub struct Head {
    pub out: Vec<Bounded>,
    pub lse: Vec<Bounded>,
    pub grad_q: Vec<Bounded>,
    pub grad_k: Vec<Bounded>,
    pub grad_v: Vec<Bounded>,
}

/// A value, and the largest error that is explained.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounded {
    pub value: f64,
    pub error: f64,
}

impl Bounded {
    pub fn add(&mut self, value: f64, error: f64) {
        self.value += value;
        self.error += error;
    }

    /// Adds the rounding of the result itself.
    pub fn rounded(self, unit: f64) -> Bounded {
        Bounded { value: self.value, error: self.error * 1.01 + unit * self.value.abs() + 1e-6 }
    }
}

/// A score: its value, its derivative by the product of Q and K, and its error.
struct Score {
    value: f64,
    slope: f64,
    error: f64,
}

/// One head of one sequence.
pub fn head(case: &Case, data: &Data, sequence: usize, head: usize) -> Head {
    compute(case, data, [sequence, head], true)
}

/// The same without gradients, which take most of the time.
pub fn forward(case: &Case, data: &Data, sequence: usize, head: usize) -> Head {
    compute(case, data, [sequence, head], false)
}

fn compute(case: &Case, data: &Data, [sequence, head]: [usize; 2], gradients: bool) -> Head {
    let (m, n) = (case.queries[sequence], case.keys[sequence]);
    let kv = head / case.group;
    let [q, grad] = [&data.q, &data.grad].map(|field| field.rows(sequence, head, m));
    let [k, v] = [&data.k, &data.v].map(|field| field.rows(sequence, kv, n));
    let mut result = Head {
        out: vec![Bounded::default(); m * case.dim_v],
        lse: Vec::new(),
        grad_q: vec![Bounded::default(); m * case.dim],
        grad_k: vec![Bounded::default(); n * case.dim],
        grad_v: vec![Bounded::default(); n * case.dim_v],
    };
    for i in 0..m {
        let scores: Vec<Option<Score>> =
            (0..n).map(|j| score(case, data, [sequence, head, i, j], &q[i], &k[j])).collect();
        let weights = output(case, &mut result, i, &scores, &v);
        if gradients {
            differentiate(case, &mut result, i, (&scores, &weights), [&q[i], &grad[i]], [&k, &v]);
        }
    }
    result
}

impl Head {
    /// Adds the rounding of the results that belong to one head of Q; dK and dV are sums over several.
    pub fn round(&mut self, unit: f64) {
        for matrix in [&mut self.out, &mut self.grad_q] {
            matrix.iter_mut().for_each(|x| *x = x.rounded(unit));
        }
    }
}

/// The score of a query and a key, if it is seen.
fn score(case: &Case, data: &Data, [sequence, head, i, j]: [usize; 4], q: &[f64], k: &[f64]) -> Option<Score> {
    let (m, n) = (case.queries[sequence] as i64, case.keys[sequence] as i64);
    let own = i as i64 + if case.top_left { 0 } else { n - m };
    let hidden = case.left.is_some_and(|left| (j as i64) < own - i64::from(left))
        || case.right.is_some_and(|right| j as i64 > own + i64::from(right));
    let bias = data.bias_at(sequence, head, i, j);
    if hidden || bias == f64::NEG_INFINITY {
        return None;
    }
    let scale = case.scale.map_or(1.0 / (case.dim as f64).sqrt(), f64::from);
    let dot: f64 = q.iter().zip(k).map(|(q, k)| q * k).sum();
    let size: f64 = q.iter().zip(k).map(|(q, k)| (q * k).abs()).sum();
    let (cap, mut error) = (f64::from(case.cap), (case.dim as f64 * 2f64.powi(-23)).min(2f64.powi(-17)) * size * scale);
    let (mut value, mut slope) = (dot * scale, scale);
    if case.narrow {
        error += narrow_error(q.iter().zip(k).map(|(q, k)| q * k)) * scale;
    }
    if cap > 0.0 {
        let tanh = (value / cap).tanh();
        (value, slope) = (cap * tanh, scale * (1.0 - tanh * tanh));
        error += cap * 2f64.powi(-20);
    }
    value += bias;
    error += value.abs() * 2f64.powi(-21);
    Some(Score { value, slope, error })
}

/// The error of a sum of products of 8 bits by `wgmma`: of each 32 and the sum before, bits 13 places below the largest one are cut off.
fn narrow_error(products: impl Iterator<Item = f64>) -> f64 {
    let products: Vec<f64> = products.collect();
    let (mut sum, mut error) = (0.0, 0.0);
    for step in products.chunks(32) {
        let largest = step.iter().fold(f64::abs(sum), |largest, x| largest.max(x.abs()));
        sum += step.iter().sum::<f64>();
        error += 33.0 * 2f64.powi(-13) * largest.max(sum.abs());
    }
    error
}

/// The weights of a query's keys: values and relative errors, and the error that each has at least.
struct Weights {
    each: Vec<Option<(f64, f64)>>,
    floor: f64,
}

/// Adds a query's output and logarithm.
fn output(case: &Case, result: &mut Head, i: usize, scores: &[Option<Score>], v: &[Vec<f64>]) -> Weights {
    let top = scores.iter().flatten().map(|s| s.value).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().flatten().map(|s| (s.value - top).exp()).sum();
    let worst = scores.iter().flatten().map(|s| s.error).fold(0.0, f64::max);
    let log = if total > 0.0 { top + total.ln() } else { f64::NEG_INFINITY };
    result.lse.push(Bounded { value: log, error: worst + 2f64.powi(-19) * (1.0 + log.abs()) });
    // The relative error of a weight: its rounding, that of its score, that of the approximate exponential.
    let weight_unit = if case.narrow { 2f64.powi(-4) } else { case.unit() };
    let relative = |s: &Score| weight_unit + 2.0 * (s.error + worst) + 2f64.powi(-18);
    let floor = match (case.narrow, case.half) {
        (true, _) => 2f64.powi(-16) / total.max(1.0),
        (false, true) => 2f64.powi(-24),
        (false, false) => 0.0,
    };
    let each: Vec<_> =
        scores.iter().map(|s| s.as_ref().map(|s| ((s.value - top).exp() / total, relative(s)))).collect();
    // Sums of 8-bit products are cut off once for each 32 keys.
    let summed = if case.narrow { (scores.len() / 32 + 8) as f64 * 33.0 * 2f64.powi(-13) } else { 0.0 };
    let out = &mut result.out[i * case.dim_v..][..case.dim_v];
    for (v, weight) in v.iter().zip(&each) {
        let Some((p, relative)) = weight else { continue };
        for (out, v) in out.iter_mut().zip(v) {
            out.add(p * v, (p * relative + floor + p * summed) * v.abs());
        }
    }
    Weights { each, floor }
}

/// Adds a query's part of the gradients.
fn differentiate(
    case: &Case,
    result: &mut Head,
    i: usize,
    (scores, weights): (&[Option<Score>], &Weights),
    [q, grad]: [&[f64]; 2],
    [k, v]: [&[Vec<f64>]; 2],
) {
    let (unit, floor) = (case.unit(), weights.floor);
    let out = &result.out[i * case.dim_v..][..case.dim_v];
    let (delta, delta_error) = out.iter().zip(grad).fold((0.0, 0.0), |(sum, error), (out, grad)| {
        (sum + out.value * grad, error + (out.error + 1.01 * unit * out.value.abs()) * grad.abs())
    });
    for (j, weight) in weights.each.iter().enumerate() {
        let (Some((p, relative)), Some(score)) = (weight, &scores[j]) else { continue };
        let (dp, size) =
            grad.iter().zip(&v[j]).fold((0.0, 0.0), |(sum, size), (g, v)| (sum + g * v, size + (g * v).abs()));
        let ds = p * (dp - delta) * score.slope;
        let ds_error = (p * score.slope * (delta_error + 2f64.powi(-16) * (size + delta.abs()))
            + 2.0 * relative * ds.abs())
            + p * score.slope * (dp - delta).abs() * if case.cap > 0.0 { 1e-5 / (score.slope).max(1e-3) } else { 0.0 }
            + floor * (1.0 + dp.abs() + delta.abs());
        for d in 0..case.dim {
            result.grad_q[i * case.dim + d].add(ds * k[j][d], ds_error * k[j][d].abs());
            result.grad_k[j * case.dim + d].add(ds * q[d], ds_error * q[d].abs());
        }
        let grad_v = &mut result.grad_v[j * case.dim_v..][..case.dim_v];
        for (grad_v, g) in grad_v.iter_mut().zip(grad) {
            grad_v.add(p * g, (p * relative + floor) * g.abs());
        }
    }
}
