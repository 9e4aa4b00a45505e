//! A matrix transposed through shared memory, so that reads and writes of global memory are both coalesced.
//!
//! A tile's row has 33 elements, not 32: threads that read a column meet 32 different banks.

use ptx_examples::parallel::count;
use ptx_examples::{Report, bandwidth, elements, random, timer};
use ptx_launch::prelude::*;

/// out\[c\]\[r\] = x\[r\]\[c\], for a square matrix of n × n, n a multiple of 32.
#[ptx_kernel(
    arch = "sm_80",
    block = (32, 8),
    grid = (n / 32, n / 32),
    unsafe(requires(n % 32 == 0, n <= 65536, x.len() >= n * n, out.len() >= n * n))
)]
pub fn transpose(x: &[f32], out: &mut [f32], n: u32) {
    const TILE: u32 = 32;
    const PITCH: u32 = 4 * (TILE + 1);

    #[shared]
    let tile: [f32; 33 * 32];

    let (column, row): (u32, u32) = (ctaid.x * TILE + tid.x, ctaid.y * TILE + tid.y);
    let mut source = x.at(row * n + column);
    let step: u64 = wide(n) * 32;
    let place: u32 = tile + tid.y * PITCH + tid.x * 4;
    for i in 0..4 {
        let value: f32;
        ptx! {
            ld.global.f32 value, [source];
            st.shared.f32 [place + 8 * PITCH * i], value;
        }
        source += step;
    }
    ptx! { bar.sync 0; }

    let (column, row): (u32, u32) = (ctaid.y * TILE + tid.x, ctaid.x * TILE + tid.y);
    let mut target = out.at(row * n + column);
    let place: u32 = tile + tid.x * PITCH + tid.y * 4;
    for i in 0..4 {
        let value: f32;
        ptx! {
            ld.shared.f32 value, [place + 32 * i];
            st.global.f32 [target], value;
        }
        target += step;
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 8192, 256);
    let data = random(n * n, 7);
    let x = device.upload(&data)?;
    let mut out = device.upload(&vec![f32::NAN; data.len()])?;
    let stream = device.stream();
    let time = timer(device).measure(&stream, || transpose(&stream, &x, &mut out, n))?.median();
    let side = n as usize;
    let result = out.download()?;
    let wrong = count(side * side, |at| result[at] != data[at % side * side + at / side]);
    Ok(Report {
        name: "transpose",
        device: device.name().to_owned(),
        size: format!("{n} × {n} f32"),
        error: wrong as f64,
        limit: 0.0,
        time,
        figure: bandwidth(8 * u64::from(n) * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
