#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn kernel(n: u32) {}

fn main() -> ptx_launch::Result<()> {
    kernel(&Device::cpu(), 4)
}
