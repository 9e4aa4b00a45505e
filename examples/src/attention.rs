//! Attention for examples and benchmarks: a problem, and its exact rows.

use ptx_launch::prelude::bf16;

/// Sequences of `tokens` tokens with `heads` heads of Q, of which `group` share one of K and V; `dim` elements of a row. Tensors
/// are (batch, tokens, heads, elements).
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Number of sequences.
    pub batch: usize,
    /// Tokens of each sequence.
    pub tokens: usize,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of Q that share one of K and V.
    pub group: usize,
    /// Elements of a row.
    pub dim: usize,
    /// A query sees no key behind its own.
    pub causal: bool,
}

impl Task {
    /// The shape of Q and of the output.
    pub fn shape(&self) -> [usize; 4] {
        [self.batch, self.tokens, self.heads, self.dim]
    }

    /// The shape of K and V.
    pub fn shape_k(&self) -> [usize; 4] {
        [self.batch, self.tokens, self.heads / self.group, self.dim]
    }

    /// Floating-point operations: the products of Q with K and of P with V; half of them if causal.
    pub fn flops(&self) -> f64 {
        let pairs = (self.batch * self.heads) as f64 * (self.tokens as f64).powi(2);
        pairs * (4 * self.dim) as f64 * if self.causal { 0.5 } else { 1.0 }
    }

    /// One row of the output, of all rows of all heads of all tokens, in `f64`.
    pub fn exact_row(&self, [q, k, v]: [&[bf16]; 3], row: usize) -> Vec<f64> {
        let Task { tokens, heads, group, dim, .. } = *self;
        let (token, head, heads_k) = (row / heads, row % heads, heads / group);
        let (sequence, place) = (token / tokens, token % tokens);
        let query: Vec<f64> = q[row * dim..][..dim].iter().map(|q| q.to_f64()).collect();
        let row_of = |at: usize| {
            let from = ((sequence * tokens + at) * heads_k + head / group) * dim;
            from..from + dim
        };
        let seen = if self.causal { place + 1 } else { tokens };
        let product = |at| query.iter().zip(&k[row_of(at)]).map(|(q, k)| q * k.to_f64()).sum::<f64>();
        let scores: Vec<f64> = (0..seen).map(|at| product(at) / (dim as f64).sqrt()).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - top).exp()).sum();
        let mut out = vec![0.0; dim];
        for (at, score) in scores.iter().enumerate() {
            let weight = (score - top).exp() / total;
            out.iter_mut().zip(&v[row_of(at)]).for_each(|(out, v)| *out += weight * v.to_f64());
        }
        out
    }
}
