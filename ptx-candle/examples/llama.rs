//! A Llama of the shape of Llama-3.2-1B with random weights, with candle's own kernels and with those of `ptx-candle`: the same weights, the same
//! tokens, in turns in one process. It prints tokens per second of prefill and of decode, and the distance of the logits from those of the weights in `f32`.
//!
//! ```sh
//! cargo run --release --features cuda --example llama            # [tokens of the prompt] [tokens to decode]
//! cargo run --release --example llama -- tiny                    # a model of a few thousand weights, on the host
//! ```
//!
//! candle's side calls what `candle_transformers::models::llama` calls. It has two variants of ours: all operations, and all but the linear layers.

use candle_core::{D, DType, Device, Module, Result, Tensor};
use candle_nn::{Linear, ops, rotary_emb};
use ptx_candle::KvCache;
use std::collections::HashMap;
use std::time::Instant;

/// Extents of the model.
#[derive(Clone, Copy)]
struct Config {
    hidden: usize,
    inner: usize,
    layers: usize,
    heads: usize,
    heads_k: usize,
    dim: usize,
    vocabulary: usize,
    capacity: usize,
    dtype: DType,
}

const LLAMA_1B: Config = Config {
    hidden: 2048,
    inner: 8192,
    layers: 16,
    heads: 32,
    heads_k: 8,
    dim: 64,
    vocabulary: 128_256,
    capacity: 4096,
    dtype: DType::BF16,
};
const TINY: Config = Config {
    hidden: 64,
    inner: 96,
    layers: 2,
    heads: 4,
    heads_k: 2,
    dim: 16,
    vocabulary: 100,
    capacity: 64,
    dtype: DType::F16,
};
const EPS: f64 = 1e-5;

