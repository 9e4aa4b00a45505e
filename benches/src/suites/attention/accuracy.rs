//! The largest errors of both passes against `f64`, over all elements of small problems.

use super::backward::{self, Gradients};
use super::exact::{exact, largest_error};
use super::row::Row;
use crate::bench::{Bench, Case, Work};
use crate::data;
use crate::rivals::fa3::{self, Fa3};
use ptx_kernels::attention::Results;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// Lengths that fill tiles and that do not, heads that share keys, and longer sequences.
const ROWS: &[Row] = &[
    Row::new(1, 4, 1024, 64),
    Row::new(1, 4, 1024, 64).causal(),
    Row::new(2, 4, 777, 64).causal(),
    Row::new(1, 4, 1024, 128),
    Row::new(1, 4, 1024, 128).causal(),
    Row::new(2, 4, 777, 128).causal(),
    Row { group: 4, ..Row::new(1, 8, 1024, 128).causal() },
    Row::new(1, 2, 4096, 128),
    Row::new(1, 2, 4096, 128).causal(),
];
/// For a rehearsal.
const SMALL: &[Row] = &[Row { group: 2, ..Row::new(1, 2, 70, 64).causal() }];
/// The names of the cases: of the output, and of the gradients of Q, K and V.
const KERNELS: [&str; 4] = ["attention error O", "attention error dQ", "attention error dK", "attention error dV"];
/// Error bound: the rounding of P and dS, and of the results.
const LIMIT: f64 = 2e-2;

pub fn accuracy(bench: &mut Bench) -> Result<()> {
    for row in bench.sizes(ROWS, SMALL) {
        if bench.wants(KERNELS[0], &row.to_string()) {
            one(bench, row)?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, row: &Row) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let set = Set::new(bench, row)?;
    let [q, k, v, out_grad] = &set.inputs;
    let inputs = [q.download()?, k.download()?, v.download()?, out_grad.download()?];
    let exact = exact(row, inputs.each_ref().map(Vec::as_slice));
    let (set, exact) = (&set, &exact);
    for (at, kernel) in KERNELS.into_iter().enumerate() {
        let mut case = Case {
            kernel,
            size: row.to_string(),
            work: Work::Accuracy,
            poison: Box::new(|stream| set.poison(stream)),
            check: Box::new(move |_| Ok(largest_error(&set.result(at)?, &exact[at]))),
            limit: LIMIT,
            contestants: Vec::new(),
            absent: Vec::new(),
        };
        case.ours("ours", |stream| set.launch(row, stream));
        if !bench.options.alone {
            let plans = Fa3::open(&device, &stream)
                .and_then(|library| Ok((library.forward(set.problem(row))?, library.backward(set.problem(row))?)));
            let both = plans.map(|(forward, backward)| {
                move |_: &Stream| {
                    forward.launch()?;
                    backward.launch()
                }
            });
            case.rival_if("FlashAttention-3", both);
        }
        bench.check(case)?;
    }
    Ok(())
}

/// The memory of both passes.
struct Set {
    /// Q, K, V and the gradient of the output.
    inputs: [Buffer<bf16>; 4],
    starts: Buffer<i32>,
    out: RefCell<Buffer<bf16>>,
    lse: RefCell<Buffer<f32>>,
    grads: RefCell<Gradients>,
}

impl Set {
    fn new(bench: &mut Bench, row: &Row) -> Result<Set> {
        let (device, stream) = (bench.device.clone(), bench.stream.clone());
        let lens = [row.shape(), row.shape_k()].map(|shape| shape.iter().product());
        let mut normal = |len: usize| data::normal::<bf16>(&device, &stream, len, bench.seed());
        Ok(Set {
            inputs: [normal(lens[0])?, normal(lens[1])?, normal(lens[1])?, normal(lens[0])?],
            starts: device.upload(&row.starts().iter().map(|start| *start as i32).collect::<Vec<_>>())?,
            out: RefCell::new(device.zeros(lens[0])?),
            lse: RefCell::new(device.zeros(row.shape_lse().iter().product())?),
            grads: RefCell::new([device.zeros(lens[0])?, device.zeros(lens[1])?, device.zeros(lens[1])?]),
        })
    }

    /// Both passes of the library.
    fn launch(&self, row: &Row, stream: &Stream) -> Result<()> {
        let ([q, k, v, _], options) = (&self.inputs, row.options(&self.starts)?);
        let (shape, shape_k) = (row.shape(), row.shape_k());
        let (q, k, v) = (q.tile(shape)?, k.tile(shape_k)?, v.tile(shape_k)?);
        let (mut out, mut lse) = (self.out.borrow_mut(), self.lse.borrow_mut());
        let logs = Some(lse.tile_mut(row.shape_lse())?.into());
        options.forward(stream, q, k, v, Results { out: out.tile_mut(shape)?.into(), lse: logs })?;
        let saved = backward::saved(row, self.inputs.each_ref(), &out, &lse)?;
        options.backward(stream, &saved, backward::grads(row, &mut self.grads.borrow_mut())?, None)
    }

    /// Both passes of FlashAttention-3.
    fn problem(&self, row: &Row) -> fa3::Problem {
        let [q, k, v, out_grad] = self.inputs.each_ref().map(Buffer::address);
        let [q_grad, k_grad, v_grad] = self.grads.borrow().each_ref().map(Buffer::address);
        let tensors = [q, k, v, self.out.borrow().address()];
        let problem = row.problem(tensors, self.lse.borrow().address(), self.starts.address());
        fa3::Problem { gradients: [out_grad, q_grad, k_grad, v_grad], ..problem }
    }

    /// Fills all results with NaN.
    fn poison(&self, stream: &Stream) -> Result<()> {
        data::poison(stream, &mut self.out.borrow_mut())?;
        self.grads.borrow_mut().iter_mut().try_for_each(|grad| data::poison(stream, grad))
    }

    /// The output, or a gradient.
    fn result(&self, at: usize) -> Result<Vec<bf16>> {
        if at == 0 { self.out.borrow().download() } else { self.grads.borrow()[at - 1].download() }
    }
}
