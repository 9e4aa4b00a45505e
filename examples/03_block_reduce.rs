//! A sum over all elements: a loop over the grid, shuffles within a warp, shared memory across warps, one atomic a block.
//!
//! `block::reduce_sum` is a helper of the library, written in the kernel language: five `shfl.sync.bfly.b32` and
//! additions, `st.shared` by the first lane of each warp, `bar.sync`, and a sum over the warps.

use ptx_examples::{Report, bandwidth, elements, random, timer};
use ptx_launch::prelude::*;

/// out\[0\] += sum of x
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(4096), unsafe(requires(x.len() >= n, out.len() >= 1)))]
pub fn block_reduce(x: &[f32], out: &mut [f32], n: u32) {
    let mut i: u32 = ctaid.x * 4096 + tid.x;
    let end: u32 = ctaid.x * 4096 + 4096;
    let mut sum: f32 = 0.0;
    while i < end {
        let at = x.at(i);
        let mut value: f32 = 0.0;
        let inside: pred = i < n;
        ptx! {
            @inside ld.global.f32 value, [at];
            add.rn.f32 sum, sum, value;
        }
        i += 256;
    }
    let total: f32 = block::reduce_sum::<8, f32>(sum);
    if tid.x == 0 {
        ptx! { red.global.add.f32 [out], total; }
    }
}

pub(crate) fn run(device: &Device) -> ptx_launch::Result<Report> {
    let n = elements(device, 1 << 26, 1 << 18) + 123;
    let data: Vec<f32> = random(n, 5).into_iter().map(f32::abs).collect();
    let x = device.upload(&data)?;
    let mut out = device.zeros::<f32>(1)?;
    let stream = device.stream();
    block_reduce(&stream, &x, &mut out, n)?;
    let sum = out.download()?;
    let time = timer(device).measure(&stream, || block_reduce(&stream, &x, &mut out, n))?.median();
    let reference: f64 = data.iter().map(|x| f64::from(*x)).sum();
    Ok(Report {
        name: "block_reduce",
        device: device.name().to_owned(),
        size: format!("{n} f32"),
        error: ptx_examples::relative_error(&sum, [reference]),
        limit: 1e-5,
        time,
        figure: bandwidth(4 * u64::from(n), time),
    })
}

fn main() -> std::process::ExitCode {
    ptx_examples::run(run)
}
