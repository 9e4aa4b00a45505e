//! The forward pass with Q, K and V of `e4m3`.

use super::row::Row;
use crate::bench::{Bench, Case, Work};
use crate::data::{self, Factor};
use crate::rivals::fa3::{self, Fa3};
use ptx_kernels::attention::Attention;
use ptx_kernels::float8::E4m3;
use ptx_launch::prelude::*;
use ptx_launch::{Error, Result, TensorRef};
use std::cell::RefCell;

/// Head size 128, then the other head sizes.
const ROWS: &[Row] = &[
    Row::new(4, 16, 4096, 128),
    Row::new(4, 16, 4096, 128).causal(),
    Row::new(1, 16, 16384, 128),
    Row::new(1, 16, 16384, 128).causal(),
    Row::new(4, 32, 4096, 64),
    Row::new(4, 32, 4096, 64).causal(),
    Row::new(4, 8, 4096, 256),
    Row::new(4, 8, 4096, 256).causal(),
];
/// For a rehearsal.
const SMALL: &[Row] = &[Row::new(1, 1, 200, 64), Row { group: 2, ..Row::new(1, 2, 40, 128).causal() }];
/// The kernel's name.
const KERNEL: &str = "attention e4m3";
/// Error bound: the rounding of P to 4 bits.
const LIMIT: f64 = 8e-2;

pub fn e4m3(bench: &mut Bench) -> Result<()> {
    for row in bench.sizes(ROWS, SMALL) {
        if bench.wants(KERNEL, &row.to_string()) {
            one(bench, row)?;
        }
    }
    Ok(())
}

/// A buffer of bytes as a tensor.
fn tensor(bytes: &Buffer<u8>, shape: [usize; 4]) -> Result<TensorRef<'_, E4m3, 4>> {
    TensorRef::from(bytes.tile(shape)?).cast().ok_or_else(|| Error::other("bytes are elements of 8 bits"))
}

fn one(bench: &mut Bench, row: &Row) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let (shape, shape_k) = (row.shape(), row.shape_k());
    let mut normal = |shape: [usize; 4]| {
        let mut buffer = device.zeros::<u8>(shape.iter().product())?;
        <u8 as Factor>::draw(&stream, &mut buffer, bench.seed()).map(|()| buffer)
    };
    let operands = [normal(shape)?, normal(shape_k)?, normal(shape_k)?];
    let (q, k, v) = (tensor(&operands[0], shape)?, tensor(&operands[1], shape_k)?, tensor(&operands[2], shape_k)?);
    let options = Attention::new().window(None, row.causal.then_some(0));
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
        let [q, k, v] = operands.each_ref().map(Buffer::address);
        let problem = fa3::Problem { element: 2, ..row.problem([q, k, v, out.borrow().address()], lse.address(), 0) };
        let plan = Fa3::open(&device, &stream).and_then(|library| library.forward(problem));
        case.rival_if("FlashAttention-3", plan.map(|plan| move |_: &Stream| plan.launch()));
    }
    bench.contest(case)
}

/// Error of some rows against the reference; NaN if any element is NaN.
fn error(stream: &Stream, row: &Row, operands: &[Buffer<u8>; 3], out: &Buffer<bf16>) -> Result<f64> {
    let values: Vec<bf16> = (0..=u8::MAX).map(|bits| bf16::from_f32(E4m3(bits).to_f32())).collect();
    let exact = |bytes: &Buffer<u8>| -> Result<Vec<bf16>> {
        Ok(bytes.download()?.into_iter().filter_map(|bits| values.get(usize::from(bits)).copied()).collect())
    };
    let [q, k, v] = operands;
    row.error(stream, [&exact(q)?, &exact(k)?, &exact(v)?], out)
}
