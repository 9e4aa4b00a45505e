//! One source for several chips: `arch(…)` lists targets, and `if arch >= …` chooses for each.

use ptx_launch::prelude::*;

// ANCHOR: kernel
#[ptx_kernel(arch("sm_75", "sm_80"), block = 32, grid = 1, unsafe(requires(x.len() >= 32, out.len() >= 1)))]
pub fn warp_max(x: &[u32], out: &mut [u32]) {
    let from = x.at(tid.x);
    let mut v: u32;
    ptx! { ld.global.u32 v, [from]; }
    if arch >= sm_80 {
        v = warp::redux::<"max", u32>(v); // one instruction
    } else {
        v = warp::reduce_max(v); // five shuffles and maxima
    }
    if tid.x == 0 {
        ptx! { st.global.u32 [out], v; }
    }
}
// ANCHOR_END: kernel

// ANCHOR: main
pub fn main() -> ptx_launch::Result<()> {
    let device = Device::best()?;
    let x = device.upload(&(0..32).map(|i| i * 13 % 32).collect::<Vec<u32>>())?;
    let mut out = device.zeros::<u32>(1)?;
    warp_max(&device, &x, &mut out)?;
    assert_eq!(out.download()?, [31]);
    Ok(())
}
// ANCHOR_END: main
