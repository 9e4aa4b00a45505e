//! Scalars and slices as parameters, vectors of four in one instruction, and an `fn` that is inlined.
//!
//! Four elements a thread: `ld.global.v4.f32 {x[..]}` is one 16-byte load into an array of registers.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::prelude::*;

/// y = alpha · x + y, for a length that four divides.
#[ptx_kernel(
    arch = "sm_80",
    block = 256,
    grid = n.div_ceil(1024),
    unsafe(requires(n % 4 == 0, x.len() >= n, y.len() >= n))
)]
pub fn saxpy(alpha: f32, #[align(16)] x: &[f32], #[align(16)] y: &mut [f32], n: u32) {
    const WIDTH: u32 = 4;

    /// A helper is a macro over registers: no call is made.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        let d: f32;
        ptx! { fma.rn.f32 d, a, b, c; }
        d
    }

    let first: u32 = (ctaid.x * ntid.x + tid.x) * WIDTH;
    if first < n {
        let (px, py) = (x.at(first), y.at(first));
        let (vx, vy): ([f32; WIDTH], [f32; WIDTH]);
        ptx! {
            ld.global.v4.f32 {vx[..]}, [px];
            ld.global.v4.f32 {vy[..]}, [py];
        }
        for i in 0..WIDTH {
            vy[i] = multiply_add(alpha, vx[i], vy[i]);
        }
        ptx! { st.global.v4.f32 [py], {vy[..]}; }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 18);
    let alpha = 0.75;
    let (hx, hy) = (random(n, 3), random(n, 4));
    let x = device.upload(&hx)?;
    let mut y = device.upload(&hy)?;
    let stream = device.stream();
    saxpy(&stream, alpha, &x, &mut y, n)?;
    let out = y.download()?;
    let time = timer(device).measure(&stream, || saxpy(&stream, alpha, &x, &mut y, n))?.median();
    let reference = hx.iter().zip(&hy).map(|(x, y)| f64::from(alpha) * f64::from(*x) + f64::from(*y));
    Ok(Report {
        name: "saxpy",
        device: device.name().to_owned(),
        size: format!("{n} f32"),
        error: relative_error(&out, reference),
        limit: 1e-7,
        time,
        figure: bandwidth(12 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
