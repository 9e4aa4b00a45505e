use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", instances = [(1, 2), (3)])]
pub fn kernel<const A: u32, const B: u32>(out: &mut [u32]) {}

fn main() {}
