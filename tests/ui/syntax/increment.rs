use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(n: u32) {
    let mut i: u32 = 0;
    i++;
}

fn main() {}
