//! Results and gradients against candle's own operations: on the host, and on a GPU with candle's CUDA backend
//! (`cargo test --release --features cuda -- --ignored`).
#![allow(clippy::unwrap_used, reason = "tests")]

use candle_core::{D, DType, Device, Module, Result, Tensor, Var};

fn random(device: &Device, shape: &[usize]) -> Var {
    // A fixed sequence, the same in every run.
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0).collect();
    Var::from_tensor(&Tensor::from_vec(values, shape, device).unwrap()).unwrap()
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
    let weight = random(found.device(), found.dims());
    let gradients = |result: &Tensor| (result * weight.as_tensor()).unwrap().sum_all().unwrap().backward().unwrap();
    let (found, expected) = (gradients(&found), gradients(&expected));
    for variable in variables {
        let (found, expected) = (found.get(variable).unwrap(), expected.get(variable).unwrap());
        assert!(distance(found, expected) < 1e-4, "{}", distance(found, expected));
    }
}

fn norms(device: &Device) {
    let (x, w, b) = (random(device, &[2, 3, 16]), random(device, &[16]), random(device, &[16]));
    let rms = |x: &Tensor| x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + 1e-6)?.sqrt()?);
    compare(&[&x, &w], || ptx_candle::rms_norm(&x, &w, 1e-6), || rms(&x)?.broadcast_mul(&w));
    let layer = || {
        let centered = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let norm = centered.broadcast_div(&(centered.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?)?;
        norm.broadcast_mul(&w)?.broadcast_add(&b)
    };
    compare(&[&x, &w, &b], || ptx_candle::layer_norm(&x, &w, &b, 1e-5), layer);
    let (ours, theirs) =
        (ptx_candle::RmsNorm::new(w.as_tensor().clone(), 1e-6), candle_nn::RmsNorm::new(w.as_tensor().clone(), 1e-6));
    assert!(distance(&ours.forward(&x).unwrap(), &theirs.forward(&x).unwrap()) < 1e-5);
    let (w, b) = (w.as_tensor().clone(), b.as_tensor().clone());
    let (ours, theirs) =
        (ptx_candle::LayerNorm::new(w.clone(), b.clone(), 1e-5), candle_nn::LayerNorm::new(w, b, 1e-5));
    assert!(distance(&ours.forward(&x).unwrap(), &theirs.forward(&x).unwrap()) < 1e-5);
    let error = ptx_candle::rms_norm(&x, &random(device, &[15]), 1e-6).unwrap_err().to_string();
    assert!(error.contains("a weight or bias has shape [15], and rows have 16 elements"), "{error}");
}

fn row_wise_operations(device: &Device) {
    let (x, y) = (random(device, &[3, 20]), random(device, &[3, 20]));
    let softmax = || {
        let powers = x.exp()?;
        powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)
    };
    compare(&[&x], || ptx_candle::softmax(&x), softmax);
    compare(&[&x], || ptx_candle::silu(&x), || x.silu());
    compare(&[&x], || ptx_candle::gelu(&x), || x.gelu_erf());
    compare(&[&x], || ptx_candle::gelu_tanh(&x), || x.gelu());
    // Not at zero, where candle's derivative is one.
    let shifted = || x.as_tensor() + 0.001;
    compare(&[&x], || ptx_candle::relu(&shifted()?), || shifted()?.relu());
    compare(&[&x, &y], || ptx_candle::swiglu(&x, &y), || x.silu()? * y.as_tensor());
    compare(&[&x, &y], || ptx_candle::geglu(&x, &y), || x.gelu_erf()? * y.as_tensor());
    assert!(ptx_candle::swiglu(&x, &random(device, &[3, 19])).is_err());
}

fn cross_entropy(device: &Device) {
    let x = random(device, &[2, 3, 20]);
    let targets = Tensor::new(&[[3u32, 0, 19], [7, 7, 1]], device).unwrap();
    let theirs = |logits: &Tensor| {
        let rows = candle_nn::ops::log_softmax(logits, D::Minus1)?.reshape((6, 20))?;
        rows.gather(&targets.flatten_all()?.unsqueeze(1)?, 1)?.squeeze(1)?.neg()
    };
    compare(&[&x], || ptx_candle::cross_entropy(&x, &targets), || theirs(&x));
    let targets = targets.to_dtype(DType::I64).unwrap();
    compare(&[&x], || ptx_candle::cross_entropy(&x, &targets), || theirs(&x));
    let half = x.to_dtype(DType::BF16).unwrap();
    let found = ptx_candle::cross_entropy(&half, &targets).unwrap();
    assert_eq!(found.dtype(), DType::F32);
    assert!(distance(&found, &theirs(&half.to_dtype(DType::F32).unwrap()).unwrap()) < 1e-5);
    let error = ptx_candle::cross_entropy(&x, &targets.narrow(0, 0, 1).unwrap()).unwrap_err().to_string();
    assert!(error.contains("3 targets for 6 rows of logits"), "{error}");
}

