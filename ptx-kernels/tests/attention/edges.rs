//! Calls at the edge of what the types allow: nothing to compute, numbers on the device that lead nowhere, infinities, absurd extents. No
//! call may touch memory that is not its own, which the watcher would find, or return a wrong result without an error.

use super::device;
use ptx_kernels::attention::{Attention, Grads, KvCache, KvCacheMut, LatentCache, Results, Saved};
use ptx_kernels::float8::E4m3;
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorRef};

const ONE: bf16 = bf16::ONE;

/// A tensor of ones, or of none.
fn ones(device: &Device, shape: [usize; 4]) -> Buffer<bf16> {
    device.upload(&vec![ONE; shape.iter().product()]).unwrap()
}

/// Forward and backward with Q, K and V of ones: the output, and the gradients of Q, K and V.
fn gradients(
    device: &Device,
    [q_shape, k_shape]: [[usize; 4]; 2],
    options: &Attention<'_, bf16>,
) -> Result<[Vec<bf16>; 4]> {
    let [q, k, v, grad] = [q_shape, k_shape, k_shape, q_shape].map(|shape| ones(device, shape));
    let mut results = [q_shape, q_shape, k_shape, k_shape]
        .map(|shape| device.upload(&vec![bf16::from_f32(7.0); shape.iter().product()]).unwrap());
    let [out, q_grad, k_grad, v_grad] = &mut results;
    let logs = [q_shape[0], q_shape[2], q_shape[1]];
    let mut lse = device.zeros::<f32>(logs.iter().product())?;
    let (q, k, v) = (q.tile(q_shape)?, k.tile(k_shape)?, v.tile(k_shape)?);
    let to = Results { out: out.tile_mut(q_shape)?.into(), lse: Some(lse.tile_mut(logs)?.into()) };
    options.forward(device, q, k, v, to)?;
    let saved = Saved {
        q: q.into(),
        k: k.into(),
        v: v.into(),
        out: out.tile(q_shape)?.into(),
        lse: lse.tile(logs)?.into(),
        out_grad: grad.tile(q_shape)?.into(),
    };
    let grads = Grads {
        q: q_grad.tile_mut(q_shape)?.into(),
        k: k_grad.tile_mut(k_shape)?.into(),
        v: v_grad.tile_mut(k_shape)?.into(),
    };
    options.backward(device, &saved, grads, None)?;
    Ok(results.map(|result| result.download().unwrap()))
}

/// Without a key an output is zero, and so are gradients of what nothing depends on.
#[test]
fn no_sequences_queries_or_keys() {
    let device = device();
    for options in [Attention::new(), Attention::new().portable(), Attention::new().deterministic().causal()] {
        for (batch, queries, keys) in [(0, 3, 3), (1, 0, 3), (1, 3, 0), (1, 0, 0), (2, 0, 70)] {
            let results = gradients(&device, [[batch, queries, 2, 64], [batch, keys, 1, 64]], &options).unwrap();
            let zeros = results.iter().flatten().all(|x| *x == bf16::ZERO);
            assert!(zeros, "{batch} sequences, {queries} queries, {keys} keys: {results:?}");
        }
    }
}

/// Shapes of Q and K of packed sequences.
const PACKED: [[usize; 4]; 2] = [[1, 70, 2, 64], [1, 70, 1, 64]];

/// The same for packed sequences, all of which are empty, or whose longest one has no tokens.
#[test]
fn no_tokens_in_packed_sequences() {
    let device = device();
    // Scratch memory that is not zero.
    gradients(&device, PACKED, &Attention::new()).unwrap();
    for (starts_q, starts_k, longest) in [
        ([0, 0], [0, 70], [0, 70]),
        ([0, 0], [0, 70], [70, 70]),
        ([0, 70], [0, 0], [70, 0]),
        ([5, 5], [70, 70], [9, 9]),
    ] {
        let (starts_q, starts_k) = (device.upload(&starts_q).unwrap(), device.upload(&starts_k).unwrap());
        let [longest_q, longest_k] = longest;
        for options in [Attention::new(), Attention::new().portable(), Attention::new().deterministic()] {
            let options =
                options.lengths(starts_q.tile([2]).unwrap(), starts_k.tile([2]).unwrap(), longest_q, longest_k);
            let [out, q, k, v] = gradients(&device, PACKED, &options).unwrap();
            let rows = |starts: &Buffer<i32>, tensor: &[bf16], heads: usize| {
                let starts = starts.download().unwrap();
                tensor[starts[0] as usize * heads * 64..starts[1] as usize * heads * 64].to_vec()
            };
            let own =
                [rows(&starts_q, &out, 2), rows(&starts_q, &q, 2), rows(&starts_k, &k, 1), rows(&starts_k, &v, 1)];
            assert!(own.iter().flatten().all(|x| *x == bf16::ZERO), "{longest:?}: {own:?}");
        }
    }
    let none = device.upload(&[3]).unwrap();
    let options = Attention::new().lengths(none.tile([1]).unwrap(), none.tile([1]).unwrap(), 9, 9);
    let untouched = gradients(&device, PACKED, &options).unwrap();
    assert!(untouched.iter().flatten().all(|x| x.to_f32() == 7.0), "no sequence");
}

