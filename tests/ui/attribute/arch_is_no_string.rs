use ptx_launch::prelude::*;

#[ptx_kernel(arch = 90)]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
