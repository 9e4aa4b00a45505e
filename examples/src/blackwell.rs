//! Shared parts of the examples for `sm_100a`: the device that can run them, and the line of their report.

use crate::Report;
use crate::product::Product;
use ptx_kernels::gemm::Gemm;
use ptx_launch::TensorRef;
use ptx_launch::prelude::*;
use std::time::Duration;

/// The text in place of a figure where the CPU device runs an example.
pub const NO_FIGURE: &str = "no chip, no figure";

/// The device if it can run `sm_100a`, else the CPU device, which can.
pub fn device(device: &Device) -> Device {
    crate::chip_or_cpu(device, (10, 0))
}

/// The line of an example of several checks: the worst error, and the first one's time.
pub fn report(name: &'static str, device: &Device, size: &str, found: &[(f64, Duration)]) -> Report {
    Report {
        name,
        device: device.name().to_owned(),
        size: size.to_owned(),
        error: found.iter().map(|(error, _)| *error).fold(0.0, f64::max),
        limit: 1.0,
        time: found.first().map_or(Duration::ZERO, |(_, time)| *time),
        figure: NO_FIGURE.to_owned(),
    }
}

/// Checks products of `bf16` with two algorithms each, and one of `f16` with the first of them.
///
/// # Errors
/// Those of a launch.
pub fn check_gemm(
    device: &Device,
    shapes: [[usize; 3]; 4],
    algorithms: [&str; 2],
) -> ptx_launch::Result<Vec<(f64, Duration)>> {
    let mut found = Vec::new();
    for (seed, shape @ [m, n, k]) in shapes.into_iter().enumerate() {
        let product = Product::<bf16>::new(shape, seed as u32);
        for algorithm in algorithms {
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
        Gemm::<f16, 2>::new().algorithm(algorithms[0], 1).run(stream, a.tile([256, 192])?, b, c.tile_mut([256, 128])?)
    })?);
    Ok(found)
}