/// Cumulative lengths that decrease, are negative, or lead out of the tensors: sequences are cut off. All values are one.
#[test]
fn cumulative_lengths_that_lead_nowhere() {
    let device = device();
    let cases = [
        (vec![0, 40, 500], 0..70),
        (vec![-5, 30, 70], 30..70),
        (vec![i32::MAX, i32::MIN, 9, 70], 9..70),
        (vec![70, 0, 70], 0..70),
    ];
    for (starts, own) in crate::thorough::one_in(2, cases) {
        let count = starts.len();
        let starts = device.upload(&starts).unwrap();
        let starts = starts.tile([count]).unwrap();
        for options in [Attention::new(), Attention::new().portable(), Attention::new().causal()] {
            let [out, ..] = gradients(&device, [[1, 70, 1, 64]; 2], &options.lengths(starts, starts, 70, 70)).unwrap();
            assert!(out[own.start * 64..own.end * 64].iter().all(|x| *x == ONE), "{starts:?}");
        }
    }
}

/// Cumulative lengths of sequences that overlap, which only the unwatched device lets pass: each call ends, and rows of one sequence alone have its results.
#[test]
fn sequences_that_overlap() {
    let device = Device::cpu().watch(false);
    let starts = device.upload(&[0, 300, 100, 400]).unwrap();
    let starts = starts.tile([4]).unwrap();
    for head in crate::thorough::one_in(2, [64, 256]) {
        let options = [Attention::new(), Attention::new().portable(), Attention::new().deterministic()];
        for options in crate::thorough::one_in(2, options) {
            let options = options.lengths(starts, starts, 400, 400);
            let [out, ..] = gradients(&device, [[1, 400, 1, head]; 2], &options).unwrap();
            assert!(out.iter().all(|x| *x == ONE), "{head}");
        }
    }
}

/// Decodes with a cache of 6 tokens of ones and lengths as given.
fn decode(device: &Device, lengths: &[i32], table: Option<&[i32]>) -> Result<Vec<bf16>> {
    let batch = lengths.len();
    let shape = if table.is_some() { [2, 3, 1, 64] } else { [batch, 6, 1, 64] };
    let (cache, q, mut out) =
        (ones(device, shape), ones(device, [batch, 1, 2, 64]), device.zeros::<bf16>(batch * 2 * 64)?);
    let (lengths, entries) = (device.upload(lengths)?, device.upload(table.unwrap_or(&[0]))?);
    let mut cache = KvCache::new(cache.tile(shape)?, cache.tile(shape)?, lengths.tile([batch])?);
    if let Some(table) = table {
        cache = cache.paged(entries.tile([batch, table.len() / batch])?);
    }
    let shape = [batch, 1, 2, 64];
    Attention::new().decode(device, q.tile(shape)?, &cache, out.tile_mut(shape)?, None)?;
    let first = out.download()?;
    Attention::new().prefill(device, q.tile(shape)?, &cache, out.tile_mut(shape)?)?;
    assert_eq!(first, out.download()?);
    Ok(first)
}

/// Lengths beyond the cache count as its end, negative ones as 0; entries of the table that lead out of the cache are cut off.
#[test]
fn lengths_and_pages_that_lead_nowhere() {
    let device = device();
    let out = decode(&device, &[-3, 0, 6, 7, i32::MAX, i32::MIN], None).unwrap();
    for (sequence, row) in out.chunks(2 * 64).enumerate() {
        let expected = if (2..5).contains(&sequence) { ONE } else { bf16::ZERO };
        assert!(row.iter().all(|x| *x == expected), "{sequence}: {row:?}");
    }
    let out = decode(&device, &[6, 900], Some(&[7, -1, 1, i32::MAX])).unwrap();
    assert!(out.iter().all(|x| *x == ONE), "{out:?}");
    assert!(decode(&device, &[], None).unwrap().is_empty());
    let out = decode(&device, &[5], Some(&[])).unwrap();
    assert!(out.iter().all(|x| *x == bf16::ZERO), "a table without pages: {out:?}");
}