/// The weights of a layer. Linear layers have the shape (outputs, inputs).
struct Layer {
    norms: [Tensor; 2],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

struct Model {
    config: Config,
    embeddings: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
}

/// The operations in which the variants differ, and their cache.
trait Operations {
    fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor>;
    fn linear(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor>;
    fn gate(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor>;
    /// Attention of new tokens to themselves and those before: (batch, tokens, heads, dim), queries and keys not yet rotated.
    fn attend(&mut self, layer: usize, qkv: [Tensor; 3]) -> Result<Tensor>;
    /// Forgets all tokens but the first `len`.
    fn truncate(&mut self, len: usize) -> Result<()>;
}

impl Model {
    fn random(config: Config, device: &Device) -> Result<Model> {
        let Config { hidden, inner, heads, heads_k, dim, dtype, .. } = config;
        let weight = |out: usize, from: usize| Tensor::randn(0f32, 0.02, (out, from), device)?.to_dtype(dtype);
        let ones = || Tensor::ones(hidden, dtype, device);
        let layer = |_| {
            Ok(Layer {
                norms: [ones()?, ones()?],
                q: weight(heads * dim, hidden)?,
                k: weight(heads_k * dim, hidden)?,
                v: weight(heads_k * dim, hidden)?,
                out: weight(hidden, heads * dim)?,
                gate: weight(inner, hidden)?,
                up: weight(inner, hidden)?,
                down: weight(hidden, inner)?,
            })
        };
        let layers = (0..config.layers).map(layer).collect::<Result<_>>()?;
        Ok(Model { config, embeddings: weight(config.vocabulary, hidden)?, layers, norm: ones()? })
    }

    /// The same weights in `f32`.
    fn exact(&self) -> Result<Model> {
        let of = |x: &Tensor| x.to_dtype(DType::F32);
        let layer = |l: &Layer| {
            let norms = [of(&l.norms[0])?, of(&l.norms[1])?];
            let (q, k, v, out) = (of(&l.q)?, of(&l.k)?, of(&l.v)?, of(&l.out)?);
            Ok(Layer { norms, q, k, v, out, gate: of(&l.gate)?, up: of(&l.up)?, down: of(&l.down)? })
        };
        let (config, layers) =
            (Config { dtype: DType::F32, ..self.config }, self.layers.iter().map(layer).collect::<Result<_>>()?);
        Ok(Model { config, embeddings: of(&self.embeddings)?, layers, norm: of(&self.norm)? })
    }

    /// The logits of the last token.
    fn forward(&self, ops: &mut dyn Operations, tokens: &Tensor) -> Result<Tensor> {
        let (batch, len) = tokens.dims2()?;
        let Config { heads, heads_k, dim, hidden, .. } = self.config;
        let mut x = self.embeddings.embedding(&tokens.flatten_all()?)?.reshape((batch, len, hidden))?;
        for (number, layer) in self.layers.iter().enumerate() {
            let y = ops.norm(&x, &layer.norms[0])?;
            let project = |weight, heads| ops.linear(&y, weight)?.reshape((batch, len, heads, dim));
            let qkv = [project(&layer.q, heads)?, project(&layer.k, heads_k)?, project(&layer.v, heads_k)?];
            let y = ops.attend(number, qkv)?.reshape((batch, len, heads * dim))?;
            x = (x + ops.linear(&y, &layer.out)?)?;
            let y = ops.norm(&x, &layer.norms[1])?;
            let y = ops.gate(&ops.linear(&y, &layer.gate)?, &ops.linear(&y, &layer.up)?)?;
            x = (x + ops.linear(&y, &layer.down)?)?;
        }
        let x = x.narrow(1, len - 1, 1)?.contiguous()?;
        ops.linear(&ops.norm(&x, &self.norm)?, &self.embeddings)
    }
}

/// Cosines and sines, (positions, dim / 2).
fn tables(config: Config, device: &Device) -> Result<(Tensor, Tensor)> {
    let (cos, sin) = ptx_kernels::rotary::tables(500_000.0, config.dim / 2, config.capacity);
    let shape = (config.capacity, config.dim / 2);
    Ok((Tensor::from_vec(cos, shape, device)?, Tensor::from_vec(sin, shape, device)?))
}

/// candle's kernels.
struct Theirs {
    cos: Tensor,
    sin: Tensor,
    cache: Vec<Option<(Tensor, Tensor)>>,
    /// Masks by the numbers of tokens and of keys.
    masks: HashMap<(usize, usize), Tensor>,
}

impl Theirs {
    fn mask(&mut self, len: usize, start: usize, device: &Device) -> Result<Tensor> {
        if let Some(mask) = self.masks.get(&(len, start + len)) {
            return Ok(mask.clone());
        }
        let mask: Vec<u8> = (0..len).flat_map(|i| (0..start + len).map(move |j| u8::from(j > i + start))).collect();
        let mask = Tensor::from_vec(mask, (len, start + len), device)?;
        self.masks.insert((len, start + len), mask.clone());
        Ok(mask)
    }
}

impl Operations for Theirs {
    fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        ops::rms_norm(x, weight, EPS as f32)
    }

    fn linear(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        Linear::new(weight.clone(), None).forward(x)
    }

    fn gate(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        ops::silu(gate)? * up
    }

    fn attend(&mut self, layer: usize, qkv: [Tensor; 3]) -> Result<Tensor> {
        let [q, k, v] = qkv.map(|x| x.transpose(1, 2));
        let (q, k, mut v) = (q?.contiguous()?, k?.contiguous()?, v?);
        let start = self.cache[layer].as_ref().map_or(Ok(0), |(k, _)| k.dim(2))?;
        let (len, dtype, dim) = (q.dim(2)?, q.dtype(), q.dim(3)?);
        let (cos, sin) = (self.cos.narrow(0, start, len)?, self.sin.narrow(0, start, len)?);
        let (q, mut k) = (rotary_emb::rope(&q, &cos, &sin)?, rotary_emb::rope(&k, &cos, &sin)?);
        if let Some((old_k, old_v)) = &self.cache[layer] {
            k = Tensor::cat(&[old_k, &k], 2)?.contiguous()?;
            v = Tensor::cat(&[old_v, &v], 2)?.contiguous()?;
        }
        self.cache[layer] = Some((k.clone(), v.clone()));
        let groups = q.dim(1)? / k.dim(1)?;
        let repeat = |x: Tensor| {
            let (batch, heads, len, dim) = x.dims4()?;
            Tensor::cat(&vec![&x; groups], 2)?.reshape((batch, heads * groups, len, dim))?.to_dtype(DType::F32)
        };
        let (k, v) = (repeat(k)?, repeat(v)?);
        let mut scores = (q.to_dtype(DType::F32)?.matmul(&k.t()?)? / (dim as f64).sqrt())?;
        if len > 1 {
            let mask = self.mask(len, start, q.device())?.broadcast_as(scores.shape())?;
            let hidden = Tensor::new(f32::NEG_INFINITY, q.device())?.broadcast_as(scores.shape())?;
            scores = mask.where_cond(&hidden, &scores)?;
        }
        ops::softmax_last_dim(&scores)?.matmul(&v.contiguous()?)?.to_dtype(dtype)?.transpose(1, 2)?.contiguous()
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        for cache in &mut self.cache {
            *cache = match cache {
                Some((k, v)) if len > 0 => {
                    Some((k.narrow(2, 0, len)?.contiguous()?, v.narrow(2, 0, len)?.contiguous()?))
                }
                _ => None,
            };
        }
        Ok(())
    }
}

/// The kernels of `ptx-candle`, with candle's matrix products or its own.
struct Ours {
    cos: Tensor,
    sin: Tensor,
    positions: Tensor,
    cache: Vec<KvCache>,
    linear: bool,
}

impl Operations for Ours {
    fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        ptx_candle::rms_norm(x, weight, EPS)
    }

    fn linear(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        if self.linear { ptx_candle::linear(x, weight, None) } else { Linear::new(weight.clone(), None).forward(x) }
    }

    fn gate(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        ptx_candle::swiglu(gate, up)
    }

