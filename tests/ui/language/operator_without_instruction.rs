use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let x: f32 = 1.0;
    let y: f32 = x % x;
}

fn main() {}
