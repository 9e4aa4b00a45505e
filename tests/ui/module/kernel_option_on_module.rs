use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80", block = 256)]
mod kernels {}

fn main() {}
