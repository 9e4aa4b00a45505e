//! RMSNorm over rows in bfloat16, computed in f32: packed pairs in 32-bit registers, unpacked by `mov`.
//!
//! A bf16 is the upper half of an f32: unpacking is a shift and a mask, packing is `cvt.rn.bf16x2.f32`.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::prelude::*;

/// Columns of a row: 256 threads with 8 elements each.
const COLUMNS: u32 = 2048;

/// out = x · weight / sqrt(mean(x²) + epsilon), row by row
#[ptx_kernel(
    arch = "sm_80",
    block = 256,
    grid = rows,
    unsafe(requires(x.len() >= rows * 2048, weight.len() >= 2048, out.len() >= rows * 2048))
)]
pub fn rms_norm(
    #[align(16)] x: &[bf16],
    #[align(16)] weight: &[bf16],
    #[align(16)] out: &mut [bf16],
    epsilon: f32,
    rows: u32,
) {
    /// Eight bf16 in four registers to eight f32.
    fn unpack(packed: [b32; 4]) -> [f32; 8] {
        let v: [f32; 8];
        for i in 0..4 {
            ptx! {
                shl.b32 v[2 * i], packed[i], 16;
                and.b32 v[2 * i + 1], packed[i], 0xffff0000;
            }
        }
        v
    }

    const MEAN: f32 = 1.0 / 2048.0;

    let column: u64 = wide(tid.x) * 16;
    let row: u64 = wide(ctaid.x) * 4096 + column;
    let (source, target, scale): (u64, u64, u64) = (x + row, out + row, weight + column);
    let (px, pw): ([b32; 4], [b32; 4]);
    ptx! {
        ld.global.v4.b32 {px[..]}, [source];
        ld.global.nc.v4.b32 {pw[..]}, [scale];
    }
    let mut v: [f32; 8] = unpack(px);
    let w: [f32; 8] = unpack(pw);
    let mut squares: f32 = 0.0;
    for i in 0..8 {
        ptx! { fma.rn.f32 squares, v[i], v[i], squares; }
    }
    let total: f32 = block::reduce_sum::<8, f32>(squares);
    let inverse: f32;
    ptx! {
        fma.rn.f32 inverse, total, MEAN, epsilon;
        rsqrt.approx.f32 inverse, inverse;
    }
    for i in 0..8 {
        v[i] = v[i] * inverse * w[i];
    }
    for i in 0..4 {
        ptx! { cvt.rn.bf16x2.f32 px[i], v[2 * i + 1], v[2 * i]; }
    }
    ptx! { st.global.v4.b32 [target], {px[..]}; }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let rows = elements(device, 32768, 64);
    let epsilon = 1e-6;
    let round = |values: Vec<f32>| values.into_iter().map(bf16::from_f32).collect::<Vec<_>>();
    let (data, gain) = (round(random(rows * COLUMNS, 9)), round(random(COLUMNS, 10)));
    let (x, weight) = (device.upload(&data)?, device.upload(&gain)?);
    let mut out = device.upload(&vec![bf16::NAN; data.len()])?;
    let stream = device.stream();
    let time = timer(device).measure(&stream, || rms_norm(&stream, &x, &weight, &mut out, epsilon, rows))?.median();
    let expected = data.chunks(COLUMNS as usize).flat_map(|row| {
        let mean = row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>() / f64::from(COLUMNS);
        let scale = 1.0 / (mean + f64::from(epsilon)).sqrt();
        row.iter().zip(&gain).map(move |(x, w)| x.to_f64() * scale * w.to_f64())
    });
    let result: Vec<f32> = out.download()?.into_iter().map(bf16::to_f32).collect();
    Ok(Report {
        name: "rms_norm",
        device: device.name().to_owned(),
        size: format!("{rows} × {COLUMNS} bf16"),
        error: relative_error(&result, expected),
        limit: 3e-3,
        time,
        figure: bandwidth(4 * data.len() as u64, time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
