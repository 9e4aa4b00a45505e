//! All blocks at the same time: a cooperative launch divides a vector by its norm. `grid::sync` is between the sum and the division, where
//! two launches would be otherwise.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::prelude::*;

/// x = x / ‖x‖ by `blocks` blocks, which leave a part of the sum in `parts` each.
#[ptx_kernel(
    arch = "sm_80",
    block = 256,
    grid = blocks,
    cooperative,
    unsafe(requires(x.len() >= n, parts.len() >= blocks, n <= 1 << 31, blocks <= 1 << 20))
)]
pub fn normalize(x: &mut [f32], parts: &mut [f32], n: u32, blocks: u32) {
    let (first, step): (u32, u32) = (ctaid.x * 256 + tid.x, blocks * 256);
    let (mut i, mut sum): (u32, f32) = (first, 0.0);
    while i < n {
        let (at, value): (GlobalMut<f32>, f32);
        at = x.at(i);
        ptx! { ld.global.f32 value, [at]; }
        sum = value.fma(value, sum);
        i += step;
    }
    let part: f32 = block::reduce_sum::<8, f32>(sum);
    if tid.x == 0 {
        let own = parts.at(ctaid.x);
        ptx! { st.global.f32 [own], part; }
    }
    grid::sync();
    let (mut j, mut all): (u32, f32) = (tid.x, 0.0);
    while j < blocks {
        let (at, value): (GlobalMut<f32>, f32);
        at = parts.at(j);
        ptx! { ld.global.f32 value, [at]; }
        all += value;
        j += 256;
    }
    let square: f32 = block::reduce_sum::<8, f32>(all);
    let scale: f32;
    ptx! { rsqrt.approx.ftz.f32 scale, square; }
    i = first;
    while i < n {
        let (at, mut value): (GlobalMut<f32>, f32) = (x.at(i), 0.0);
        ptx! {
            ld.global.f32   value, [at];
            mul.rn.f32      value, value, scale;
            st.global.f32   [at], value;
        }
        i += step;
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let (n, blocks) = (elements(device, 1 << 24, 1 << 14) + 5, elements(device, 64, 4));
    let values = random(n, 51);
    let mut parts = device.zeros::<f32>(blocks as usize)?;
    let stream = device.stream();
    let mut x = device.upload(&values)?;
    normalize(&stream, &mut x, &mut parts, n, blocks)?;
    let found = x.download()?;
    let time = timer(device).measure(&stream, || normalize(&stream, &mut x, &mut parts, n, blocks))?.median();
    let norm = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    Ok(Report {
        name: "grid_sync",
        device: device.name().to_owned(),
        size: format!("{n} f32, {blocks} blocks"),
        error: relative_error(&found, values.iter().map(|x| f64::from(*x) / norm)),
        limit: 1e-5,
        time,
        figure: bandwidth(12 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
