//! One row of the tables: shapes and options, floating-point operations, exact rows, and the same problem for FlashAttention-3.

use super::exact::exact_row;
use crate::data;
use crate::rivals::fa3;
use ptx_examples::relative_error;
use ptx_kernels::attention::Attention;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::fmt;
use std::ops::Range;

/// Attention of a batch. Tensors are (batch, tokens, heads, elements); of packed sequences the batch is one row of all tokens.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of sequences.
    pub batch: usize,
    /// Heads of Q, and how many of them share one of K and V.
    pub heads: usize,
    pub group: usize,
    /// Tokens of a sequence, or on average if they are packed.
    pub tokens: usize,
    /// Elements of a row.
    pub dim: usize,
    /// A query sees no key behind its own, and `window` keys before it.
    pub causal: bool,
    pub window: Option<usize>,
    /// Sequences of different lengths, one behind the other.
    pub packed: bool,
    /// Scores have a bias, one for all sequences.
    pub bias: bool,
    /// Scores grow by this number for each 128 keys from the last one to the first, the order in which our kernels and FlashAttention-3 take
    /// them.
    pub growth: u32,
}

/// The sizes of the tables, then head size 256, grouped heads, a window, sequences of different lengths, and all of these.
pub const ROWS: &[Row] = &[
    Row::new(4, 32, 4096, 64),
    Row::new(4, 32, 4096, 64).causal(),
    Row::new(1, 32, 16384, 64),
    Row::new(1, 32, 16384, 64).causal(),
    Row::new(4, 16, 4096, 128),
    Row::new(4, 16, 4096, 128).causal(),
    Row::new(1, 16, 16384, 128),
    Row::new(1, 16, 16384, 128).causal(),
    Row::new(4, 8, 4096, 256),
    Row::new(4, 8, 4096, 256).causal(),
    Row { group: 4, ..Row::new(4, 32, 4096, 128).causal() },
    Row { window: Some(4096), ..Row::new(1, 16, 16384, 128).causal() },
    Row { packed: true, ..Row::new(8, 16, 2048, 128) },
    Row { packed: true, ..Row::new(8, 16, 2048, 128).causal() },
    Row { packed: true, group: 4, window: Some(4096), ..Row::new(4, 32, 8192, 256).causal() },
];

/// Scores with a bias.
pub const BIASED: &[Row] = &[
    Row { bias: true, ..Row::new(4, 32, 4096, 64) },
    Row { bias: true, ..Row::new(4, 32, 4096, 64).causal() },
    Row { bias: true, ..Row::new(4, 16, 4096, 128) },
    Row { bias: true, ..Row::new(4, 16, 4096, 128).causal() },
    Row { bias: true, ..Row::new(4, 8, 4096, 256).causal() },
];

/// Scores that grow, so that every tile of keys has weights that are large beside all earlier ones, or that do not fit 16 bits beside them.
pub const GROWING: &[Row] = &[
    Row { growth: 2, ..Row::new(4, 32, 4096, 64) },
    Row { growth: 20, ..Row::new(4, 32, 4096, 64) },
    Row { growth: 2, ..Row::new(4, 16, 4096, 128) },
    Row { growth: 20, ..Row::new(4, 16, 4096, 128) },
];

/// Number of rows of an output that are compared with the reference.
const COMPARED: usize = 48;

/// For a rehearsal.
pub const SMALL: &[Row] =
    &[Row::new(1, 1, 200, 64), Row { group: 2, window: Some(30), packed: true, ..Row::new(2, 2, 40, 64).causal() }];

impl Row {
    /// As many heads of K and V as of Q, all keys.
    pub const fn new(batch: usize, heads: usize, tokens: usize, dim: usize) -> Row {
        Row { batch, heads, group: 1, tokens, dim, causal: false, window: None, packed: false, bias: false, growth: 0 }
    }

    /// The same, causal.
    pub const fn causal(self) -> Row {
        Row { causal: true, ..self }
    }

    /// The shape of Q and the output for `heads` heads.
    fn shape_of(&self, heads: usize) -> [usize; 4] {
        if self.packed {
            [1, self.batch * self.tokens, heads, self.dim]
        } else {
            [self.batch, self.tokens, heads, self.dim]
        }
    }

    /// The shape of Q and the output.
    pub fn shape(&self) -> [usize; 4] {
        self.shape_of(self.heads)
    }

    /// The shape of K and V.
    pub fn shape_k(&self) -> [usize; 4] {
        self.shape_of(self.heads / self.group)
    }

    /// The shape of the bias, and its strides in one of a sequence.
    pub fn shape_bias(&self) -> [[usize; 4]; 2] {
        let Row { batch, heads, tokens, .. } = *self;
        [[batch, heads, tokens, tokens], [0, tokens * tokens, tokens, 1]]
    }

    /// The shape of the logarithms.
    pub fn shape_lse(&self) -> [usize; 3] {
        let [batch, tokens, heads, _] = self.shape();
        [batch, heads, tokens]
    }

    /// Cumulative lengths: packed sequences grow evenly.
    pub fn starts(&self) -> Vec<usize> {
        let (batch, total) = (self.batch, self.batch * self.tokens);
        if !self.packed {
            return (0..=batch).map(|at| at * self.tokens).collect();
        }
        (0..=batch).map(|at| total * at * (at + 1) / (batch * (batch + 1))).collect()
    }

