use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let n: u32 = 4;
    for i in 0..n {}
}

fn main() {}
