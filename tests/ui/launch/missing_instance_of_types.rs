#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, instances = [f32, u32], unsafe(requires()))]
pub fn kernel<T>(x: &[T]) {}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let x = device.zeros::<f64>(4)?;
    kernel(&device, &x)
}
