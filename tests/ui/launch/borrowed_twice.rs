#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = n, unsafe(requires()))]
pub fn kernel(factor: f32, x: &[f32], y: &mut [f32], n: u32) {}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let mut y = device.zeros::<f32>(4)?;
    kernel(&device, 1.0, &y, &mut y, 4)
}
