//! A CUDA C++ kernel, and the same kernel here.

use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    // ANCHOR: constant
    pub static mut WEIGHTS: [f32; 3] = [0.25, 0.5, 0.25];
    // ANCHOR_END: constant

    // ANCHOR: blur
    const BLOCK: u32 = 128;

    /// Loads `x[i]`, or zero outside of 0 .. n. One helper replaces a `__device__` function.
    fn load_or_zero(x: Global<f32>, i: i32, n: u32) -> f32 {
        let mut v: f32 = 0.0;
        let inside: pred = unsigned(i) < n;
        let from = x.at(i);
        ptx! { @inside ld.global.f32 v, [from]; }
        v
    }

    #[ptx_kernel(block = BLOCK, grid = n.div_ceil(BLOCK), unsafe(requires(x.len() >= n, y.len() >= n)))]
    pub fn blur(x: &[f32], y: &mut [f32], n: u32) {
        #[shared]
        let tile: [f32; BLOCK + 2];
        let i: i32 = signed(ctaid.x * BLOCK + tid.x);
        let (own, halo) = (tile.at(tid.x + 1), tile.at(tid.x * (BLOCK + 1))); // threads 0 and 1 load the edges
        let v: f32 = load_or_zero(x, i, n);
        ptx! { st.shared.f32 [own], v; }
        if tid.x < 2 {
            let edge: i32 = signed(ctaid.x * BLOCK + tid.x * (BLOCK + 1)) - 1;
            let v: f32 = load_or_zero(x, edge, n);
            ptx! { st.shared.f32 [halo], v; }
        }
        block::sync();
        let mut sum: f32 = 0.0;
        for tap in 0..3 {
            let (v, w): (f32, f32);
            ptx! {
                ld.shared.f32   v, [own + 4 * (tap - 1)];
                ld.global.f32   w, [WEIGHTS + 4 * tap];
            }
            sum = w.fma(v, sum);
        }
        if unsigned(i) < n {
            let to = y.at(i);
            ptx! { st.global.f32 [to], sum; }
        }
    }
    // ANCHOR_END: blur
}

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let n = 1000;
    let x = device.upload(&vec![1.0f32; n])?;
    let mut y = device.zeros::<f32>(n)?;
    kernels::blur(&device, &x, &mut y, n as u32)?;
    kernels::WEIGHTS.write(&device, [0.0, 1.0, 0.0])?; // cudaMemcpyToSymbol
    assert_eq!(y.download()?[..2], [0.75, 1.0]);
    Ok(())
}
// ANCHOR_END: main
