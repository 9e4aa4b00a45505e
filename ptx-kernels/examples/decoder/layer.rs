//! A rank's share of the layers, and what it does in one.

use super::{Extents, host};
use half::bf16;
use ptx_kernels::activation::Activation;
use ptx_kernels::attention::Attention;
use ptx_kernels::comm::products::{self, all_gather_gemm, gemm_reduce_scatter};
use ptx_kernels::norm::Norm;
use ptx_kernels::rotary::{Angles, Pairs, Rotary, tables};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMut, TensorRef};
use std::ops::Range;

pub(crate) const EPSILON: f32 = 1e-5;
pub(crate) const BASE: f64 = 10_000.0;

/// Weights of a layer, each N x K: this rank's rows of the first product of each half, its columns of the second one.
struct Layer {
    qkv: Buffer<bf16>,
    out: Buffer<bf16>,
    gate_up: Buffer<bf16>,
    down: Buffer<bf16>,
}

pub(crate) struct Rank {
    extents: Extents,
    ranks: usize,
    rank: usize,
    stream: Stream,
    layers: Vec<Layer>,
    group: products::Rank,
    /// Normalized rows of all ranks.
    rows: Symmetric<bf16>,
    /// Own rows: the residual stream, and what the next norm adds to it.
    residual: Buffer<bf16>,
    sum: Buffer<bf16>,
    /// All rows, own heads: Q, K and V side by side; Q and K rotated; the result of attention.
    qkv: Buffer<bf16>,
    rotated: Buffer<bf16>,
    heads: Buffer<bf16>,
    /// All rows, own inner columns: gate and up side by side; their product.
    gate_up: Buffer<bf16>,
    gated: Buffer<bf16>,
    cos: Buffer<f32>,
    sin: Buffer<f32>,
    positions: Buffer<u32>,
}

