use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90a")]
pub fn kernel(#[tma(box = [64, 64], swizzle = 96)] x: Tile<f32, (M, N)>) {}

fn main() {}
