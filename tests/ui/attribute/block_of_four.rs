use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = (1, 2, 3, 4))]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
