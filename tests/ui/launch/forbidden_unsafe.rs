#![forbid(unsafe_code)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(x.len() >= 32)))]
pub fn kernel(x: &mut [f32]) {}

fn main() {}
