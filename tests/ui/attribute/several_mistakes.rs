use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_8o", blocks = 2, cluster, pdl(1))]
pub fn kernel(out: &mut [u32]) {}

fn main() {}
