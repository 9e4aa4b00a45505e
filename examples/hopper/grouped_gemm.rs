//! Grouped GEMM on Hopper, for a mixture of experts, with the kernels of `ptx_kernels::grouped_gemm`: every variant at ragged groups against
//! the sums in `f64`.

use ptx_examples::Report;
use ptx_examples::product::{Product, flops, offsets};
use ptx_examples::rows::Number;
use ptx_kernels::grouped_gemm::{GroupedGemm, Output, Variant, variants};
use ptx_launch::prelude::*;
use ptx_launch::{Result, TensorRef};
use std::time::Duration;

#[allow(unused_imports, reason = "the tests assemble its PTX")]
pub(crate) use ptx_kernels::grouped_gemm::hopper::kernels;

/// N and K, and the rows of each group: some empty, some of many tiles, none a whole number of them; more groups than a warp looks at.
fn shapes() -> [([usize; 2], Vec<usize>); 4] {
    let many = (0..40).map(|group| group % 3 * 7).collect();
    [([264, 72], vec![130, 0, 7, 128, 0]), ([72, 136], vec![0, 0, 260]), ([8, 8], vec![0]), ([16, 64], many)]
}

/// A variant's name, its error as a share of the limit, and its time.
type Found = (String, f64, Duration);

fn check<O: Number + Output>(device: &Device, grouped: GroupedGemm) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for (number, variant) in (0..).zip(variants::<O>()) {
        let has = |seed: u32| device.is_cuda() || seed == number % 4;
        for (seed, (shape, heights)) in (0..).zip(shapes()).filter(|(seed, _)| has(*seed)) {
            let (error, time) = check_one(device, grouped, variant, shape, &heights, seed)?;
            found.push((variant.to_string(), error, time));
        }
    }
    Ok(found)
}

/// The error and the time of one variant with groups of these heights.
fn check_one<O: Number + Output>(
    device: &Device,
    grouped: GroupedGemm,
    variant: Variant<O>,
    [n, k]: [usize; 2],
    heights: &[usize],
    seed: u32,
) -> Result<(f64, Duration)> {
    const AROUND: usize = 3;
    let product = Product::<bf16>::grouped([heights.iter().sum(), n, k], heights, seed).around(AROUND);
    let product = if variant.b_k_major() { product } else { product.by_columns() };
    let offsets = device.upload(&offsets(heights, AROUND))?;
    let (m, groups) = (product.shape()[0], heights.len());
    product.check(device, |stream, a, b, c| {
        let strides = if variant.b_k_major() { [k * n, 1, k] } else { [k * n, n, 1] };
        let b = TensorRef::strided(b, [groups, k, n], strides)?;
        let (a, c) = (a.tile([m, k])?.into(), c.tile_mut([m, n])?.into());
        grouped.run_variant(stream, variant, (a, b, c), &offsets)
    })
}

/// Every variant, with all shapes; where there is no such GPU, on the CPU device with one in turn.
pub(crate) fn run(device: &Device) -> Result<Report> {
    let device = &ptx_examples::chip_or_cpu(device, (9, 0));
    let grouped = GroupedGemm::new(device)?;
    let found = [check::<bf16>(device, grouped)?, check::<f32>(device, grouped)?].concat();
    let worst = found.iter().max_by(|(_, x, _), (_, y, _)| x.total_cmp(y)).cloned().unwrap_or_default();
    let mut report = Report {
        name: "hopper_grouped_gemm",
        device: device.name().to_owned(),
        size: format!("{} ragged", found.len()),
        error: worst.1,
        limit: 1.0,
        time: worst.2,
        figure: format!("worst: {}", worst.0),
    };
    if let Some(variant) = variants::<bf16>().next().filter(|_| device.is_cuda()) {
        // As a mixture of experts has it: the figure is that of the variant for many tiles.
        let ([n, k], heights) = ([4096, 4096], [1500, 700, 0, 2048, 1001, 1279, 640, 1024]);
        let (error, time) = check_one(device, grouped, variant, [n, k], &heights, 9)?;
        let m = heights.iter().sum();
        report.error = report.error.max(error);
        report =
            Report { size: format!("8 groups, {m} × {n} × {k}"), time, figure: flops([m, n, k], time), ..report };
    }
    Ok(report)
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
