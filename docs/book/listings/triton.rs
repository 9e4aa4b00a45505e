//! Triton's softmax tutorial: one program per row is one block per row.

use ptx_launch::prelude::*;

// ANCHOR: kernel
#[ptx_kernel(
    arch = "sm_80",
    block = THREADS,
    grid = M,
    instances = [(128, 4), (256, 8)],
    unsafe(requires(N <= THREADS * EACH))
)]
pub fn softmax<const THREADS: u32, const EACH: u32>(x: Tile<f32, (M, N)>, out: TileMut<f32, (M, N)>) {
    const LOG2_E: f32 = 1.4426950408889634;
    const WARPS: u32 = THREADS / 32;

    // row = tl.load(x + offsets, mask=offsets < n, other=-inf)
    let v: [f32; EACH];
    let inside: [pred; EACH];
    for i in 0..EACH {
        let column: u32 = tid.x + THREADS * i;
        let from = x.at(ctaid.x, column);
        inside[i] = column < N;
        v[i] = f32::NEG_INFINITY;
        ptx! { @inside[i] ld.global.f32 v[i], [from]; }
    }
    // row = tl.exp(row - tl.max(row))
    let mut largest: f32 = v[0];
    for i in 1..EACH {
        largest = largest.max(v[i]);
    }
    let top: f32 = block::reduce_max::<WARPS, f32>(largest);
    let mut sum: f32 = 0.0;
    for i in 0..EACH {
        let scaled: f32 = (v[i] - top) * LOG2_E;
        ptx! { ex2.approx.ftz.f32 v[i], scaled; }
        sum += v[i];
    }
    // tl.store(out + offsets, row / tl.sum(row), mask=offsets < n)
    let total: f32 = block::reduce_sum::<WARPS, f32>(sum);
    for i in 0..EACH {
        let to = out.at(ctaid.x, tid.x + THREADS * i);
        let share: f32;
        ptx! {
            div.full.f32            share, v[i], total;
            @inside[i] st.global.f32 [to], share;
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let (m, n) = (4, 300);
    let x = device.upload(&vec![1.0f32; m * n])?;
    let mut out = device.zeros::<f32>(m * n)?;
    softmax::<128, 4>(&device, x.tile([m, n])?, out.tile_mut([m, n])?)?;
    assert!(out.download()?.iter().all(|share| (share - 1.0 / 300.0).abs() < 1e-6));
    Ok(())
}
// ANCHOR_END: main
