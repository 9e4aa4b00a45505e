use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let x: u32 = tid.q;
}

fn main() {}
