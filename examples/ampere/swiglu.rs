//! SwiGLU by the library (`ptx-kernels/src/activation/elementwise.rs`), whose kernels run on every chip.

use ptx_examples::Report;
use ptx_examples::rows::{Task, shapes, tasks};
use ptx_kernels::activation::{self, swiglu};
use ptx_launch::Result;
use ptx_launch::prelude::*;

/// The text that ptxas takes.
pub(crate) mod kernels {
    #[allow(dead_code, reason = "the tests assemble it")]
    pub(crate) const PTX: &str = ptx_kernels::activation::MODULES[0].1;
}

pub(crate) const TASK: Task = tasks::swiglu("ampere_swiglu");

/// SwiGLU of two matrices.
fn launch<T: activation::Float>(
    stream: &Stream,
    inputs: &[Buffer<T>],
    out: &mut Buffer<T>,
    rows: u32,
    columns: u32,
) -> Result<()> {
    let shape = [rows as usize, columns as usize];
    swiglu(stream, inputs[0].tile(shape)?, inputs[1].tile(shape)?, out.tile_mut(shape)?)
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
