//! The time of one operation at a time, with candle's own kernels and with those of `ptx-candle`: the same tensors of `bf16`, in turns in one process.
//! It prints microseconds, medians, and the largest distance of each from the same operation in `f32`.
//!
//! ```sh
//! cargo run --release --features cuda --example operations
//! cargo run --release --example operations -- tiny           # a few elements, on the host
//! ```

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{ops, rotary_emb};
use std::time::Instant;

const EPS: f32 = 1e-5;

/// Extents of the tensors.
struct Sizes {
    rows: usize,
    columns: usize,
    tokens: usize,
    heads: usize,
    heads_k: usize,
    dim: usize,
}

const LARGE: Sizes = Sizes { rows: 4096, columns: 4096, tokens: 2048, heads: 32, heads_k: 8, dim: 128 };
const TINY: Sizes = Sizes { rows: 3, columns: 32, tokens: 5, heads: 4, heads_k: 2, dim: 16 };

/// An operation of both: its inputs, and the two functions of them.
struct Row {
    name: &'static str,
    inputs: Vec<Tensor>,
    theirs: fn(&[Tensor]) -> Result<Tensor>,
    ours: fn(&[Tensor]) -> Result<Tensor>,
}

fn random(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::randn(0f32, 1.0, shape, device)?.to_dtype(DType::BF16)
}

fn rows(sizes: &Sizes, device: &Device) -> Result<Vec<Row>> {
    let Sizes { rows, columns, tokens, heads, heads_k, dim } = *sizes;
    let matrix = || random(&[rows, columns], device);
    let vector = || random(&[columns], device);
    let of_heads = |heads| random(&[1, tokens, heads, dim], device);
    let (cos, sin) = ptx_kernels::rotary::tables(10_000.0, dim / 2, tokens);
    let [cos, sin] = [cos, sin].map(|values| Tensor::from_vec(values, (tokens, dim / 2), device));
    let (cos, sin, rounded) = (cos?, sin?, |table: &Tensor| table.to_dtype(DType::BF16));
    let positions = Tensor::arange(0, tokens as u32, device)?;
    Ok(vec![
        Row {
            name: "rms_norm",
            inputs: vec![matrix()?, vector()?],
            theirs: |x| ops::rms_norm(&x[0], &x[1], EPS),
            ours: |x| ptx_candle::rms_norm(&x[0], &x[1], EPS.into()),
        },
        Row {
            name: "layer_norm",
            inputs: vec![matrix()?, vector()?, vector()?],
            theirs: |x| ops::layer_norm(&x[0], &x[1], &x[2], EPS),
            ours: |x| ptx_candle::layer_norm(&x[0], &x[1], &x[2], EPS.into()),
        },
        Row {
            name: "softmax",
            inputs: vec![matrix()?],
            theirs: |x| ops::softmax_last_dim(&x[0]),
            ours: |x| ptx_candle::softmax(&x[0]),
        },
        Row { name: "gelu", inputs: vec![matrix()?], theirs: |x| x[0].gelu_erf(), ours: |x| ptx_candle::gelu(&x[0]) },
        Row {
            name: "silu(gate) * up",
            inputs: vec![matrix()?, matrix()?],
            theirs: |x| ops::silu(&x[0])? * &x[1],
            ours: |x| ptx_candle::swiglu(&x[0], &x[1]),
        },
        Row {
            name: "rotary, (batch, tokens, heads, dim)",
            inputs: vec![of_heads(heads)?, cos.clone(), sin.clone(), positions, rounded(&cos)?, rounded(&sin)?],
            theirs: |x| {
                // candle's tables have the type of x, ours that of the angles.
                let tables = if x[0].dtype() == DType::F32 { &x[1..3] } else { &x[4..6] };
                rotary_emb::rope_thd(&x[0], &tables[0], &tables[1])
            },
            ours: |x| ptx_candle::rotary(&x[0], &x[1], &x[2], &x[3]),
        },
        Row {
            name: "matmul",
            inputs: vec![matrix()?, random(&[columns, rows], device)?],
            theirs: |x| x[0].matmul(&x[1]),
            ours: |x| ptx_candle::matmul(&x[0], &x[1]),
        },
        Row {
            name: "linear with a bias",
            inputs: vec![matrix()?, random(&[rows, columns], device)?, random(&[rows], device)?],
            theirs: |x| x[0].matmul(&x[1].t()?)?.broadcast_add(&x[2]),
            ours: |x| ptx_candle::linear(&x[0], &x[1], Some(&x[2])),
        },
        Row {
            name: "attention, not causal",
            inputs: vec![of_heads(heads)?, of_heads(heads_k)?, of_heads(heads_k)?],
            theirs: attend,
            ours: |x| ptx_candle::flash_attn(&x[0], &x[1], &x[2], scale(&x[0])?, false),
        },
    ])
}

