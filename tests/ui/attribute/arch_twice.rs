use ptx_launch::prelude::*;

#[ptx_kernel(arch("sm_80", "sm_90a", "sm_80"))]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
