use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let mut x: u32 = 1;
    x = 1.5;
}

fn main() {}
