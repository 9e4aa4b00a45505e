use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel((a, b): (u32, u32)) {}

fn main() {}