impl Rank {
    pub(crate) fn new(
        device: &Device,
        extents: Extents,
        layers: Range<usize>,
        group: products::Rank,
        rows: Symmetric<bf16>,
    ) -> Result<Rank> {
        let Extents { tokens, hidden, inner, .. } = extents;
        let (ranks, rank) = (group.ranks(), group.rank());
        let (own_heads, own_inner) = (hidden / ranks, inner / ranks);
        let zeros = |len: usize| device.zeros::<bf16>(len);
        let (cos, sin) = tables(BASE, extents.dim() / 2, tokens);
        let positions: Vec<u32> = (0..tokens as u32).collect();
        let stream = device.new_stream()?;
        let upload = |layer: usize| -> Result<Layer> {
            let part = |len: usize| rank * len..(rank + 1) * len;
            let of = |which, parts: usize, rows, columns| {
                device.upload(&host::weights(extents, layer, which, parts, rows, columns))
            };
            Ok(Layer {
                qkv: of(host::QKV, 3, part(own_heads), 0..hidden)?,
                out: of(host::OUT, 1, 0..hidden, part(own_heads))?,
                gate_up: of(host::GATE_UP, 2, part(own_inner), 0..hidden)?,
                down: of(host::DOWN, 1, 0..hidden, part(own_inner))?,
            })
        };
        Ok(Rank {
            layers: layers.map(upload).collect::<Result<_>>()?,
            residual: zeros(tokens / ranks * hidden)?,
            sum: zeros(tokens / ranks * hidden)?,
            qkv: zeros(tokens * 3 * own_heads)?,
            rotated: zeros(tokens * 2 * own_heads)?,
            heads: zeros(tokens * own_heads)?,
            gate_up: zeros(tokens * 2 * own_inner)?,
            gated: zeros(tokens * own_inner)?,
            cos: device.upload(&cos)?,
            sin: device.upload(&sin)?,
            positions: device.upload(&positions)?,
            extents,
            ranks,
            rank,
            stream,
            group,
            rows,
        })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Own rows of the residual stream.
    pub(crate) fn residual(&self) -> &Buffer<bf16> {
        &self.residual
    }

    pub(crate) fn residual_mut(&mut self) -> (&Stream, &mut Buffer<bf16>) {
        (&self.stream, &mut self.residual)
    }

    /// Its tokens of a batch.
    pub(crate) fn own_rows(&self) -> Range<usize> {
        let part = self.extents.tokens / self.ranks;
        self.rank * part..(self.rank + 1) * part
    }

    /// Takes its rows of a batch.
    pub(crate) fn begin(&mut self, rows: &[bf16]) -> Result<()> {
        self.residual.write(rows)
    }

    /// Submits all layers of this node.
    pub(crate) fn run(&mut self) -> Result<()> {
        // The first norm has nothing to add.
        self.stream.fill(&mut self.sum, bf16::ZERO)?;
        for layer in 0..self.layers.len() {
            self.attend(layer)?;
            self.transform(layer)?;
        }
        self.normalize()
    }

    /// Adds the sum of the last half to the residual stream, and normalizes it into this rank's part of the rows.
    fn normalize(&mut self) -> Result<()> {
        let shape = [self.extents.tokens / self.ranks, self.extents.hidden];
        let part = shape[0] * shape[1];
        let own = self.rank * part..(self.rank + 1) * part;
        let (x, mut out) = (self.sum.tile(shape)?, self.rows.slice_mut(own)?);
        Norm::rms(EPSILON).residual(self.residual.tile_mut(shape)?).forward(&self.stream, x, out.tile_mut(shape)?)
    }

    fn attend(&mut self, layer: usize) -> Result<()> {
        let Extents { tokens, hidden, .. } = self.extents;
        let (own, dim) = (hidden / self.ranks, self.extents.dim());
        let heads = own / dim;
        self.normalize()?;
        let weights = TensorRef::strided(&self.layers[layer].qkv, [hidden, 3 * own], [1, hidden])?;
        let out = self.qkv.tile_mut([tokens, 3 * own])?;
        all_gather_gemm(&self.stream, &mut self.group, &mut self.rows, weights, out)?;

        let angles = Angles {
            cos: self.cos.tile([tokens, dim / 2])?.into(),
            sin: self.sin.tile([tokens, dim / 2])?.into(),
            positions: self.positions.tile([tokens])?.into(),
        };
        let q_and_k = TensorRef::strided(&self.qkv, [tokens, 2 * heads, dim], [3 * own, dim, 1])?;
        let out = self.rotated.tile_mut([tokens, 2 * heads, dim])?;
        Rotary::new(Pairs::Halves).apply(&self.stream, &angles, q_and_k, out)?;

        let (v, k) = (self.qkv.slice(2 * own..)?, self.rotated.slice(own..)?);
        let shape = [1, tokens, heads, dim];
        let q = TensorRef::strided(&self.rotated, shape, [2 * own * tokens, 2 * own, dim, 1])?;
        let k = TensorRef::strided(k, shape, [2 * own * tokens, 2 * own, dim, 1])?;
        let v = TensorRef::strided(v, shape, [3 * own * tokens, 3 * own, dim, 1])?;
        Attention::new().causal().forward(&self.stream, q, k, v, self.heads.tile_mut(shape)?)?;

        let a = self.heads.tile([tokens, own])?;
        let weights = TensorRef::strided(&self.layers[layer].out, [own, hidden], [1, own])?;
        let out = self.sum.tile_mut([tokens / self.ranks, hidden])?;
        gemm_reduce_scatter(&self.stream, &mut self.group, a, weights, out)
    }

    fn transform(&mut self, layer: usize) -> Result<()> {
        let Extents { tokens, hidden, inner, .. } = self.extents;
        let own = inner / self.ranks;
        self.normalize()?;
        let weights = TensorRef::strided(&self.layers[layer].gate_up, [hidden, 2 * own], [1, hidden])?;
        let out = self.gate_up.tile_mut([tokens, 2 * own])?;
        all_gather_gemm(&self.stream, &mut self.group, &mut self.rows, weights, out)?;

        let up = self.gate_up.slice(own..)?;
        let gate = TensorRef::strided(&self.gate_up, [tokens, own], [2 * own, 1])?;
        let up = TensorRef::strided(up, [tokens, own], [2 * own, 1])?;
        Activation::Silu.gate(&self.stream, gate, up, self.gated.tile_mut([tokens, own])?)?;

        let a = self.gated.tile([tokens, own])?;
        let weights = TensorRef::strided(&self.layers[layer].down, [own, hidden], [1, own])?;
        let out = TensorMut::strided(&mut self.sum, [tokens / self.ranks, hidden], [hidden, 1])?;
        gemm_reduce_scatter(&self.stream, &mut self.group, a, weights, out)
    }
}

/// Prints the time of the layers of this node, in a graph of each rank.
pub(crate) fn measure(rank: &mut Rank, thread: &RankThread<'_>) -> Result<()> {
    let stream = rank.stream.clone();
    let graph = stream.capture(|_| rank.run())?;
    thread.meet()?;
    let timing = Timer::new().warm_up(3).runs(15).measure(&stream, || graph.launch())?;
    thread.finish(&stream)?;
    let Extents { tokens, hidden, inner, .. } = rank.extents;
    // Of attention, causality leaves half.
    let work = 2 * tokens * hidden * (4 * hidden + 3 * inner) + 2 * tokens * tokens * hidden;
    let each = timing.median().as_secs_f64() / rank.layers.len() as f64;
    let rate = work as f64 / rank.ranks as f64 / each / 1e12;
    println!("rank {} of {}: {:.3} ms for a layer, {rate:.0} TFLOP/s", rank.rank, rank.ranks, each * 1e3);
    Ok(())
}
