//! Tests of kernels: the right one, and one that forgets a barrier.

use ptx_launch::prelude::*;

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

pub fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let mut x = device.upload(&[0; 64])?;
    let found = kernels::reverse_wrong(&device, &mut x).err().map(|why| why.to_string()).unwrap_or_default();
    println!("{found}");
    assert!(found.contains("W0104") && found.contains("barrier"));
    Ok(())
}
