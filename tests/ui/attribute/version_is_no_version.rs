use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", version = "8")]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
