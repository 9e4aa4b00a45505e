use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let acc: [f32; 4];
    let i: u32 = 1;
    let x: f32 = acc[i];
}

fn main() {}
