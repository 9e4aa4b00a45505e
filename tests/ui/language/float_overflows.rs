use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(x: &mut [f32]) {
    let a: f32 = 1e40;
    let b: f16 = -65520.0;
    let infinite: f32 = f32::INFINITY;
    let p: pred = 1;
}

fn main() {}
