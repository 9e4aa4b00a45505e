use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90a", cooperative = true)]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
