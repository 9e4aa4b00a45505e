use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let acc: [f32; 4];
    let x: f32 = acc[4];
}

fn main() {}
