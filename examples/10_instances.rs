//! Generics: one kernel for two types and two widths. Each instance is an entry of one PTX module.
//!
//! A use with other arguments does not compile, and the error lists the instances that exist.

use ptx_examples::parallel::count;
use ptx_examples::{Report, bandwidth, elements, integers, timer};
use ptx_launch::prelude::*;

/// x\[i\] = max(x\[i\], floor), each thread `EACH` neighbors.
#[ptx_kernel(
    arch = "sm_80",
    block = 128,
    grid = n.div_ceil(128 * EACH),
    instances = [(f32, 1), (f32, 4), (u32, 1), (u32, 4)],
    unsafe(requires(n % EACH == 0, x.len() >= n))
)]
pub fn raise<T, const EACH: u32>(x: &mut [T], floor: T, n: u32) {
    let first: u32 = (ctaid.x * ntid.x + tid.x) * EACH;
    if first < n {
        let at = x.at(first);
        for i in 0..EACH {
            let value: T;
            ptx! {
                ld.global.{T} value, [at + 4 * i];
                max.{T} value, value, floor;
                st.global.{T} [at + 4 * i], value;
            }
        }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 18);
    let ints = integers(n, 14);
    let floats: Vec<f32> = ptx_examples::random(n, 15);
    let (mut x, mut y) = (device.upload(&ints)?, device.upload(&floats)?);
    let stream = device.stream();
    let time = timer(device).measure(&stream, || raise::<u32, 4>(&stream, &mut x, 1 << 31, n))?.median();
    raise::<f32, 1>(&stream, &mut y, 0.5, n)?;
    let (raised_ints, raised_floats) = (x.download()?, y.download()?);
    let wrong_ints = count(ints.len(), |at| raised_ints[at] != ints[at].max(1 << 31));
    let wrong_floats = count(floats.len(), |at| raised_floats[at] != floats[at].max(0.5));
    Ok(Report {
        name: "instances",
        device: device.name().to_owned(),
        size: format!("{n} u32, {n} f32"),
        error: (wrong_ints + wrong_floats) as f64,
        limit: 0.0,
        time,
        figure: bandwidth(8 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
