//! The forward pass.

use super::row::{GROWING, ROWS, Row, SMALL};
use crate::bench::{Bench, Case, Work};
use crate::data;
use crate::rivals::cudnn::{self, Dnn};
use crate::rivals::fa3::Fa3;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// The kernel's name.
const KERNEL: &str = "attention bf16";
/// Error bound: the rounding of P and O.
const LIMIT: f64 = 6e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    for row in bench.sizes(ROWS, SMALL).iter().chain(bench.sizes(GROWING, &[])) {
        if bench.wants(KERNEL, &row.to_string()) {
            one(bench, row)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, row: &Row) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let (shape, shape_k) = (row.shape(), row.shape_k());
    let mut normal = |shape: [usize; 4]| data::normal::<bf16>(&device, &stream, shape.iter().product(), bench.seed());
    let mut operands = [normal(shape)?, normal(shape_k)?, normal(shape_k)?];
    let [q, k, _] = &mut operands;
    row.grow(q, k)?;
    let starts = device.upload(&row.starts().iter().map(|start| *start as i32).collect::<Vec<_>>())?;
    let (q, k, v) = (operands[0].tile(shape)?, operands[1].tile(shape_k)?, operands[2].tile(shape_k)?);
    let options = row.options(&starts)?;
    let out = RefCell::new(device.zeros::<bf16>(shape.iter().product())?);
    let lse = device.zeros::<f32>(row.shape_lse().iter().product())?;
    let mut case = Case {
        kernel: KERNEL,
        size: row.to_string(),
        work: Work::Flops(row.flops()),
        poison: Box::new(|stream| data::poison(stream, &mut out.borrow_mut())),
        check: Box::new(|stream| error(stream, row, &operands, &out.borrow())),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    case.ours("ours", |stream| options.forward(stream, q, k, v, out.borrow_mut().tile_mut(shape)?));
    if !bench.options.alone {
        let addresses = [&operands[0], &operands[1], &operands[2], &out.borrow()].map(Buffer::address);
        let plan = Fa3::open(&device, &stream)
            .and_then(|library| library.forward(row.problem(addresses, lse.address(), starts.address())));
        case.rival_if("FlashAttention-3", plan.map(|plan| move |_: &Stream| plan.launch()));
        if row.window.is_none() && !row.packed {
            let plan = by_cudnn(bench, row, addresses);
            case.rival_if("cuDNN", plan.map(|plan| move |_: &Stream| plan.launch()));
        }
    }
    bench.contest(case)
}

/// The library on the same memory.
fn by_cudnn(bench: &Bench, row: &Row, addresses: [u64; 4]) -> Result<cudnn::Plan> {
    let attention = cudnn::Attention {
        sequences: row.batch,
        heads: [row.heads, row.heads / row.group],
        tokens: [row.tokens; 2],
        width: row.dim,
        causal: row.causal,
    };
    Dnn::open(&bench.device, &bench.stream)?.plan(attention.graphs(), &addresses, &bench.stream)
}

/// Error of some rows against the reference; NaN if any element is NaN.
fn error(stream: &Stream, row: &Row, operands: &[Buffer<bf16>; 3], out: &Buffer<bf16>) -> Result<f64> {
    let [q, k, v] = operands;
    row.error(stream, [&q.download()?, &k.download()?, &v.download()?], out)
}
