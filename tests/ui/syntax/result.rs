use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(x: &[f32]) -> f32 {}

fn main() {}
