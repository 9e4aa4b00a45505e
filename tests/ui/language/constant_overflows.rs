use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    const N: u32 = 1 << 40;
    let x: u32 = N;
}

fn main() {}
