//! Results and gradients against candle's own operations, on the host.
#![allow(clippy::unwrap_used, reason = "tests")]

use candle_core::{D, DType, Device, Result, Tensor, Var};

fn random(shape: &[usize]) -> Var {
    // A fixed sequence, the same in every run.
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0).collect();
    Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
}

fn distance(a: &Tensor, b: &Tensor) -> f32 {
    let (a, b) = (a.to_dtype(DType::F32).unwrap(), b.to_dtype(DType::F32).unwrap());
    (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap()
}

/// Compares results, and gradients of a weighted sum.
fn compare(variables: &[&Var], ours: impl Fn() -> Result<Tensor>, theirs: impl Fn() -> Result<Tensor>) {
    let (found, expected) = (ours().unwrap(), theirs().unwrap());
    assert_eq!(found.shape(), expected.shape());
    assert!(distance(&found, &expected) < 1e-5, "{}", distance(&found, &expected));
    let weight = random(found.dims());
    let gradients = |result: &Tensor| (result * weight.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let (found, expected) = (gradients(&found), gradients(&expected));
    for variable in variables {
        let (found, expected) = (found.get(variable).unwrap(), expected.get(variable).unwrap());
        assert!(distance(found, expected) < 1e-4, "{}", distance(found, expected));
    }
}

#[test]
fn norms() {
    let (x, w, b) = (random(&[2, 3, 16]), random(&[16]), random(&[16]));
    let rms = |x: &Tensor| x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + 1e-6)?.sqrt()?);
    compare(&[&x, &w], || ptx_candle::rms_norm(&x, &w, 1e-6), || rms(&x)?.broadcast_mul(&w));
    let layer = || {
        let centered = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let norm = centered.broadcast_div(&(centered.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?)?;
        norm.broadcast_mul(&w)?.broadcast_add(&b)
    };
    compare(&[&x, &w, &b], || ptx_candle::layer_norm(&x, &w, &b, 1e-5), layer);
    assert!(ptx_candle::rms_norm(&x, &random(&[15]), 1e-6).is_err());
}

#[test]
fn row_wise_operations() {
    let (x, y) = (random(&[3, 20]), random(&[3, 20]));
    let softmax = || {
        let powers = x.exp()?;
        powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
    };
    compare(&[&x], || ptx_candle::softmax(&x), softmax);
    compare(&[&x], || ptx_candle::silu(&x), || x.silu());
    compare(&[&x], || ptx_candle::gelu(&x), || x.gelu_erf());
    compare(&[&x, &y], || ptx_candle::swiglu(&x, &y), || x.silu()? * y.as_tensor());
    assert!(ptx_candle::swiglu(&x, &random(&[3, 19])).is_err());
}

#[test]
fn products() {
    let (a, b) = (random(&[5, 8]), random(&[8, 6]));
    compare(&[&a, &b], || ptx_candle::matmul(&a, &b), || a.matmul(&b));
    let transposed = random(&[6, 8]);
    compare(&[&a, &transposed], || ptx_candle::matmul(&a, &transposed.t()?), || a.matmul(&transposed.t()?));
    let (a, b) = (random(&[2, 5, 8]), random(&[2, 8, 6]));
    compare(&[&a, &b], || ptx_candle::matmul(&a, &b), || a.matmul(&b));
    assert!(ptx_candle::matmul(&a, &a).is_err());
}

#[test]
fn attention() {
    let [q, k, v] = [4, 2, 2].map(|heads| random(&[1, heads, 16, 16]));
    let half = |t: &Var| t.to_dtype(DType::BF16);
    let ours = || ptx_candle::attention(&half(&q)?, &half(&k)?, &half(&v)?, 0.25, false)?.to_dtype(DType::F32);
    let repeat = |t: &Var| Tensor::stack(&[t.as_tensor(), t.as_tensor()], 2)?.reshape((1, 4, 16, 16));
    let theirs = || {
        let scores = (q.matmul(&repeat(&k)?.t()?)? * 0.25)?.exp()?;
        scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)?.matmul(&repeat(&v)?)
    };
    let (found, expected) = (ours().unwrap(), theirs().unwrap());
    assert!(distance(&found, &expected) < 2e-2);
    let gradients = |result: Tensor| result.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    let (found, expected) = (gradients(found), gradients(expected));
    for variable in [&q, &k, &v] {
        let (found, expected) = (found.get(variable).unwrap(), expected.get(variable).unwrap());
        assert!(distance(found, expected) < 5e-2, "{}", distance(found, expected));
    }
    assert!(ptx_candle::attention(&q, &k, &v, 1.0, false).is_err(), "f32");
}
