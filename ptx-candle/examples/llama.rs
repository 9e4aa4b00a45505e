//! A Llama of the shape of Llama-3.2-1B with random weights, with candle's own kernels and with those of `ptx-candle`: the same weights, the same
//! tokens, in turns in one process. It prints the distance of the logits, and tokens per second of prefill and of decode.
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
            let mask: Vec<u8> = (0..len).flat_map(|i| (0..start + len).map(move |j| u8::from(j > i + start))).collect();
            let mask = Tensor::from_vec(mask, (len, start + len), q.device())?.broadcast_as(scores.shape())?;
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

/// The variants, by name.
fn variants(config: Config, device: &Device) -> Result<Vec<(&'static str, Box<dyn Operations>)>> {
    let (cos, sin) = tables(config, device)?;
    let half = |x: &Tensor| x.to_dtype(config.dtype);
    let theirs = Theirs { cos: half(&cos)?, sin: half(&sin)?, cache: vec![None; config.layers] };
    let ours = |linear| -> Result<Box<dyn Operations>> {
        let shape = (1, config.capacity, config.heads_k, config.dim);
        let cache = (0..config.layers).map(|_| KvCache::new(shape, config.dtype, device)).collect::<Result<_>>()?;
        let positions = Tensor::arange(0, config.capacity as u32, device)?;
        Ok(Box::new(Ours { cos: cos.clone(), sin: sin.clone(), positions, cache, linear }))
    };
    Ok(vec![
        ("candle", Box::new(theirs)),
        ("ptx-candle", ours(true)?),
        ("ptx-candle, candle's linear layers", ours(false)?),
    ])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tiny = arguments.iter().any(|argument| argument == "tiny");
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse::<usize>().ok());
    let config = if tiny { TINY } else { LLAMA_1B };
    let prompt = numbers.next().unwrap_or(if tiny { 20 } else { 2048 });
    let (steps, rounds) = (numbers.next().unwrap_or(if tiny { 2 } else { 64 }), if tiny { 1 } else { 5 });
    let device = if tiny { Device::Cpu } else { Device::new_cuda(0)? };
    let model = Model::random(config, &device)?;
    let mut variants = variants(config, &device)?;
    let tokens: Vec<u32> = (0..(prompt + steps) as u32).map(|at| at * 7919 % config.vocabulary as u32).collect();
    let token = |from: usize, len: usize| Tensor::from_slice(&tokens[from..from + len], (1, len), &device);
    let (tokens_of_prompt, next) =
        (token(0, prompt)?, (0..steps).map(|at| token(prompt + at, 1)).collect::<Result<Vec<_>>>()?);
    let mut times = vec![[Vec::new(), Vec::new()]; variants.len()];
    let mut logits = Vec::new();
    for round in 0..=rounds {
        for ((name, ops), [prefill, decode]) in variants.iter_mut().zip(&mut times) {
            ops.truncate(0)?;
            device.synchronize()?;
            let start = Instant::now();
            let first = model.forward(&mut **ops, &tokens_of_prompt)?;
            device.synchronize()?;
            let middle = Instant::now();
            let mut last = first.clone();
            for token in &next {
                last = model.forward(&mut **ops, token)?;
            }
            device.synchronize()?;
            // The first round loads kernels.
            if round > 0 {
                prefill.push((middle - start).as_secs_f64());
                decode.push(middle.elapsed().as_secs_f64());
            } else {
                eprintln!("{name}: loaded and first run in {:.1} s", start.elapsed().as_secs_f64());
                logits.push([first.to_dtype(DType::F32)?, last.to_dtype(DType::F32)?]);
            }
        }
    }
    println!("{:36} {:>16} {:>16}   largest difference of logits", "tokens per second", "prefill", "decode");
    for (at, (name, _)) in variants.iter().enumerate() {
        let distance = |of: usize| (&logits[at][of] - &logits[0][of])?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>();
        let largest = logits[0][0].abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
        let [prefill, decode] = std::mem::take(&mut times[at]).map(median);
        let rates = (prompt as f64 / prefill, steps as f64 / decode);
        println!(
            "{name:36} {:16.0} {:16.1}   {:.4} and {:.4} of {largest:.3}",
            rates.0,
            rates.1,
            distance(0)?,
            distance(1)?
        );
    }
    Ok(())
}
