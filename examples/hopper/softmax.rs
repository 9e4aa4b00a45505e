//! Softmax by the library, up to the width of a vocabulary: on `sm_90` and later a row lies in the registers of a cluster of blocks
//! (`ptx-kernels/src/softmax/hopper.rs`).

use ptx_examples::Report;
use ptx_examples::rows::{Task, shapes, tasks};
use ptx_kernels::softmax::{self, Softmax};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The text that ptxas takes.
pub(crate) mod kernels {
    #[allow(dead_code, reason = "the tests assemble it")]
    pub(crate) const PTX: &str = ptx_kernels::softmax::MODULES[2].1;
}

pub(crate) const TASK: Task = tasks::softmax("hopper_softmax");

/// Softmax of `rows` rows.
fn launch<T: softmax::Float>(
    stream: &Stream,
    inputs: &[Buffer<T>],
    out: &mut Buffer<T>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let shape = [rows as usize, columns as usize];
    Softmax::new().forward(stream, inputs[0].tile(shape)?, out.tile_mut(shape)?)
}

pub(crate) fn run(device: &Device) -> Result<Report> {
    let mut checks = TASK.on(device);
    for shape in shapes(device) {
        checks.shape(shape, launch::<f32>)?;
        checks.shape(shape, launch::<bf16>)?;
        checks.shape(shape, launch::<f16>)?;
    }
    let vocabulary = (if device.is_cuda() { 512 } else { 1 }, 128_256);
    checks.shape(vocabulary, launch::<f32>)?;
    checks.shape(vocabulary, launch::<bf16>)?;
    Ok(checks.report())
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