    /// Tokens of the longest sequence.
    pub fn longest(&self) -> usize {
        self.starts().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// The keys that query `at` of a sequence of `len` tokens sees.
    pub fn seen(&self, at: usize, len: usize) -> Range<usize> {
        let from = self.window.map_or(0, |window| at.saturating_sub(window));
        from..if self.causal { at + 1 } else { len }
    }

    /// Floating-point operations of the two products.
    pub fn flops(&self) -> f64 {
        let pairs = |len: usize| (0..len).map(|at| self.seen(at, len).len() as f64).sum::<f64>();
        let all: f64 = self.starts().windows(2).map(|pair| pairs(pair[1] - pair[0])).sum();
        all * (4 * self.heads * self.dim) as f64
    }

    /// The options of the library. `starts` are the cumulative lengths on the device.
    pub fn options<'a>(&self, starts: &'a Buffer<i32>) -> Result<Attention<'a, bf16>> {
        let mut options = Attention::new().window(self.window.map(|window| window as u32), self.causal.then_some(0));
        if self.packed {
            let (tile, longest) = (starts.tile([self.batch + 1])?, self.longest() as u32);
            options = options.lengths(tile, tile, longest, longest);
        }
        Ok(options)
    }

    /// The same problem for FlashAttention-3, on Q, K, V, the output and the logarithms.
    pub fn problem(&self, tensors: [u64; 4], lse: u64, starts: u64) -> fa3::Problem {
        let strides = |[_, tokens, heads, dim]: [usize; 4]| [tokens * heads * dim, heads * dim, dim].map(|x| x as i64);
        let (q, k) = (strides(self.shape()), strides(self.shape_k()));
        let (longest, total) = (self.longest() as i32, (self.batch * self.tokens) as i32);
        fa3::Problem {
            dims: [self.dim as i32; 2],
            counts: [self.batch, self.heads, self.heads / self.group].map(|count| count as i32),
            tokens: [longest; 2],
            causal: i32::from(self.causal && self.window.is_none()),
            window: [self.window.map_or(-1, |window| window as i32), if self.causal { 0 } else { -1 }],
            scale: 1.0 / (self.dim as f32).sqrt(),
            tensors,
            lse,
            strides: [q, k, k, q],
            starts: [if self.packed { starts } else { 0 }; 2],
            totals: [total; 2],
            ..fa3::Problem::default()
        }
    }

    /// Makes the scores of normal queries and keys grow, if they do: in the first element of each row. Sequences are not packed.
    pub fn grow(&self, q: &mut Buffer<bf16>, k: &mut Buffer<bf16>) -> Result<()> {
        if self.growth == 0 {
            return Ok(());
        }
        let heads_k = self.heads / self.group;
        let (mut queries, mut keys) = (q.download()?, k.download()?);
        for query in queries.chunks_mut(self.dim) {
            query[0] = bf16::from_f32((self.dim as f32).sqrt());
        }
        for (row, key) in keys.chunks_mut(self.dim).enumerate() {
            let token = row / heads_k % self.tokens;
            key[0] = bf16::from_f32((self.growth as usize * (self.tokens - 1 - token)) as f32 / 128.0);
        }
        q.write(&queries)?;
        k.write(&keys)
    }

    /// Error of some rows of an output against the reference; NaN if any element is NaN.
    pub fn error(&self, stream: &Stream, operands: [&[bf16]; 3], out: &Buffer<bf16>) -> Result<f64> {
        if data::error(stream, out, out)?.is_nan() {
            return Ok(f64::NAN);
        }
        let (dim, rows) = (self.dim, self.batch * self.tokens * self.heads);
        let mut worst: f64 = 0.0;
        for at in 0..COMPARED {
            let place = (rows - 1) * at / (COMPARED - 1);
            let found = out.slice(place * dim..(place + 1) * dim)?.download()?;
            let found: Vec<f32> = found.into_iter().map(bf16::to_f32).collect();
            worst = worst.max(relative_error(&found, self.exact(operands, place)));
        }
        Ok(worst)
    }

    /// One row of the output, of all rows of all heads of all tokens, in `f64`.
    fn exact(&self, [q, k, v]: [&[bf16]; 3], row: usize) -> Vec<f64> {
        let (dim, heads_k) = (self.dim, self.heads / self.group);
        let (token, head) = (row / self.heads, row % self.heads);
        let starts = self.starts();
        let sequence = starts.partition_point(|start| *start <= token) - 1;
        let (first, end) = (starts[sequence], starts[sequence + 1]);
        let seen = self.seen(token - first, end - first);
        let from = |at: usize| ((first + seen.start + at) * heads_k + head / self.group) * dim;
        let (query, scale) = (&q[row * dim..][..dim], (dim as f64).sqrt().recip());
        exact_row(query, seen.len(), scale, |at| &k[from(at)..][..dim], |at| &v[from(at)..][..dim])
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { batch, heads, group, tokens, dim, .. } = *self;
        write!(f, "b{batch} h{heads} n{tokens} d{dim}")?;
        if group > 1 {
            write!(f, " kv{}", heads / group)?;
        }
        if let Some(window) = self.window {
            write!(f, " window {window}")?;
        }
        if self.growth > 0 {
            write!(f, " growth {}", self.growth)?;
        }
        f.write_str(if self.packed { " packed" } else { "" })?;
        f.write_str(if self.bias { " bias" } else { "" })?;
        f.write_str(if self.causal { " causal" } else { "" })
    }
}
