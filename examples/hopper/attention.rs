//! Attention by the library: O = softmax(Q · Kᵀ / √dim) · V for every head of every sequence. On Hopper it is the kernel with TMA and
//! `wgmma` (`ptx-kernels/src/attention/hopper/forward.rs`), on other devices the one for `sm_80` and newer.

use ptx_examples::attention::Task;
use ptx_examples::parallel::{generate, split};
use ptx_examples::{Report, random_float, relative_error, timer};
use ptx_kernels::attention::Attention;
#[allow(unused_imports, reason = "the tests assemble its PTX")]
pub(crate) use ptx_kernels::attention::hopper_forward as kernels;
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// Rows of the output that are compared; of larger ones so many, evenly spread, and the first and the last.
const COMPARED: usize = 2304;

fn check(device: &Device, task: &Task, report: &mut Report) -> Result<()> {
    let operand = |shape: [usize; 4], seed| -> Vec<bf16> {
        generate(shape.iter().product(), |at| bf16::from_f32(2.0 * random_float(at as u32, seed)))
    };
    let (shape, shape_k) = (task.shape(), task.shape_k());
    let (q, k, v) = (operand(shape, 1), operand(shape_k, 2), operand(shape_k, 3));
    let (dq, dk, dv) = (device.upload(&q)?, device.upload(&k)?, device.upload(&v)?);
    let (tq, tk, tv) = (dq.tile(shape)?, dk.tile(shape_k)?, dv.tile(shape_k)?);
    let mut out = device.upload(&vec![bf16::NAN; q.len()])?;
    let options = if task.causal { Attention::new().causal() } else { Attention::new() };
    let stream = device.stream();
    let run = || options.forward(&stream, tq, tk, tv, out.tile_mut(shape)?);
    let time = timer(device).measure(&stream, run)?.median();
    let result: Vec<f32> = out.download()?.into_iter().map(bf16::to_f32).collect();

    let (dim, rows) = (task.dim, result.len() / task.dim);
    // An odd step meets every place in a tile.
    let step = rows.div_ceil(COMPARED) | 1;
    let compared: Vec<usize> = (0..rows).step_by(step).chain([rows - 1]).collect();
    let expected = split(compared.len(), dim * task.tokens, |some| {
        compared[some].iter().flat_map(|row| task.exact_row([&q, &k, &v], *row)).collect::<Vec<_>>()
    });
    let found: Vec<f32> = compared.iter().flat_map(|row| &result[row * dim..][..dim]).copied().collect();
    let error = relative_error(&found, expected.concat());
    report.error = report.error.max(if result.iter().all(|x| x.is_finite()) { error } else { f64::INFINITY });
    report.time = time;
    report.size = format!("{} × {} × {} × {dim}", task.batch, task.tokens, task.heads);
    report.figure = format!("{:.3} TFLOP/s", task.flops() / time.as_secs_f64().max(1e-12) / 1e12);
    Ok(())
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut report = Report {
        name: "attention",
        device: device.name().to_owned(),
        size: String::new(),
        error: 0.0,
        limit: 6e-3,
        time: std::time::Duration::ZERO,
        figure: String::new(),
    };
    let tokens = if device.is_cuda() { 1000 } else { 136 };
    for (dim, causal) in [(64, false), (64, true), (128, true), (128, false)] {
        check(device, &Task { batch: 2, tokens, heads: 2, group: 2, dim, causal }, &mut report)?;
    }
    if device.is_cuda() {
        // The figure: four sequences of 4096 tokens.
        let large = Task { batch: 4, tokens: 4096, heads: 16, group: 1, dim: 128, causal: false };
        check(device, &large, &mut report)?;
    }
    Ok(report)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
