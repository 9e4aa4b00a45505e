//! LayerNorm by the library: on `sm_90` and later by kernels that are tuned for Hopper (`ptx-kernels/src/norm/hopper.rs`).

use ptx_examples::Report;
use ptx_examples::rows::tasks::{self, LAYER_EPSILON};
use ptx_examples::rows::{Task, shapes};
use ptx_kernels::norm::{self, Norm};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The text that ptxas takes.
pub(crate) mod kernels {
    #[allow(dead_code, reason = "the tests assemble it")]
    pub(crate) const PTX: &str = ptx_kernels::norm::MODULES[4].1;
}

pub(crate) const TASK: Task = tasks::layer_norm("hopper_layer_norm");

/// Normalizes `rows` rows.
fn launch<T: norm::Float>(
    stream: &Stream,
    inputs: &[Buffer<T>],
    out: &mut Buffer<T>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let (shape, columns) = ([rows as usize, columns as usize], columns as usize);
    let norm = Norm::layer(LAYER_EPSILON).weight(inputs[1].tile([columns])?).bias(inputs[2].tile([columns])?);
    norm.forward(stream, inputs[0].tile(shape)?, out.tile_mut(shape)?)
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut checks = TASK.on(device);
    for shape in shapes(device) {
        checks.shape(shape, launch::<f32>)?;
        checks.shape(shape, launch::<bf16>)?;
        checks.shape(shape, launch::<f16>)?;
    }
    Ok(checks.report())
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
