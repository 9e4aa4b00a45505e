//! A crate that forbids `unsafe` can use the macros. It launches the kernels that are proved; another one launches, or vouches for, the others.
#![forbid(unsafe_code)]

use ptx_launch::prelude::*;

/// Kernels that share a struct.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// Two factors.
    #[derive(Clone, Copy, ptx_launch::KernelParam)]
    #[repr(C)]
    pub struct Factors {
        /// One.
        pub a: f32,
        /// The other.
        pub b: f32,
    }

    /// `y[i] = a * b * i`; `unsafe` to launch, conditions or not.
    #[ptx_kernel(block = 64, grid = n.div_ceil(64), requires(y.len() >= n))]
    pub fn fill(factors: Factors, y: &mut [f32], n: u32) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < n {
            let p: u64 = y + wide(i) * 4;
            let v: f32 = (i as f32) * factors.a * factors.b;
            ptx! { st.global.f32 [p], v; }
        }
    }

    const BLOCK: u32 = 64;

    /// `y[i] = 2 * x[i]`; proved, and safe to launch.
    #[ptx_kernel(block = BLOCK, grid = n.div_ceil(BLOCK), requires(x.len() >= n, y.len() >= n), proved)]
    pub fn double(x: &[f32], y: &mut [f32], n: u32) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < n {
            let (from, to) = (x + wide(i) * 4, y + wide(i) * 4);
            let v: f32;
            ptx! { ld.global.f32 v, [from]; add.rn.f32 v, v, v; st.global.f32 [to], v; }
        }
    }

    /// Vectors of four, whose alignment each launch checks.
    #[ptx_kernel(block = 32, grid = n.div_ceil(128), requires(n % 4 == 0, y.len() >= n), proved)]
    pub fn clear(#[align(16)] y: &mut [f32], n: u32) {
        let first: u32 = (ctaid.x * ntid.x + tid.x) * 4;
        if first < n {
            let to = y + wide(first) * 4;
            ptx! { st.global.v4.f32 [to], {0.0, 0.0, 0.0, 0.0}; }
        }
    }

    /// The rows of a matrix backwards, through shared memory; each instance is proved.
    #[ptx_kernel(block = N, grid = ROWS, instances = [32, 64], proved)]
    pub fn reverse<const N: u32>(x: Tile<u32, (ROWS, N)>, y: TileMut<u32, (ROWS, N)>) {
        #[shared]
        let row: [u32; N];
        let (from, to) = (x.at(ctaid.x, tid.x), y.at(ctaid.x, tid.x));
        let (there, back) = (row + tid.x * 4, row + (N - 1 - tid.x) * 4);
        let v: u32;
        ptx! {
            ld.global.u32   v, [from];
            st.shared.u32   [there], v;
            bar.sync        0;
            ld.shared.u32   v, [back];
            st.global.u32   [to], v;
        }
    }

    /// Without conditions: `unsafe` to launch.
    #[ptx_kernel]
    pub fn nothing() {}
}

#[test]
fn a_proved_launch_is_safe() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let (x, mut y) = (device.upload(&[1.5f32; 100])?, device.zeros::<f32>(100)?);
    kernels::double(&device, &x, &mut y, 100)?;
    assert_eq!(y.download()?, [3.0; 100]);
    assert!(kernels::double(&device, &x, &mut y, 101).is_err_and(|error| error.to_string().contains("x.len() >= n")));
    kernels::clear(&device, &mut y, 100)?;
    let misaligned = kernels::clear(&device, &mut y.slice_mut(1..)?, 96).map_err(|error| error.to_string());
    assert!(
        misaligned
            .is_err_and(|error| error.contains("`clear` is launched with `y` at an address that is no multiple of 16"))
    );
    let (x, mut y) = (device.upload(&(0..96).collect::<Vec<u32>>())?, device.zeros::<u32>(96)?);
    kernels::reverse::<32>(&device, x.tile([3, 32])?, y.tile_mut([3, 32])?)?;
    assert_eq!(y.download()?[33], 62);
    Ok(())
}

#[test]
fn kernels_are_data() {
    let factors = kernels::Factors { a: 2.0, b: 0.5 };
    assert_eq!(factors.a * factors.b, 1.0);
    assert!(kernels::PTX.contains(".entry nothing"));
}
