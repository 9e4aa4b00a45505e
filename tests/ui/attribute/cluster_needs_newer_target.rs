use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, cluster = 2)]
fn kernel() {}

fn main() {}
