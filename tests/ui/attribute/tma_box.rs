use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90a", block = 32)]
pub fn kernel(#[tma(box = [64])] x: Tile<f32, (M, N)>, #[tma(box = [512, 0])] y: Tile<f32, (M, N)>) {}

fn main() {}
