use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90a")]
pub fn kernel(#[tma(swizzle = 128)] x: Tile<f32, (M, N)>) {}

fn main() {}
