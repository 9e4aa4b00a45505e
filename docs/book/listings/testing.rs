//! Tests of kernels: the right one, and one that forgets a barrier.

use ptx_launch::prelude::*;
use ptx_launch::{Real, Unproved, prove_equal};

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    // ANCHOR: wrong
    /// Reverses each 64 values. The barrier between the store and the load is missing.
    #[ptx_kernel(block = 64, grid = 1, unsafe(requires(x.len() >= 64)))]
    pub fn reverse_wrong(x: &mut [u32]) {
        #[shared]
        let tile: [u32; 64];
        let (own, mirrored, at) = (tile.at(tid.x), tile.at(63 - tid.x), x.at(tid.x));
        let v: u32;
        ptx! {
            ld.global.u32   v, [at];
            st.shared.u32   [own], v;
            ld.shared.u32   v, [mirrored];
            st.global.u32   [at], v;
        }
    }
    // ANCHOR_END: wrong

    // ANCHOR: variance
    /// The variance of 32 values, from their sum and that of their squares.
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32, out.len() >= 1)))]
    pub fn variance(x: &[f32], out: &mut [f32]) {
        let from = x.at(tid.x);
        let v: f32;
        ptx! { ld.global.f32 v, [from]; }
        let (sum, squares): (f32, f32) = (warp::reduce_sum(v), warp::reduce_sum(v * v));
        let mean: f32 = sum * 0.03125;
        let variance: f32 = squares * 0.03125 - mean * mean;
        if tid.x == 0 {
            let to = out.at(0);
            ptx! { st.global.f32 [to], variance; }
        }
    }
    // ANCHOR_END: variance

    #[ptx_kernel(block = 64, grid = 1, unsafe(requires(x.len() >= 64)))]
    pub fn reverse(x: &mut [u32]) {
        #[shared]
        let tile: [u32; 64];
        let (own, mirrored, at) = (tile.at(tid.x), tile.at(63 - tid.x), x.at(tid.x));
        let v: u32;
        ptx! {
            ld.global.u32   v, [at];
            st.shared.u32   [own], v;
            bar.sync        0;
            ld.shared.u32   v, [mirrored];
            st.global.u32   [at], v;
        }
    }
}

// ANCHOR: test
#[ptx_test(seeds = 4)]
fn reverses(device: &Device) -> ptx_launch::Result<()> {
    let mut x = device.upload(&(0..64).collect::<Vec<u32>>())?;
    kernels::reverse(device, &mut x)?;
    assert!(x.download()?.into_iter().eq((0..64).rev()));
    Ok(())
}
// ANCHOR_END: test

// ANCHOR: equal
#[test]
fn the_variance_is_the_mean_square_of_distances() -> Result<(), Unproved> {
    prove_equal(|reals| {
        let x = reals.numbers::<f32>(32)?;
        let mut out = reals.device().zeros::<f32>(1)?;
        kernels::variance(reals.device(), &x, &mut out)?;
        let (x, count) = (reals.read(&x)?, reals.constant(32.0));
        let mean = x.iter().copied().sum::<Real>() / count;
        let variance = x.iter().map(|x| (*x - mean) * (*x - mean)).sum::<Real>() / count;
        reals.equal(&out, &vec![variance])
    })
}
// ANCHOR_END: equal

pub fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let mut x = device.upload(&[0; 64])?;
    let found = kernels::reverse_wrong(&device, &mut x).err().map(|why| why.to_string()).unwrap_or_default();
    println!("{found}");
    assert!(found.contains("W0104") && found.contains("barrier"));
    Ok(())
}
