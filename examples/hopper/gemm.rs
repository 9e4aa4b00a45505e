//! C = A · B on Hopper's tensor cores: the algorithms of `ptx_kernels::gemm` that claim or share tiles against the sums in `f64`, and the one that
//! the library chooses for a large square.

use ptx_examples::Report;
use ptx_examples::product::{Product, flops};
use ptx_kernels::gemm::{Gemm, algorithms};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorRef};
use std::time::Duration;

#[allow(unused_imports, reason = "the tests assemble its PTX")]
pub(crate) use ptx_kernels::gemm::sm90_probe as kernels;

/// The product whose time is reported on a GPU.
const LARGE: [usize; 3] = [8192; 3];

/// The schedulers: clusters claim tiles, or share those of the last round. And how many of the shapes run, on the CPU device and on a GPU.
const SCHEDULERS: [(&str, [usize; 2]); 2] = [("claimed", [1, 1]), ("streamk", [2, 2])];

/// Every algorithm for `bf16`, and those that share tiles with more tiles than clusters. Where there is no such GPU, the CPU device runs one of each
/// scheduler.
pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let shapes =
        if device.is_cuda() { [[1000, 1048, 1032], [5000, 5128, 1032]] } else { [[136, 264, 264], [520, 392, 136]] };
    let (mut error, mut time) = (0.0, Duration::MAX);
    for (scheduler, count) in SCHEDULERS {
        let names = algorithms("bf16").filter(|name| name.ends_with(scheduler));
        for name in names.take(if device.is_cuda() { usize::MAX } else { 1 }) {
            for shape in &shapes[..count[usize::from(device.is_cuda())]] {
                let (off, took) = check(device, Some(name), *shape)?;
                (error, time) = (f64::max(error, off), time.min(took));
            }
        }
    }
    let mut shape = shapes[0];
    if device.is_cuda() {
        shape = LARGE;
        let (off, took) = check(device, None, shape)?;
        (error, time) = (f64::max(error, off), took);
    }
    let [m, n, k] = shape;
    Ok(Report {
        name: "hopper_gemm",
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k}"),
        error,
        limit: 1.0,
        time,
        figure: flops(shape, time),
    })
}

/// The error of an algorithm, or of the library's choice, as a share of its limit, and its time.
fn check(device: &Device, name: Option<&str>, shape @ [m, n, k]: [usize; 3]) -> Result<(f64, Duration)> {
    // `m128n256k64_2x1_kn_claimed`: A lies along K, and B along N.
    let is_along =
        |operand: usize, other: char| name.and_then(|name| name.split('_').nth(2)?.chars().nth(operand)) == Some(other);
    let (a_along_m, b_along_n) = (is_along(0, 'm'), is_along(1, 'n'));
    let mut product = Product::<bf16>::new(shape, 31);
    if a_along_m {
        product = product.a_by_columns();
    }
    if b_along_n {
        product = product.by_columns();
    }
    product.check(device, |stream, a, b, c| {
        let (row, column) = (|n| [n, 1], |n| [1, n]);
        let a = TensorRef::strided(a, [m, k], if a_along_m { column(m) } else { row(k) })?;
        let b = TensorRef::strided(b, [k, n], if b_along_n { row(n) } else { column(k) })?;
        let gemm = Gemm::<bf16, 2>::new().raster(3, 2);
        let mut gemm = match name {
            Some(name) => gemm.algorithm(name, 1),
            None => Gemm::new(),
        };
        gemm.run(stream, a, b, c.tile_mut([m, n])?)
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
