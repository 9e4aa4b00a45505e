use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 256, block = 128)]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
