//! Softmax over rows: one block a row, the row in registers between its two reductions.
//!
//! exp(x) is 2 to the power x · log2(e): `ex2.approx.ftz.f32`, two units in the last place at most.

use ptx_examples::{Report, bandwidth, elements, random, relative_error, timer};
use ptx_launch::prelude::*;

/// Columns of a row: 256 threads with 8 elements each.
const COLUMNS: u32 = 2048;

/// out\[r\]\[c\] = exp(x\[r\]\[c\]) / sum over c of exp(x\[r\]\[c\])
#[ptx_kernel(
    arch = "sm_80",
    block = 256,
    grid = rows,
    unsafe(requires(x.len() >= rows * 2048, out.len() >= rows * 2048))
)]
pub fn softmax(#[align(16)] x: &[f32], #[align(16)] out: &mut [f32], rows: u32) {
    const EACH: u32 = 8;
    const LOG2_E: f32 = 1.4426950408889634;

    let offset: u64 = wide(ctaid.x) * 8192 + wide(tid.x) * 16;
    let (source, target): (u64, u64) = (x + offset, out + offset);
    let v: [f32; EACH];
    ptx! {
        ld.global.v4.f32 {v[0..4]}, [source];
        ld.global.v4.f32 {v[4..8]}, [source + 4096];
    }
    let mut most: f32 = v[0];
    for i in 1..EACH {
        ptx! { max.f32 most, most, v[i]; }
    }
    let top: f32 = block::reduce_max::<8, f32>(most);
    let mut sum: f32 = 0.0;
    for i in 0..EACH {
        let scaled: f32 = (v[i] - top) * LOG2_E;
        ptx! { ex2.approx.ftz.f32 v[i], scaled; }
        sum += v[i];
    }
    let total: f32 = block::reduce_sum::<8, f32>(sum);
    let inverse: f32;
    ptx! { rcp.rn.f32 inverse, total; }
    for i in 0..EACH {
        v[i] *= inverse;
    }
    ptx! {
        st.global.v4.f32 [target], {v[0..4]};
        st.global.v4.f32 [target + 4096], {v[4..8]};
    }
}

fn reference(row: &[f32]) -> impl Iterator<Item = f64> {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let power = move |x: &f32| (f64::from(*x) - f64::from(top)).exp();
    let total: f64 = row.iter().map(power).sum();
    row.iter().map(move |x| power(x) / total)
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let rows = elements(device, 32768, 64);
    let data: Vec<f32> = random(rows * COLUMNS, 8).into_iter().map(|x| 8.0 * x).collect();
    let x = device.upload(&data)?;
    let mut out = device.upload(&vec![f32::NAN; data.len()])?;
    let stream = device.stream();
    let time = timer(device).measure(&stream, || softmax(&stream, &x, &mut out, rows))?.median();
    let expected = data.chunks(COLUMNS as usize).flat_map(reference);
    Ok(Report {
        name: "softmax",
        device: device.name().to_owned(),
        size: format!("{rows} × {COLUMNS} f32"),
        error: relative_error(&out.download()?, expected),
        limit: 1e-6,
        time,
        figure: bandwidth(8 * data.len() as u64, time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
