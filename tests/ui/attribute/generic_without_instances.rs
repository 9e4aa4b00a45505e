use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel<const N: u32>(out: &mut [u32]) {}

fn main() {}
