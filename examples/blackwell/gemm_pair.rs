//! C = A · B with `tcgen05`, two blocks for each tile, by `ptx_kernels::gemm`, against the sums in `f64`.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_launch::prelude::*;

#[allow(unused_imports, reason = "the tests assemble its PTX")]
pub(crate) use ptx_kernels::gemm::sm100_tcgen05 as kernels;

/// M, N and K: whole tiles; edges in every dimension; less than a tile; and more tiles than pairs of blocks.
const SHAPES: [[usize; 3]; 4] = [[512, 512, 256], [300, 136, 72], [8, 8, 8], [512, 768, 128]];

/// Tiles of 128 and of 256 columns.
const ALGORITHMS: [&str; 2] = ["m128n128k64_2x1_kk_tcgen05", "m128n256k64_2x1_kk_tcgen05"];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let found = blackwell::check_gemm(device, SHAPES, ALGORITHMS)?;
    Ok(blackwell::report("blackwell_gemm_pair", device, "512 × 512 × 256 bf16", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
