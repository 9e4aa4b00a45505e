//! The forward pass with Q, K and V of `e4m3` against `f64`.

use super::{Run, compare, device};
use crate::case::{CANARY, Case, Data, Extras, Field, Float, Random};
use crate::{random, reference};
use ptx_kernels::attention::{Attention, Input, Layout, Results};
use ptx_kernels::float8::E4m3;
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorMut, TensorRef};

/// Strides of the factors of Q, K and V: one for each head of each sequence, one for each head, one.
const STRIDES: [[usize; 2]; 3] = [[3, 1], [0, 1], [0, 0]];

/// The factor of a head of K in a tensor: a power of 2, so that it rounds nothing.
fn factor(tensor: usize, sequence: usize, head: usize) -> f64 {
    let [along, across] = STRIDES[tensor];
    2f64.powi(((along * sequence + across * head + tensor) % 3) as i32 - 1)
}

/// Rounds a field to `e4m3` times the factor of its head.
fn round(field: &mut Field, tensor: usize, lengths: &[usize], [heads, group, dim]: [usize; 3]) {
    for (sequence, len) in lengths.iter().enumerate() {
        for (token, head) in (0..*len).flat_map(|token| (0..heads).map(move |head| (token, head))) {
            let by = factor(tensor, sequence, head / group);
            for element in 0..dim {
                let x = field.element(sequence, token, head, element);
                *x = f64::from(E4m3::from_f32((*x / by) as f32).to_f32()) * by;
            }
        }
    }
}

/// Runs a case, and returns the largest error as a part of its bound.
fn run<T: Float>(device: &Device, case: &Case) -> Result<f64>
where
    E4m3: Input<T>,
{
    let (mut data, heads_k) = (Data::new::<bf16>(case), case.heads / case.group);
    round(&mut data.q, 0, &case.queries, [case.heads, case.group, case.dim]);
    round(&mut data.k, 1, &case.keys, [heads_k, 1, case.dim]);
    round(&mut data.v, 2, &case.keys, [heads_k, 1, case.dim_v]);
    let upload = |field: &Field, tensor: usize, group: usize| {
        field.upload_as(device, |sequence, head, x| E4m3::from_f32((x / factor(tensor, sequence, head / group)) as f32))
    };
    let (q, k, v) = (upload(&data.q, 0, case.group)?, upload(&data.k, 1, 1)?, upload(&data.v, 2, 1)?);
    let shape = [case.queries.len(), heads_k];
    let factors = [0, 1, 2].map(|tensor| {
        let all = (0..shape[0] * 3 + heads_k).map(|at| 2f32.powi(((at + tensor) % 3) as i32 - 1));
        device.upload(&all.collect::<Vec<_>>())
    });
    let [q_factors, k_factors, v_factors] = factors;
    let (q_factors, k_factors, v_factors) = (q_factors?, k_factors?, v_factors?);
    let extras = Extras::<T>::new(device, case, &data)?;
    let options = extras
        .options(case, &data)?
        .q_descale(TensorRef::strided(&q_factors, shape, STRIDES[0])?)
        .k_descale(TensorRef::strided(&k_factors, shape, STRIDES[1])?)
        .v_descale(TensorRef::strided(&v_factors, shape, STRIDES[2])?);
    let mut run = Run::<T>::new(device, case, &data)?;
    let [strides, shape] = Run::<T>::lse_shape(case);
    let lse = Some(TensorMut::strided(&mut run.lse, shape, strides)?);
    let results = Results { out: data.grad.tensor_mut(&mut run.out)?, lse };
    options.forward(device, data.q.tensor(&q)?, data.k.tensor(&k)?, data.v.tensor(&v)?, results)?;
    let (mut out, mut logs, mut worst) = (run.out.download()?, run.lse.download()?, 0.0f64);
    for (sequence, head) in (0..case.queries.len()).flat_map(|s| (0..case.heads).map(move |head| (s, head))) {
        let mut exact = reference::forward(case, &data, sequence, head);
        exact.round(case.unit());
        let extents = [sequence, head, case.queries[sequence], case.dim_v];
        worst = worst.max(compare("O", case, &data.grad, &mut out, extents, &exact.out));
        run.compare_logs(&mut logs, [sequence, head], &exact.lse);
    }
    assert!(out.iter().all(|x| x.to() == CANARY), "something else is written: {case:?}");
    Ok(worst)
}

