use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90a")]
pub fn kernel(#[tma(box = [64, 64])] x: &[f32]) {}

fn main() {}
