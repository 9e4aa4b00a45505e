//! The smallest kernel: one thread, one element.
//!
//! `a`, `b` and `c` are registers with the addresses of the slices; `wide(i) * 4` is `mul.wide.u32`, one instruction.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::prelude::*;

/// c = a + b
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(a.len() >= n, b.len() >= n, c.len() >= n)))]
pub fn vector_add(a: &[f32], b: &[f32], c: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let offset: u64 = wide(i) * 4;
        let (pa, pb, pc): (u64, u64, u64) = (a + offset, b + offset, c + offset);
        let (x, y): (f32, f32);
        ptx! {
            ld.global.f32   x, [pa];
            ld.global.f32   y, [pb];
            add.rn.f32      x, x, y;
            st.global.f32   [pc], x;
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 18);
    let (x, y) = (random(n, 1), random(n, 2));
    let (a, b) = (device.upload(&x)?, device.upload(&y)?);
    let mut c = device.upload(&vec![f32::NAN; n as usize])?;
    let stream = device.stream();
    let time = timer(device).measure(&stream, || vector_add(&stream, &a, &b, &mut c, n))?.median();
    let reference = x.iter().zip(&y).map(|(x, y)| f64::from(*x) + f64::from(*y));
    Ok(Report {
        name: "vector_add",
        device: device.name().to_owned(),
        size: format!("{n} f32"),
        error: relative_error(&c.download()?, reference),
        limit: 1e-7,
        time,
        figure: bandwidth(12 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