/// Appends two tokens of ones to 6 tokens of zeros; returns the sums of the tokens of each sequence.
fn append(device: &Device, lengths: &[i32], tokens: usize) -> Result<Vec<f32>> {
    let (batch, mut k, new) =
        (lengths.len(), device.zeros::<bf16>(lengths.len() * 6 * 64)?, ones(device, [lengths.len(), tokens, 1, 64]));
    let (mut v, lengths) = (device.zeros::<bf16>(k.len())?, device.upload(lengths)?);
    let (shape, rows) = ([batch, 6, 1, 64], [batch, tokens, 1, 64]);
    let cache = KvCacheMut::new(k.tile_mut(shape)?, v.tile_mut(shape)?, lengths.tile([batch])?);
    Attention::new().append(device, new.tile(rows)?, new.tile(rows)?, cache)?;
    let found = k.download()?;
    assert_eq!(found, v.download()?);
    Ok(found.chunks(6 * 64).map(|sequence| sequence.iter().map(|x| x.to_f32()).sum()).collect())
}

/// Tokens without a place are left out.
#[test]
fn appending_beyond_a_cache() {
    let device = device();
    let lengths = [-1, 0, 1, 2, 6, 7, 8, i32::MAX, i32::MIN];
    let sums = append(&device, &lengths, 2).unwrap();
    assert_eq!(sums, [0.0, 0.0, 64.0, 128.0, 128.0, 64.0, 0.0, 0.0, 0.0]);
    assert!(append(&device, &[], 2).unwrap().is_empty());
    assert_eq!(append(&device, &[5], 0).unwrap(), [0.0]);
}

