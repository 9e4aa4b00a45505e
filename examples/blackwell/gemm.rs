//! The kernel of `ptx_kernels::gemm::blackwell::gemm`, a block for each tile, against the sums in `f64`.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_examples::product::Product;
use ptx_launch::prelude::*;

pub(crate) use ptx_kernels::gemm::blackwell::gemm::kernels;

use kernels::gemm;

/// M, N and K, and how many blocks share the tiles: whole tiles; edges in every dimension; less than a tile; and more
/// tiles than blocks.
const SHAPES: [([usize; 3], u32); 4] =
    [([256, 256, 256], 4), ([200, 136, 72], 2), ([8, 8, 8], 1), ([384, 256, 128], 2)];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let mut found = Vec::new();
    for (seed, (shape, blocks)) in SHAPES.into_iter().enumerate() {
        let ([m, n, k], product) = (shape, Product::<bf16>::new(shape, seed as u32));
        found.push(product.check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
            gemm::n128::<bf16>(stream, a, b, c, blocks, 2)
        })?);
        found.push(product.check(device, |stream, a, b, c| {
            let (a, b, c) = (a.tile([m, k])?, b.tile([n, k])?, c.tile_mut([m, n])?);
            gemm::n256::<bf16>(stream, a, b, c, blocks, 2)
        })?);
    }
    found.push(Product::<f16>::new([256, 128, 192], 9).check(device, |stream, a, b, c| {
        let (a, b, c) = (a.tile([256, 192])?, b.tile([128, 192])?, c.tile_mut([256, 128])?);
        gemm::n128_f16::<f16>(stream, a, b, c, 2, 1)
    })?);
    Ok(blackwell::report("blackwell_gemm", device, "256 × 256 × 256 bf16", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
