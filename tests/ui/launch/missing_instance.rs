#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = N, grid = 1, instances = [(128), (256)], unsafe(requires()))]
pub fn kernel<const N: u32>(n: u32) {}

fn main() -> ptx_launch::Result<()> {
    kernel::<64>(&Device::cpu(), 4)
}
