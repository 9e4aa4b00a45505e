//! Attention against cuDNN, and against PyTorch, which runs in the companion (`benches/companion.py`) under the same names and
//! sizes.

use crate::bench::{Bench, Case, Work};
use crate::data;
use crate::rivals::cudnn::{self, Attention, Dnn};
use ptx_examples::attention::Task;
use ptx_examples::relative_error;
use ptx_kernels::attention::Attention as Kernel;
use ptx_launch::Result;
use ptx_launch::prelude::*;
use std::cell::RefCell;

/// Sequences, heads, tokens of a sequence, and a head's width.
const SIZES: &[(usize, usize, usize, usize)] =
    &[(4, 32, 4096, 64), (1, 32, 16384, 64), (4, 16, 4096, 128), (1, 16, 16384, 128)];
/// For a rehearsal.
const SMALL: &[(usize, usize, usize, usize)] = &[(1, 1, 200, 64)];
/// The kernel's name.
const KERNEL: &str = "attention bf16";
/// Number of rows that are compared with the reference.
const COMPARED: usize = 48;
/// Error bound: the rounding of P and O.
const LIMIT: f64 = 6e-3;

pub fn bf16(bench: &mut Bench) -> Result<()> {
    let sizes = bench.sizes(SIZES, SMALL).iter().flat_map(|size| [(*size, false), (*size, true)]);
    for ((batch, heads, tokens, dim), causal) in sizes {
        let size = format!("b{batch} h{heads} n{tokens} d{dim}{}", if causal { " causal" } else { "" });
        if bench.wants(KERNEL, &size) {
            one(bench, size, Task { batch, tokens, heads, group: 1, dim, causal })?;
        }
    }
    Ok(())
}

fn one(bench: &mut Bench, size: String, task: Task) -> Result<()> {
    let (device, stream) = (bench.device.clone(), bench.stream.clone());
    let shape = task.shape();
    let len = shape.iter().product();
    let operands = (0..3).map(|_| data::normal::<bf16>(&device, &stream, len, bench.seed()));
    let operands = operands.collect::<Result<Vec<_>>>()?;
    let (q, k, v) = (operands[0].tile(shape)?, operands[1].tile(shape)?, operands[2].tile(shape)?);
    let options = if task.causal { Kernel::new().causal() } else { Kernel::new() };
    let out = RefCell::new(device.zeros::<bf16>(len)?);
    let mut case = Case {
        kernel: KERNEL,
        size,
        work: Work::Flops(task.flops()),
        poison: Box::new(|stream| data::poison(stream, &mut out.borrow_mut())),
        check: Box::new(|stream| error(stream, &task, &operands, &out.borrow())),
        limit: LIMIT,
        contestants: Vec::new(),
        absent: Vec::new(),
    };
    case.ours("ours", |stream| options.forward(stream, q, k, v, out.borrow_mut().tile_mut(shape)?));
    if !bench.options.alone {
        let addresses = [&operands[0], &operands[1], &operands[2], &out.borrow()].map(Buffer::address);
        let rival = by_cudnn(bench, &task, addresses);
        case.rival_if("cuDNN", rival.map(|plan| move |_: &Stream| plan.launch()));
    }
    bench.contest(case)
}

/// The library on the same memory.
fn by_cudnn(bench: &Bench, task: &Task, addresses: [u64; 4]) -> Result<cudnn::Plan> {
    let attention = Attention {
        sequences: task.batch,
        heads: task.heads,
        length: task.tokens,
        width: task.dim,
        causal: task.causal,
    };
    Dnn::open(&bench.device, &bench.stream)?.plan(attention.graphs(), &addresses, &bench.stream)
}

/// Error of some rows against the reference; NaN if any element is NaN.
fn error(stream: &Stream, task: &Task, operands: &[Buffer<bf16>], out: &Buffer<bf16>) -> Result<f64> {
    if data::error(stream, out, out)?.is_nan() {
        return Ok(f64::NAN);
    }
    let host = operands.iter().map(Buffer::download).collect::<Result<Vec<_>>>()?;
    let dim = task.dim;
    let rows = task.batch * task.tokens * task.heads;
    let mut worst: f64 = 0.0;
    for at in 0..COMPARED {
        let row = (rows - 1) * at / (COMPARED - 1);
        let expected = task.exact_row([&host[0], &host[1], &host[2]], row);
        let found: Vec<f32> =
            out.slice(row * dim..(row + 1) * dim)?.download()?.into_iter().map(bf16::to_f32).collect();
        worst = worst.max(relative_error(&found, expected));
    }
    Ok(worst)
}
