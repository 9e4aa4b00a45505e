//! The backward pass. The reference is the library's portable kernels, whose error against `f64` its tests bound.

use super::row::{BIASED, ROWS, Row, SMALL};
use crate::bench::{Bench, Case, Work};
use crate::data;
use crate::rivals::fa3::{self, Fa3};
use ptx_kernels::attention::{Grads, Results, Saved};
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result, TensorRef};
use std::cell::RefCell;

/// The kernel's name.
const KERNEL: &str = "attention backward bf16";
/// For a rehearsal, with a bias.
const SMALL_BIASED: &[Row] = &[Row { bias: true, ..Row::new(2, 2, 40, 64).causal() }];
/// Error bound: the rounding of P and dS, and of the gradients, on both sides.
const LIMIT: f64 = 1e-2;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    for row in bench.sizes(ROWS, SMALL).iter().chain(bench.sizes(BIASED, SMALL_BIASED)) {
        if bench.wants(KERNEL, &row.to_string()) {
            one(bench, row)?;
        }
    }
    Ok(())
}

/// Buffers of the gradients of Q, K and V.
pub type Gradients = [Buffer<bf16>; 3];

/// The gradients as tensors.
pub fn grads<'a>(row: &Row, [q, k, v]: &'a mut Gradients) -> Result<Grads<'a, bf16>> {
    let (shape, shape_k) = (row.shape(), row.shape_k());
    Ok(Grads { q: q.tile_mut(shape)?.into(), k: k.tile_mut(shape_k)?.into(), v: v.tile_mut(shape_k)?.into() })
}

/// The operands of the backward pass: the inputs (Q, K, V and the gradient of the output) and the results of the forward pass.
pub fn saved<'a>(
    row: &Row,
    [q, k, v, out_grad]: [&'a Buffer<bf16>; 4],
    out: &'a Buffer<bf16>,
    lse: &'a Buffer<f32>,
) -> Result<Saved<'a, bf16>> {
    let (shape, shape_k) = (row.shape(), row.shape_k());
    Ok(Saved {
        q: q.tile(shape)?.into(),
        k: k.tile(shape_k)?.into(),
        v: v.tile(shape_k)?.into(),
        out: out.tile(shape)?.into(),
        lse: lse.tile(row.shape_lse())?.into(),
        out_grad: out_grad.tile(shape)?.into(),
    })
}

fn one(bench: &mut Bench, row: &Row) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let shapes = [row.shape(), row.shape_k(), row.shape_k()];
    let lens = shapes.map(|shape| shape.iter().product::<usize>());
    let mut normal = |len: usize| data::normal::<bf16>(&device, &stream, len, bench.seed());
    let (q, k, v, out_grad) = (normal(lens[0])?, normal(lens[1])?, normal(lens[2])?, normal(lens[0])?);
    let starts = device.upload(&row.starts().iter().map(|start| *start as i32).collect::<Vec<_>>())?;
    let zeros =
        || -> Result<Gradients> { Ok([device.zeros(lens[0])?, device.zeros(lens[1])?, device.zeros(lens[2])?]) };
    let (mut expected, found) = (zeros()?, RefCell::new(zeros()?));
    let (mut out, mut lse) = (device.zeros(lens[0])?, device.zeros(row.shape_lse().iter().product())?);
    let [bias_shape, bias_strides] = row.shape_bias();
    let bias = row.bias.then(|| normal(bias_shape[1..].iter().product())).transpose()?;
    let mut options = row.options(&starts)?;
    if let Some(bias) = &bias {
        options = options.bias(TensorRef::strided(bias, bias_shape, bias_strides)?);
    }
    let (tq, tk, tv) = (q.tile(shapes[0])?, k.tile(shapes[1])?, v.tile(shapes[2])?);
    let logs = Some(lse.tile_mut(row.shape_lse())?.into());
    options.forward(&stream, tq, tk, tv, Results { out: out.tile_mut(shapes[0])?.into(), lse: logs })?;
    let saved = saved(row, [&q, &k, &v, &out_grad], &out, &lse)?;
    options.portable().backward(&stream, &saved, grads(row, &mut expected)?, None)?;
    let mut case = Case {
        kernel: KERNEL,
        size: row.to_string(),
        work: Work::Flops(2.5 * row.flops()),
        poison: Box::new(|stream| found.borrow_mut().iter_mut().try_for_each(|grad| data::poison(stream, grad))),
        check: Box::new(|stream| error(stream, &found.borrow(), &expected)),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    case.ours("ours", |stream| options.backward(stream, &saved, grads(row, &mut found.borrow_mut())?, None));
    case.ours("deterministic", |stream| {
        options.deterministic().backward(stream, &saved, grads(row, &mut found.borrow_mut())?, None)
    });
    if !bench.options.alone {
        let inputs = [q.address(), k.address(), v.address(), out.address()];
        let problem = row.problem(inputs, lse.address(), starts.address());
        let [q_grad, k_grad, v_grad] = found.borrow().each_ref().map(Buffer::address);
        let problem = fa3::Problem { gradients: [out_grad.address(), q_grad, k_grad, v_grad], ..problem };
        let plan = match row.bias {
            true => Err(Error::other("it takes no bias")),
            false => Fa3::open(&device, &stream).and_then(|library| library.backward(problem)),
        };
        case.rival_if("FlashAttention-3", plan.map(|plan| move |_: &Stream| plan.launch()));
    }
    bench.contest(case)
}

/// The largest error of a gradient.
fn error(stream: &Stream, found: &Gradients, expected: &Gradients) -> Result<f64> {
    let mut worst: f64 = 0.0;
    for (found, expected) in found.iter().zip(expected) {
        worst = data::worse(worst, data::error(stream, found, expected)?);
    }
    Ok(worst)
}