/// Runs a case by the kernel that the library chooses.
pub fn check(case: &Case) {
    let plain = case.left.is_none() && matches!(case.right, None | Some(0)) && case.cap == 0.0 && case.bias == 0;
    let dense = !case.packed && case.dim == case.dim_v && [64, 128, 256].contains(&case.dim);
    let case = Case { narrow: plain && dense && !case.portable, ..case.clone() };
    let worst = if case.half { run::<f16>(&device(), &case) } else { run::<bf16>(&device(), &case) };
    let worst = worst.unwrap_or_else(|error| panic!("{error} in {case:?}"));
    println!("e4m3: {worst:.3} of the bound: {case:?}");
}

/// A random case of the Hopper kernel, or one of any options.
pub fn random_case(seed: u64, longest: usize) -> Case {
    if seed.is_multiple_of(3) {
        let case = random::random_case(seed, longest);
        return Case { dim: case.dim.next_multiple_of(16), dim_v: case.dim_v.next_multiple_of(16), ..case };
    }
    let mut random = Random(seed);
    let r = &mut random;
    let batch = 1 + r.below(2);
    let dim = [64, 128, 256][r.below(3)];
    let group = 1 + r.below(3);
    Case {
        queries: vec![r.below(longest) + 1; batch],
        keys: vec![r.below(longest) + 1; batch],
        heads: group * (1 + r.below(2)),
        group,
        dim,
        dim_v: dim,
        right: r.chance(50).then_some(0),
        top_left: r.chance(30),
        scale: r.chance(70).then_some(0.4),
        layout: if r.chance(50) { Layout::Bshd } else { Layout::Bhsd },
        half: r.chance(50),
        seed,
        portable: r.chance(25),
        ..Case::default()
    }
}

#[test]
fn all_keys_of_bytes() {
    let case = Case {
        queries: vec![70; 2],
        keys: vec![250; 2],
        heads: 2,
        group: 2,
        dim: 128,
        dim_v: 128,
        scale: Some(0.4),
        ..Case::default()
    };
    crate::thorough::one_in(2, [case.clone(), Case { portable: true, ..case }]).for_each(|case| check(&case));
}

#[test]
fn narrow_and_wide_rows_of_bytes() {
    let case =
        Case { queries: vec![200], keys: vec![170], right: Some(0), scale: Some(0.4), half: true, ..Case::default() };
    check(&case);
    check(&Case { queries: vec![30], keys: vec![150], dim: 256, dim_v: 256, half: false, ..case });
}

/// Options that the Hopper kernel does not take.
#[test]
fn every_option_with_bytes() {
    check(&Case { dim_v: 48, ..Case::with_every_option() });
}

#[test]
fn random_cases_of_bytes() {
    let gpu = device().is_cuda();
    for seed in 0..if gpu { 24 } else { 3 } {
        check(&random_case(seed, if gpu { 500 } else { 120 }));
    }
}

#[test]
fn wrong_calls_with_bytes() {
    let device = device();
    let bytes = device.zeros::<E4m3>(4 * 64).unwrap();
    let wide = device.zeros::<bf16>(4 * 64).unwrap();
    let mut out = device.zeros::<bf16>(4 * 64).unwrap();
    let factors = device.upload(&[1.0f32; 2]).unwrap();
    let shape = [1, 4, 1, 64];
    let rows = bytes.tile(shape).unwrap();
    let two = factors.tile([1, 2]).unwrap();
    let error = Attention::new().k_descale(two).forward(&device, rows, rows, rows, out.tile_mut(shape).unwrap());
    let message = error.unwrap_err().to_string();
    assert!(message.contains("the factors of K have the shape [1, 2]"), "{message}");
    let one = factors.tile([2, 1]).unwrap();
    let rows = wide.tile(shape).unwrap();
    let error = Attention::new().q_descale(one).forward(&device, rows, rows, rows, out.tile_mut(shape).unwrap());
    let message = error.unwrap_err().to_string();
    assert!(message.contains("factors of Q, K or V"), "{message}");
    let short = bytes.tile([1, 4, 1, 24]).unwrap();
    let error = Attention::new().forward(&device, short, short, short, out.tile_mut([1, 4, 1, 24]).unwrap());
    let message = error.unwrap_err().to_string();
    assert!(message.contains("rows of Q have 24 elements"), "{message}");
}
