use ptx_launch::prelude::*;

#[ptx_kernel(arch("sm_80", "sm_99"))]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
