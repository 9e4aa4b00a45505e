use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(x.len() >= 32))]
pub fn one(x: &mut [f32]) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe)]
pub fn two(x: &mut [f32]) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, requires(x.len() >= 32), unsafe(requires(n <= 32)))]
pub fn three(x: &mut [f32], n: u32) {}

fn main() {}
