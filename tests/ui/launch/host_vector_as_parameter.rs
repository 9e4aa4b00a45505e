use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires()))]
pub fn kernel(x: Vec<f32>) {}

fn main() {}
