use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, instances = [f64], unsafe(requires(x.len() >= 32)))]
pub fn kernel<f32>(x: &[f32]) {}

fn main() {}
