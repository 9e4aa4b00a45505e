//! A kernel that another compiler made: `kernels/dot.ptx` is nvcc's output for `kernels/dot.cu`.
//!
//! `ptx_file!` reads and checks it when the program is built. The signature gives its parameters their Rust types; a
//! wrong count or width does not compile.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::prelude::*;

ptx_file!("kernels/dot.ptx",
    #[ptx_kernel(block = 256, grid = 128, unsafe(requires(a.len() >= n, b.len() >= n, out.len() >= 1)))]
    pub fn dot(a: &[f32], b: &[f32], out: &mut [f32], n: u32));

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 17);
    let positive = |seed| random(n, seed).into_iter().map(f32::abs).collect::<Vec<_>>();
    let (x, y) = (positive(12), positive(13));
    let (a, b) = (device.upload(&x)?, device.upload(&y)?);
    let mut out = device.zeros::<f32>(1)?;
    let stream = device.stream();
    dot(&stream, &a, &b, &mut out, n)?;
    let result = out.download()?;
    let time = timer(device).measure(&stream, || dot(&stream, &a, &b, &mut out, n))?.median();
    let reference: f64 = x.iter().zip(&y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
    Ok(Report {
        name: "ptx_file",
        device: device.name().to_owned(),
        size: format!("{n} f32"),
        error: relative_error(&result, [reference]),
        limit: 1e-5,
        time,
        figure: bandwidth(8 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
