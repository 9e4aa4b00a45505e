use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90", block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
pub fn kernel(map: TensorMap, out: &mut [u32]) {}

fn main() {}
