use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(n: u32) {
    for (int i = 0; i < 4; i++) {}
}

fn main() {}
