//! C = A · B on Hopper's tensor cores, with the kernels of `ptx_kernels::gemm::hopper`: every variant against the sums in `f64`, and the
//! one that is fastest for a large square.

use ptx_examples::Report;
use ptx_examples::product::{Product, flops};
use ptx_kernels::gemm::hopper::{Layout, Order, Scratch, Variant, pick, variants};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorRef};
use std::cell::RefCell;
use std::time::Duration;

#[allow(unused_imports, reason = "the tests assemble its PTX")]
pub(crate) use ptx_kernels::gemm::hopper::gemm::kernels;

/// The product whose time is reported on a GPU.
const LARGE: [usize; 3] = [8192; 3];

/// Every variant for `bf16`, and those that share tiles with more tiles than clusters; on the CPU device where there is no such GPU.
pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let shapes =
        if device.is_cuda() { [[1000, 1048, 1032], [5000, 5128, 1032]] } else { [[136, 264, 264], [520, 392, 136]] };
    let scratch = RefCell::new(Scratch::new(device)?);
    let order = Order { band: 3, run: 2 };
    let (mut error, mut time) = (0.0, Duration::MAX);
    for variant in variants::<bf16>() {
        for shape in &shapes[..if variant.shares_tiles() { 2 } else { 1 }] {
            let (off, took) = check(device, variant, *shape, order, &scratch)?;
            (error, time) = (f64::max(error, off), time.min(took));
        }
    }
    let mut shape = if device.is_cuda() { LARGE } else { shapes[0] };
    let picked = pick::<bf16>(&scratch.borrow(), shape, Layout::K_MAJOR);
    match picked.filter(|_| device.is_cuda()) {
        Some((variant, order)) => {
            let (off, took) = check(device, variant, shape, order, &scratch)?;
            (error, time) = (f64::max(error, off), took);
        }
        None => shape = shapes[0],
    }
    let ([m, n, k], picked) = (shape, picked.map_or("none".to_owned(), |(variant, _)| variant.to_string()));
    Ok(Report {
        name: "hopper_gemm",
        device: device.name().to_owned(),
        size: format!("{m} × {n} × {k}, {picked}"),
        error,
        limit: 1.0,
        time,
        figure: flops(shape, time),
    })
}

/// The error of a variant as a share of its limit, and its time.
fn check(
    device: &Device,
    variant: Variant<bf16>,
    shape @ [m, n, k]: [usize; 3],
    order: Order,
    scratch: &RefCell<Scratch>,
) -> Result<(f64, Duration)> {
    let layout = variant.layout();
    let mut product = Product::<bf16>::new(shape, 31);
    if !layout.a_k_major {
        product = product.a_by_columns();
    }
    if !layout.b_k_major {
        product = product.by_columns();
    }
    product.check(device, |stream, a, b, c| {
        let (row, column) = (|n| [n, 1], |n| [1, n]);
        let a = TensorRef::strided(a, [m, k], if layout.a_k_major { row(k) } else { column(m) })?;
        let b = TensorRef::strided(b, [k, n], if layout.b_k_major { column(k) } else { row(n) })?;
        variant.launch(stream, (a, b, c.tile_mut([m, n])?.into()), order, &mut scratch.borrow_mut())
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
