use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", threads = 256)]
pub fn threads() {}

#[ptx_kernel(arch = "sm90a", block = 256)]
pub fn arch() {}

#[ptx_kernel(arch = 80, block = 256)]
pub fn number() {}

fn main() {}
