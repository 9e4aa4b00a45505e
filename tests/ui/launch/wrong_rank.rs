#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = M, unsafe(requires()))]
pub fn kernel(x: Tile<f32, (M, N)>) {}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let x = device.zeros::<f32>(8)?;
    kernel(&device, x.tile([2, 2, 2])?)
}
