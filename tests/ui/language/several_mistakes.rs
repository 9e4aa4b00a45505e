use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let x: u32 = y;
    let z: f32 = 1.0 % 2.0;
    if z {}
    break;
}

fn main() {}
