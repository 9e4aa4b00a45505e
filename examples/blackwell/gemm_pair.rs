//! C = A · B with `tcgen05`, two blocks for each tile, by `ptx_kernels::gemm`, against the sums in `f64`.
//!
//! For `sm_100a`. Where there is no such chip, the CPU device runs it; nobody has measured it here.

use ptx_examples::Report;
use ptx_examples::blackwell;
use ptx_examples::product::Product;
use ptx_kernels::gemm::Gemm;
use ptx_launch::TensorRef;
use ptx_launch::prelude::*;

#[allow(unused_imports, reason = "the tests assemble its PTX")]
pub(crate) use ptx_kernels::gemm::sm100_tcgen05 as kernels;

/// M, N and K: whole tiles; edges in every dimension; less than a tile; and more tiles than pairs of blocks.
const SHAPES: [[usize; 3]; 4] = [[512, 512, 256], [300, 136, 72], [8, 8, 8], [512, 768, 128]];

/// Tiles of 128 and of 256 columns.
const ALGORITHMS: [&str; 2] = ["m128n128k64_2x1_kk_tcgen05", "m128n256k64_2x1_kk_tcgen05"];

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let device = &blackwell::device(device);
    let mut found = Vec::new();
    for (seed, shape @ [m, n, k]) in SHAPES.into_iter().enumerate() {
        let product = Product::<bf16>::new(shape, seed as u32);
        for algorithm in ALGORITHMS {
            found.push(product.check(device, |stream, a, b, c| {
                let b = TensorRef::from(b.tile([n, k])?).transposed();
                Gemm::<bf16, 2>::new().algorithm(algorithm, 1).raster(2, 1).run(
                    stream,
                    a.tile([m, k])?,
                    b,
                    c.tile_mut([m, n])?,
                )
            })?);
        }
    }
    found.push(Product::<f16>::new([256, 128, 192], 9).check(device, |stream, a, b, c| {
        let b = TensorRef::from(b.tile([128, 192])?).transposed();
        Gemm::<f16, 2>::new().algorithm(ALGORITHMS[0], 1).run(stream, a.tile([256, 192])?, b, c.tile_mut([256, 128])?)
    })?);
    Ok(blackwell::report("blackwell_gemm_pair", device, "512 × 512 × 256 bf16", &found))
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