    fn attend(&mut self, layer: usize, [q, k, v]: [Tensor; 3]) -> Result<Tensor> {
        let cache = &mut self.cache[layer];
        let positions = self.positions.narrow(0, cache.len(), q.dim(1)?)?;
        let rotate = |x: &Tensor| ptx_candle::rotary(x, &self.cos, &self.sin, &positions);
        let scale = 1.0 / (q.dim(D::Minus1)? as f32).sqrt();
        cache.attend(&rotate(&q)?, &rotate(&k)?, &v, scale)
    }

    fn truncate(&mut self, len: usize) -> Result<()> {
        self.cache.iter_mut().for_each(|cache| cache.truncate(len));
        Ok(())
    }
}

fn theirs(config: Config, device: &Device) -> Result<Box<dyn Operations>> {
    let (cos, sin) = tables(config, device)?;
    let (cos, sin) = (cos.to_dtype(config.dtype)?, sin.to_dtype(config.dtype)?);
    Ok(Box::new(Theirs { cos, sin, cache: vec![None; config.layers], masks: HashMap::new() }))
}

fn ours(config: Config, device: &Device, linear: bool) -> Result<Box<dyn Operations>> {
    let (cos, sin) = tables(config, device)?;
    let shape = (1, config.capacity, config.heads_k, config.dim);
    let cache = (0..config.layers).map(|_| KvCache::new(shape, config.dtype, device)).collect::<Result<_>>()?;
    let positions = Tensor::arange(0, config.capacity as u32, device)?;
    Ok(Box::new(Ours { cos, sin, positions, cache, linear }))
}

/// The tokens of a prompt, and those that follow it one by one.
struct Text {
    prompt: Tensor,
    next: Vec<Tensor>,
}

impl Text {
    fn new(config: Config, device: &Device, prompt: usize, steps: usize) -> Result<Text> {
        let tokens: Vec<u32> = (0..(prompt + steps) as u32).map(|at| at * 7919 % config.vocabulary as u32).collect();
        let token = |from: usize, len: usize| Tensor::from_slice(&tokens[from..from + len], (1, len), device);
        let next = (0..steps).map(|at| token(prompt + at, 1)).collect::<Result<_>>()?;
        Ok(Text { prompt: token(0, prompt)?, next })
    }
}

/// The logits behind the prompt and behind the last token, in `f32`, and the seconds of prefill and decode.
fn run(model: &Model, ops: &mut dyn Operations, text: &Text) -> Result<([Tensor; 2], [f64; 2])> {
    let device = text.prompt.device();
    ops.truncate(0)?;
    device.synchronize()?;
    let start = Instant::now();
    let first = model.forward(ops, &text.prompt)?;
    device.synchronize()?;
    let middle = Instant::now();
    let mut last = first.clone();
    for token in &text.next {
        last = model.forward(ops, token)?;
    }
    device.synchronize()?;
    let times = [(middle - start).as_secs_f64(), middle.elapsed().as_secs_f64()];
    Ok(([first.to_dtype(DType::F32)?, last.to_dtype(DType::F32)?], times))
}

fn largest(x: &Tensor) -> Result<f32> {
    x.abs()?.flatten_all()?.max(0)?.to_scalar()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tiny = arguments.iter().any(|argument| argument == "tiny");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<usize>().ok());
    let (config, rounds) = if tiny { (TINY, 1) } else { (LLAMA_1B, 5) };
    let prompt = numbers.next().unwrap_or(if tiny { 20 } else { 2048 });
    let steps = numbers.next().unwrap_or(if tiny { 2 } else { 64 });
    let device = if tiny { Device::Cpu } else { Device::new_cuda(0)? };
    let (model, text) = (Model::random(config, &device)?, Text::new(config, &device, prompt, steps)?);
    let exact = model.exact()?;
    let (expected, _) = run(&exact, &mut *theirs(exact.config, &device)?, &text)?;
    drop(exact);
    let mut variants = [
        ("candle", theirs(config, &device)?),
        ("ptx-candle", ours(config, &device, true)?),
        ("ptx-candle, candle's linear layers", ours(config, &device, false)?),
    ];
    let mut distances = Vec::new();
    for (_, ops) in &mut variants {
        // The first run loads kernels.
        let (found, _) = run(&model, &mut **ops, &text)?;
        distances.push([largest(&(&found[0] - &expected[0])?)?, largest(&(&found[1] - &expected[1])?)?]);
    }
    let mut times = vec![[Vec::new(), Vec::new()]; variants.len()];
    for _ in 0..rounds {
        for ((_, ops), all) in variants.iter_mut().zip(&mut times) {
            let (_, seconds) = run(&model, &mut **ops, &text)?;
            all.iter_mut().zip(seconds).for_each(|(all, seconds)| all.push(seconds));
        }
    }
    println!("{:36} {:>12} {:>12}   largest distance of logits from f32", "tokens per second", "prefill", "decode");
    for (((name, _), times), [first, last]) in variants.iter().zip(times).zip(distances) {
        let [prefill, decode] = times.map(median);
        let (prefill, decode) = (prompt as f64 / prefill, steps as f64 / decode);
        println!("{name:36} {prefill:12.0} {decode:12.1}   {first:.4} and {last:.4} of {:.3}", largest(&expected[0])?);
    }
    Ok(())
}
