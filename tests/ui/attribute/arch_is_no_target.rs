use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm90")]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