/// An error that names each of some words.
fn refused<T>(result: Result<T>, words: &[&str]) {
    let error = result.err().expect("the call is refused").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

/// A stride of 0 makes tensors of any extents of little memory. Kernels count in 32 bits.
#[test]
fn extents_beyond_32_bits() {
    let device = device();
    let (memory, mut out) = (ones(&device, [1, 4, 1, 64]), device.zeros::<bf16>(4 * 64).unwrap());
    let (lengths, table) = (device.upload(&[1]).unwrap(), device.upload(&[0]).unwrap());
    let (lengths, table) = (lengths.tile([1]).unwrap(), table.tile([1, 1]).unwrap());
    let q = memory.tile([1, 1, 1, 64]).unwrap();
    for [pages, tokens] in [[1, 1 << 32], [1, (1 << 32) + 1], [1 << 32, 3], [(1 << 32) + 1, 3], [1, 1 << 29]] {
        let rows = TensorRef::strided(&memory, [pages, tokens, 1, 64], [0, 0, 64, 1]).unwrap();
        let cache = KvCache::new(rows, rows, lengths);
        for cache in [cache, cache.paged(table)] {
            let to = out.tile_mut([1, 1, 1, 64]).unwrap();
            refused(Attention::new().decode(&device, q, &cache, to, None), &[""]);
            let to = out.tile_mut([1, 1, 1, 64]).unwrap();
            refused(Attention::new().prefill(&device, q, &cache, to), &[""]);
        }
        let cache = LatentCache::new(rows, lengths).paged(table);
        let to = out.tile_mut([1, 1, 1, 64]).unwrap();
        refused(Attention::new().decode_latent(&device, q, &cache, to, None), &["of the table"]);
    }
    let long = TensorRef::strided(&memory, [1, 1 << 29, 1, 64], [0, 0, 64, 1]).unwrap();
    let to = out.tile_mut([1, 1, 1, 64]).unwrap();
    refused(Attention::new().forward(&device, q, long, long, to), &["fewer than 2^29 tokens"]);
    let many = TensorRef::strided(&memory, [1, 1, 1 << 28, 64], [0, 0, 0, 1]).unwrap();
    let none = TensorRef::strided(&memory, [1, 1, 0, 64], [64, 64, 64, 1]).unwrap();
    for heads in [many, none] {
        let to = out.tile_mut([1, 1, 1, 64]).unwrap();
        refused(Attention::new().forward(&device, heads, q, q, to), &["1 to 65535 heads"]);
        let shape = heads.shape();
        let bytes = device.zeros::<E4m3>(64).unwrap();
        let bytes = TensorRef::strided(&bytes, shape, [64, 64, 0, 1]).unwrap();
        let to = out.tile_mut([1, 1, 1, 64]).unwrap();
        refused(Attention::new().forward(&device, bytes, bytes, bytes, to), &["heads of Q"]);
    }
    let mut none = device.zeros::<bf16>(0).unwrap();
    let to = none.tile_mut([1, 1, 0, 64]).unwrap();
    let cache = KvCache::new(q, q, lengths);
    let no_heads = TensorRef::strided(&memory, [1, 1, 0, 64], [64, 64, 64, 1]).unwrap();
    refused(Attention::new().decode(&device, no_heads, &cache, to, None), &["0 heads of Q"]);
    let repeated = TensorRef::strided(&memory, [1, 1 << 60, 16, 64], [0, 0, 0, 1]).unwrap();
    let (mut k, mut v) = (device.zeros::<bf16>(16 * 64).unwrap(), device.zeros::<bf16>(16 * 64).unwrap());
    let shape = [1, 1, 16, 64];
    let cache = KvCacheMut::new(k.tile_mut(shape).unwrap(), v.tile_mut(shape).unwrap(), lengths);
    refused(Attention::new().append(&device, repeated, repeated, cache), &["fewer than 2^26 new rows"]);
}

/// The softmax of a score that is infinite, or no number, is no number; that of hidden keys does not matter.
#[test]
fn infinities_and_nans() {
    let device = device();
    let (q_shape, k_shape) = ([1, 70, 1, 64], [1, 150, 1, 64]);
    for (at, value) in [(0, f32::INFINITY), (69, f32::NEG_INFINITY), (149, f32::NAN), (70, f32::INFINITY)] {
        for options in [Attention::new(), Attention::new().portable()] {
            let (mut q, mut k) = (vec![ONE; 70 * 64], vec![ONE; 150 * 64]);
            k[at * 64] = bf16::from_f32(value);
            // One row has scores of its own sign.
            q[5 * 64] = -ONE;
            let (q, k, v) = (device.upload(&q).unwrap(), device.upload(&k).unwrap(), ones(&device, k_shape));
            let mut out = device.zeros::<bf16>(70 * 64).unwrap();
            let (q, k, v) = (q.tile(q_shape).unwrap(), k.tile(k_shape).unwrap(), v.tile(k_shape).unwrap());
            options.causal().forward(&device, q, k, v, out.tile_mut(q_shape).unwrap()).unwrap();
            for (row, elements) in out.download().unwrap().chunks(64).enumerate() {
                // The last query is aligned with the last key. A key of minus infinity has no weight.
                let seen = at <= row + 80 && !(value == f32::NEG_INFINITY && row != 5);
                let seen = seen && !(value == f32::INFINITY && row == 5);
                let fits = elements.iter().all(|x| if seen { x.is_nan() } else { *x == ONE });
                assert!(fits, "{value} at {at}, row {row}: {elements:?}");
            }
        }
    }
}

/// Scales and caps beyond the numbers that kernels compute with.
#[test]
fn scales_and_caps() {
    let device = device();
    let shape = [1, 2, 1, 64];
    let (q, mut out) = (ones(&device, shape), device.zeros::<bf16>(2 * 64).unwrap());
    let q = q.tile(shape).unwrap();
    for scale in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-40, 3e38] {
        let call = Attention::new().scale(scale).forward(&device, q, q, q, out.tile_mut(shape).unwrap());
        refused(call, &["the scale is", "1e-18 to 1e18"]);
    }
    for cap in [-1.0, f32::NAN, f32::INFINITY, 1e-40, 3e38] {
        let call = Attention::new().soft_cap(cap).forward(&device, q, q, q, out.tile_mut(shape).unwrap());
        refused(call, &["the soft cap", "1e-18 to 1e18"]);
    }
    for (scale, cap) in [(1e-18, 0.0), (1e18, 0.0), (1.0, -0.0), (1e-18, 1e18), (1e18, 1e-18)] {
        for options in [Attention::new(), Attention::new().portable()] {
            let options = options.scale(scale).soft_cap(cap);
            options.forward(&device, q, q, q, out.tile_mut(shape).unwrap()).unwrap();
            assert!(out.download().unwrap().iter().all(|x| *x == ONE), "{scale}, {cap}");
        }
    }
}

/// Operands that repeat or overlap: every row of Q, K and V is the same one.
#[test]
fn operands_of_one_row() {
    let device = device();
    for strides in [[0, 0, 0, 1], [8, 8, 8, 1], [0, 64, 0, 1]] {
        let memory = ones(&device, [1, 1, 1, 2 * 70 * 64]);
        let rows = TensorRef::strided(&memory, [2, 70, 2, 64], strides).unwrap();
        let mut out = device.zeros::<bf16>(2 * 70 * 2 * 64).unwrap();
        Attention::new().causal().forward(&device, rows, rows, rows, out.tile_mut([2, 70, 2, 64]).unwrap()).unwrap();
        assert!(out.download().unwrap().iter().all(|x| *x == ONE), "{strides:?}");
        assert!(ptx_launch::TensorMut::strided(&mut out, [2, 70, 2, 64], strides).is_err());
    }
}
