use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub unsafe fn kernel(a: u32) {}

fn main() {}
