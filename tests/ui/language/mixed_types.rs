use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let x: u32 = 1;
    let y: f32 = 2.0;
    let z: f32 = y + x;
}

fn main() {}
