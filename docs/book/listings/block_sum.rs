//! A sum over a block, written by hand and by the helper library.

use ptx_launch::prelude::*;

// ANCHOR: by_hand
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, out.len() >= 1)))]
pub fn sum_by_hand(x: &[f32], out: &mut [f32], n: u32) {
    #[shared]
    let partial: [f32; 8];

    // 1. One value per thread; threads behind the end have zero.
    let i: u32 = ctaid.x * 256 + tid.x;
    let inside: pred = i < n;
    let from = x.at(i);
    let mut sum: f32 = 0.0;
    ptx! { @inside ld.global.f32 sum, [from]; }

    // 2. A warp: in each step, each lane adds the value of the lane 16, 8, 4, 2, 1 away.
    for step in [16, 8, 4, 2, 1] {
        let other: f32;
        ptx! { shfl.sync.bfly.b32 other, sum, step, 31, 0xffffffff; }
        sum += other;
    }

    // 3. The block: one value per warp in shared memory, summed by the first thread.
    if laneid == 0 {
        let own = partial.at(tid.x / 32);
        ptx! { st.shared.f32 [own], sum; }
    }
    block::sync();
    if tid.x == 0 {
        let mut total: f32 = 0.0;
        for warp in 0..8 {
            let v: f32;
            ptx! { ld.shared.f32 v, [partial + 4 * warp]; }
            total += v;
        }
        ptx! { red.global.add.f32 [out], total; }
    }
}
// ANCHOR_END: by_hand

// ANCHOR: helper
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(4096), unsafe(requires(x.len() >= n, out.len() >= 1)))]
pub fn sum(x: &[f32], out: &mut [f32], n: u32) {
    let mut sum: f32 = 0.0;
    for step in 0..16 {
        let i: u32 = ctaid.x * 4096 + step * 256 + tid.x;
        let inside: pred = i < n;
        let from = x.at(i);
        let mut v: f32 = 0.0;
        ptx! { @inside ld.global.f32 v, [from]; }
        sum += v;
    }
    let total: f32 = block::reduce_sum::<8, f32>(sum);
    if tid.x == 0 {
        ptx! { red.global.add.f32 [out], total; }
    }
}
// ANCHOR_END: helper

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let n = 10_000;
    let x = device.upload(&vec![0.5f32; n])?;
    let mut out = device.zeros::<f32>(2)?;
    let (mut first, mut second) = out.split_at_mut(1)?;
    sum_by_hand(&device, &x, &mut first, n as u32)?;
    sum(&device, &x, &mut second, n as u32)?;
    assert_eq!(out.download()?, [5000.0, 5000.0]);
    Ok(())
}
// ANCHOR_END: main
