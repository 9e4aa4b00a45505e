use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 2048)]
pub fn threads(x: &[f32]) {}

#[ptx_kernel(arch = "sm_80", block = (32, 32, 2))]
pub fn product(x: &[f32]) {}

fn main() {}
