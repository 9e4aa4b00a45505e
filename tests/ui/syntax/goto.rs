use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(n: u32) {
    goto end;
}

fn main() {}