fn products(device: &Device) {
    let (a, b) = (random(device, &[5, 8]), random(device, &[8, 6]));
    compare(&[&a, &b], || ptx_candle::matmul(&a, &b), || a.matmul(&b));
    let transposed = random(device, &[6, 8]);
    compare(&[&a, &transposed], || ptx_candle::matmul(&a, &transposed.t()?), || a.matmul(&transposed.t()?));
    let (a, b) = (random(device, &[2, 5, 8]), random(device, &[2, 8, 6]));
    compare(&[&a, &b], || ptx_candle::matmul(&a, &b), || a.matmul(&b));
    assert!(ptx_candle::matmul(&a, &a).is_err());
}

fn linear(device: &Device) {
    let (x, weight, bias) = (random(device, &[2, 5, 8]), random(device, &[6, 8]), random(device, &[6]));
    let product = || x.broadcast_matmul(&weight.t()?);
    compare(&[&x, &weight], || ptx_candle::linear(&x, &weight, None), product);
    compare(&[&x, &weight, &bias], || ptx_candle::linear(&x, &weight, Some(&bias)), || product()?.broadcast_add(&bias));
    let (w, b) = (weight.as_tensor().clone(), Some(bias.as_tensor().clone()));
    let (ours, theirs) = (ptx_candle::Linear::new(w.clone(), b.clone()), candle_nn::Linear::new(w, b));
    assert!(distance(&ours.forward(&x).unwrap(), &theirs.forward(&x).unwrap()) < 1e-5);
    let error = ptx_candle::linear(&x, &random(device, &[6, 7]), None).unwrap_err().to_string();
    assert!(error.contains("linear: rows of x have 8 elements, and weight has the shape [6, 7]"), "{error}");
}

fn rotary(device: &Device) {
    let x = random(device, &[2, 3, 4, 16]);
    let angles = random(device, &[5, 8]);
    let (cos, sin) = (angles.cos().unwrap(), angles.sin().unwrap());
    let positions = Tensor::new(&[2u32, 3, 4], device).unwrap();
    let part = |table: &Tensor| table.narrow(0, 2, 3);
    let theirs = || candle_nn::rotary_emb::rope_slow(&x.transpose(1, 2)?, &part(&cos)?, &part(&sin)?)?.transpose(1, 2);
    compare(&[&x], || ptx_candle::rotary(&x, &cos, &sin, &positions), theirs);
    let wrong = Tensor::new(&[2i64, 3, 4], device).unwrap();
    let error = ptx_candle::rotary(&x, &cos, &sin, &wrong).unwrap_err().to_string();
    assert!(error.contains("rotary: an input is not of u32"), "{error}");
}

/// Softmax of products, in `f32`, with repeated heads.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, scale: f64, causal: bool) -> Result<Tensor> {
    let groups = q.dim(1)? / k.dim(1)?;
    let repeat = |t: &Tensor| {
        let (batch, heads, len, dim) = t.dims4()?;
        Tensor::stack(&vec![t; groups], 2)?.reshape((batch, heads * groups, len, dim))
    };
    let mut scores = (q.matmul(&repeat(k)?.t()?)? * scale)?;
    if causal {
        let (len, keys) = (q.dim(2)?, k.dim(2)?);
        let mask = (0..len).flat_map(|i| (0..keys).map(move |j| if j + len > i + keys { -1e30f32 } else { 0.0 }));
        scores = scores.broadcast_add(&Tensor::from_iter(mask, q.device())?.reshape((len, keys))?)?;
    }
    let powers = scores.exp()?;
    powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)?.matmul(&repeat(v)?)
}

fn attention(device: &Device) {
    let [q, k, v] = [4, 2, 2].map(|heads| random(device, &[1, heads, 16, 16]));
    let half = |t: &Tensor| t.to_dtype(DType::BF16);
    for causal in [false, true] {
        let ours = ptx_candle::attention(&half(&q).unwrap(), &half(&k).unwrap(), &half(&v).unwrap(), 0.25, causal);
        let turned = |t: &Var| half(&t.transpose(1, 2).unwrap()).unwrap();
        let other = ptx_candle::flash_attn(&turned(&q), &turned(&k), &turned(&v), 0.25, causal).unwrap();
        let gradients = |result: Tensor| result.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        let expected = reference(&q, &k, &v, 0.25, causal).unwrap();
        let others = gradients(expected.clone());
        for found in [ours.unwrap(), other.transpose(1, 2).unwrap()] {
            let found = found.to_dtype(DType::F32).unwrap();
            assert!(distance(&found, &expected) < 2e-2, "{causal}: {}", distance(&found, &expected));
            let found = gradients(found);
            for variable in [&q, &k, &v] {
                let (found, expected) = (found.get(variable).unwrap(), others.get(variable).unwrap());
                assert!(distance(found, expected) < 5e-2, "{causal}: {}", distance(found, expected));
            }
        }
    }
    assert!(ptx_candle::attention(&q, &k, &v, 1.0, false).is_err(), "f32");
}

