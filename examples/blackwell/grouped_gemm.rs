//! The kernel of `ptx_kernels::grouped_gemm::blackwell`, a matrix for each group of rows, against the sums in `f64`.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_examples::product::{Product, offsets};
use ptx_launch::prelude::*;

pub(crate) use ptx_kernels::grouped_gemm::blackwell::kernels;

use kernels::grouped_gemm;

/// N and K, and the rows of each group: some empty, some of many tiles, none a whole number of them.
const SHAPES: [([usize; 2], &[usize]); 3] =
    [([256, 256], &[130, 0, 7, 128, 300, 1]), ([136, 72], &[0, 0, 50]), ([8, 8], &[3])];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let mut found = Vec::new();
    for (seed, ([n, k], groups)) in SHAPES.into_iter().enumerate() {
        let offsets = device.upload(&offsets(groups, 0))?;
        let (m, count) = (groups.iter().sum(), groups.len());
        found.push(Product::<bf16>::grouped([m, n, k], groups, seed as u32).check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([count, n, k])?, c.tile_mut([m, n])?);
            grouped_gemm::n128::<bf16>(stream, a, b, c, &offsets, 3)
        })?);
        found.push(Product::<f16>::grouped([m, n, k], groups, seed as u32).check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([count, n, k])?, c.tile_mut([m, n])?);
            grouped_gemm::n256_f16::<f16>(stream, a, b, c, &offsets, 2)
        })?);
    }
    Ok(blackwell::report("blackwell_grouped_gemm", device, "6 groups, 256 × 256", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
