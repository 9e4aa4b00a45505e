use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(n: u32) {
    let x: f32 = (float) n;
}

fn main() {}