/// Two packed sequences, and a window, against attention of each part alone.
fn parts_of_attention(device: &Device) {
    let [q, k, v] = [4, 2, 2].map(|heads| random(device, &[16, heads, 16]));
    let half = |t: &Var| t.to_dtype(DType::BF16).unwrap();
    let starts = Tensor::new(&[0u32, 5, 5, 16], device).unwrap();
    let part = |start, len| {
        // candle's products take contiguous tensors on GPUs.
        let rows = |t: &Var| t.narrow(0, start, len)?.transpose(0, 1)?.unsqueeze(0)?.contiguous();
        let [q, k, v] = [&q, &k, &v].map(|t| rows(t).unwrap());
        reference(&q, &k, &v, 0.25, true).unwrap().squeeze(0).unwrap().transpose(0, 1).unwrap()
    };
    let expected = Tensor::cat(&[part(0, 5), part(5, 11)], 0).unwrap();
    let [x, y, z] = [&q, &k, &v].map(half);
    let found = ptx_candle::flash_attn_varlen(&x, &y, &z, &starts, &starts, 11, 11, 0.25, true).unwrap();
    let found = found.to_dtype(DType::F32).unwrap();
    assert!(distance(&found, &expected) < 2e-2, "{}", distance(&found, &expected));
    let gradients = |result: &Tensor| result.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    let (found, expected) = (gradients(&found), gradients(&expected));
    for variable in [&q, &k, &v] {
        let (found, expected) = (found.get(variable).unwrap(), expected.get(variable).unwrap());
        assert!(distance(found, expected) < 5e-2, "{}", distance(found, expected));
    }
    let wrong = starts.to_dtype(DType::I64).unwrap();
    let error = ptx_candle::flash_attn_varlen(&x, &y, &z, &starts, &wrong, 11, 11, 0.25, true).unwrap_err().to_string();
    assert!(error.contains("seqlens_k: expected one dimension of u32, found [4] of I64"), "{error}");

    // A window of the key itself: each query has the value of its own place.
    let all = [&x, &y, &z].map(|t| t.unsqueeze(0).unwrap());
    let own = ptx_candle::flash_attn_windowed(&all[0], &all[1], &all[2], 0.25, Some(0), Some(0)).unwrap();
    let values = Tensor::stack(&[&z, &z], 2).unwrap().reshape((1, 16, 4, 16)).unwrap();
    assert!(distance(&own, &values) < 1e-2, "{}", distance(&own, &values));
    let whole = ptx_candle::flash_attn(&all[0], &all[1], &all[2], 0.25, true).unwrap();
    let wide = ptx_candle::flash_attn_windowed(&all[0], &all[1], &all[2], 0.25, None, Some(0)).unwrap();
    assert!(distance(&wide, &whole) < 1e-6);
}

/// A prompt of 20 tokens, then one token, then three: as if all had come at once.
fn cache(device: &Device) {
    let all = [4, 2, 2].map(|heads| random(device, &[2, 24, heads, 16]).to_dtype(DType::BF16).unwrap());
    let turned = |t: &Tensor| t.transpose(1, 2).unwrap().to_dtype(DType::F32).unwrap();
    let expected =
        reference(&turned(&all[0]), &turned(&all[1]), &turned(&all[2]), 0.25, true).unwrap().transpose(1, 2).unwrap();
    let mut cache = ptx_candle::KvCache::new((2, 24, 2, 16), DType::BF16, device).unwrap();
    for (start, len) in [(0, 20), (20, 1), (21, 3)] {
        let [q, k, v] = all.each_ref().map(|t| t.narrow(1, start, len).unwrap());
        let found = cache.attend(&q, &k, &v, 0.25).unwrap();
        let expected = expected.narrow(1, start, len).unwrap();
        assert!(distance(&found, &expected) < 2e-2, "{start}: {}", distance(&found, &expected));
        assert_eq!(cache.len(), start + len);
    }
    let [q, k, v] = all.each_ref().map(|t| t.narrow(1, 0, 1).unwrap());
    assert!(cache.attend(&q, &k, &v, 0.25).is_err(), "the cache is full");
}

macro_rules! on_every_device {
    ($($name:ident)*) => {
        mod host {
            $(#[test]
            fn $name() {
                super::$name(&super::Device::Cpu);
            })*
        }

        #[cfg(feature = "cuda")]
        mod cuda {
            $(#[test]
            #[ignore = "needs a GPU"]
            fn $name() {
                // A stream of its own, and the default one.
                super::$name(&super::Device::new_cuda_with_stream(0).unwrap());
                super::$name(&super::Device::new_cuda(0).unwrap());
            })*
        }
    };
}
on_every_device! { norms row_wise_operations cross_entropy products linear rotary attention parts_of_attention cache }
