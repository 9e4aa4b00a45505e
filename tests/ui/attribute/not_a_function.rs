use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub struct Kernel;

fn main() {}