fn scale(q: &Tensor) -> Result<f32> {
    Ok(1.0 / (q.dim(D::Minus1)? as f32).sqrt())
}

/// Attention as `candle_transformers` composes it without flash attention: heads are repeated, and scores have the type of the tensors.
fn attend(x: &[Tensor]) -> Result<Tensor> {
    let turned = |x: &Tensor| x.transpose(1, 2)?.contiguous();
    let (q, k, v) = (turned(&x[0])?, turned(&x[1])?, turned(&x[2])?);
    let groups = q.dim(1)? / k.dim(1)?;
    let repeat = |x: Tensor| {
        let (batch, heads, len, dim) = x.dims4()?;
        Tensor::stack(&vec![&x; groups], 2)?.reshape((batch, heads * groups, len, dim))
    };
    let scores = (q.matmul(&repeat(k)?.t()?)? * f64::from(scale(&q)?))?;
    ops::softmax_last_dim(&scores)?.matmul(&repeat(v)?)?.transpose(1, 2)?.contiguous()
}

/// The largest distance from the operation of candle in `f32`.
fn distance(found: &Tensor, expected: &Tensor) -> Result<f32> {
    (found.to_dtype(DType::F32)? - expected)?.abs()?.flatten_all()?.max(0)?.to_scalar()
}

/// Microseconds of a call, in a row of `calls`.
fn microseconds(row: &Row, call: fn(&[Tensor]) -> Result<Tensor>, calls: usize) -> Result<f64> {
    let device = row.inputs[0].device();
    device.synchronize()?;
    let start = Instant::now();
    for _ in 0..calls {
        call(&row.inputs)?;
    }
    device.synchronize()?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / calls as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let tiny = std::env::args().any(|argument| argument == "tiny");
    let device = if tiny { Device::Cpu } else { Device::new_cuda(0)? };
    let (sizes, rounds, calls) = if tiny { (TINY, 1, 1) } else { (LARGE, 21, 20) };
    println!("{:36} {:>10} {:>10} {:>8}   largest distance from f32", "microseconds", "candle", "ours", "ratio");
    for row in rows(&sizes, &device)? {
        let exact: Vec<Tensor> = row
            .inputs
            .iter()
            .map(|x| if x.dtype() == DType::BF16 { x.to_dtype(DType::F32) } else { Ok(x.clone()) })
            .collect::<Result<_>>()?;
        let expected = (row.theirs)(&exact)?;
        let distances =
            [distance(&(row.theirs)(&row.inputs)?, &expected)?, distance(&(row.ours)(&row.inputs)?, &expected)?];
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (times, call) in times.iter_mut().zip([row.theirs, row.ours]) {
                times.push(microseconds(&row, call, calls)?);
            }
        }
        let [theirs, ours] = times.map(median);
        let [theirs_off, ours_off] = distances;
        println!("{:36} {theirs:10.1} {ours:10.1} {:8.2}   {theirs_off:.4} and {ours_off:.4}", row.name, theirs / ours);
    }
    Ok(())
}
