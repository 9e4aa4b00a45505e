//! Whole results in `f64`, of small problems: the output and the gradients.

use super::row::Row;
use crate::data::worse;
use ptx_launch::prelude::*;

/// A row of an output in `f64`: of a query against `count` keys and values, whose rows the functions give.
pub fn exact_row<'a>(
    query: &[bf16],
    count: usize,
    scale: f64,
    key: impl Fn(usize) -> &'a [bf16],
    value: impl Fn(usize) -> &'a [bf16],
) -> Vec<f64> {
    let score = |at| query.iter().zip(key(at)).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>() * scale;
    let scores: Vec<f64> = (0..count).map(score).collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
    let mut out = vec![0.0; if count == 0 { 0 } else { value(0).len() }];
    for (at, score) in scores.into_iter().enumerate() {
        let weight = (score - top).exp() / total;
        out.iter_mut().zip(value(at)).for_each(|(out, v)| *out += weight * v.to_f64());
    }
    out
}

/// The output, and the gradients of Q, K and V.
pub type Exact = [Vec<f64>; 4];

/// A tensor (batch, tokens, heads, elements) in `f64`.
struct Rows {
    heads: usize,
    dim: usize,
    values: Vec<f64>,
}

impl Rows {
    fn new(heads: usize, dim: usize, values: &[bf16]) -> Rows {
        Rows { heads, dim, values: values.iter().map(|x| x.to_f64()).collect() }
    }

    fn zeros(&self) -> Rows {
        Rows { values: vec![0.0; self.values.len()], ..*self }
    }

    fn row(&self, token: usize, head: usize) -> &[f64] {
        &self.values[(token * self.heads + head) * self.dim..][..self.dim]
    }

    /// Adds a multiple of a row to one of these.
    fn add(&mut self, token: usize, head: usize, factor: f64, row: &[f64]) {
        let to = &mut self.values[(token * self.heads + head) * self.dim..][..self.dim];
        to.iter_mut().zip(row).for_each(|(to, x)| *to += factor * x);
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// The results of Q, K, V and the gradient of the output.
pub fn exact(row: &Row, [q, k, v, out_grad]: [&[bf16]; 4]) -> Exact {
    let (heads, heads_k) = (row.heads, row.heads / row.group);
    let [q, out_grad] = [q, out_grad].map(|values| Rows::new(heads, row.dim, values));
    let [k, v] = [k, v].map(|values| Rows::new(heads_k, row.dim, values));
    let inputs = [&q, &k, &v, &out_grad];
    let parts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..heads_k).map(|head| scope.spawn(move || heads_of(row, inputs, head))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
    });
    let mut all = [&q, &q, &k, &v].map(|like| like.zeros().values);
    for part in parts {
        // Heads of K have results of their own: elsewhere a part has zeros.
        all.iter_mut().zip(part).for_each(|(all, part)| all.iter_mut().zip(part).for_each(|(all, x)| *all += x));
    }
    all
}

/// The results of one head of K and the heads of Q that share it.
fn heads_of(row: &Row, [q, k, v, out_grad]: [&Rows; 4], head_k: usize) -> Exact {
    let scale = 1.0 / (row.dim as f64).sqrt();
    let [mut out, mut q_grad, mut k_grad, mut v_grad] = [q, q, k, v].map(Rows::zeros);
    let starts = row.starts();
    for (bounds, head) in starts.windows(2).flat_map(|b| (0..row.group).map(move |at| (b, head_k * row.group + at))) {
        let (first, len) = (bounds[0], bounds[1] - bounds[0]);
        for at in 0..len {
            let (token, seen) = (first + at, row.seen(at, len));
            let scores: Vec<f64> =
                seen.clone().map(|key| scale * dot(q.row(token, head), k.row(first + key, head_k))).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
            let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp() / total).collect();
            for (key, weight) in seen.clone().zip(&weights) {
                out.add(token, head, *weight, v.row(first + key, head_k));
            }
            let delta = dot(out.row(token, head), out_grad.row(token, head));
            for (key, weight) in seen.zip(&weights) {
                let key = first + key;
                let slope = weight * scale * (dot(out_grad.row(token, head), v.row(key, head_k)) - delta);
                q_grad.add(token, head, slope, k.row(key, head_k));
                k_grad.add(key, head_k, slope, q.row(token, head));
                v_grad.add(key, head_k, *weight, out_grad.row(token, head));
            }
        }
    }
    [out, q_grad, k_grad, v_grad].map(|rows| rows.values)
}

/// The largest error of a result as a part of the largest exact one; not a number if any element is not.
pub fn largest_error(found: &[bf16], exact: &[f64]) -> f64 {
    let largest = exact.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let errors = found.iter().zip(exact).map(|(found, exact)| (found.to_f64() - exact).abs() / largest);
    errors.fold(0.0, worse)
}
