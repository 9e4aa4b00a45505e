//! RMSNorm by the kernels of the library that run on every chip (`ptx-kernels/src/norm/portable.rs`).

use ptx_examples::Report;
use ptx_examples::rows::tasks::{self, RMS_EPSILON};
use ptx_examples::rows::{Task, shapes};
use ptx_kernels::norm::{self, Norm};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The text that ptxas takes.
pub(crate) mod kernels {
    #[allow(dead_code, reason = "the tests assemble it")]
    pub(crate) const PTX: &str = ptx_kernels::norm::MODULES[0].1;
}

pub(crate) const TASK: Task = tasks::rms_norm("ampere_rms_norm");

/// Normalizes `rows` rows.
fn launch<T: norm::Float>(
    stream: &Stream,
    inputs: &[Buffer<T>],
    out: &mut Buffer<T>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let (shape, columns) = ([rows as usize, columns as usize], columns as usize);
    let norm = Norm::rms(RMS_EPSILON).weight(inputs[1].tile([columns])?);
    norm.portable().forward(stream, inputs[0].tile(shape)?, out.tile_mut(shape)?)
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
