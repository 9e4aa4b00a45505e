//! The first kernel: `y = alpha * x + y`.

// ANCHOR: use
use ptx_launch::prelude::*;
// ANCHOR_END: use

// ANCHOR: kernel
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), unsafe(requires(x.len() >= n, y.len() >= n)))]
pub fn saxpy(alpha: f32, x: &[f32], y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let (px, py) = (x.at(i), y.at(i));
        let (vx, vy): (f32, f32);
        ptx! {
            ld.global.f32   vx, [px];
            ld.global.f32   vy, [py];
            fma.rn.f32      vy, alpha, vx, vy;
            st.global.f32   [py], vy;
        }
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let n = 1 << 16;
    let x = device.upload(&vec![1.0f32; n])?;
    let mut y = device.upload(&vec![2.0f32; n])?;
    saxpy(&device, 3.0, &x, &mut y, n as u32)?;
    assert_eq!(y.download()?, vec![5.0; n]);
    println!("{}: 3 * 1 + 2 = {}", device.name(), y.download()?[0]);
    Ok(())
}
// ANCHOR_END: main
