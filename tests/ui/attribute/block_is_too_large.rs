use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 2048)]
pub fn threads(x: &[f32]) {}

#[ptx_kernel(arch = "sm_80", block = (32, 32, 2))]
pub fn product(x: &[f32]) {}

#[ptx_kernel(arch = "sm_90a", block = 32, cluster = (17, 1))]
pub fn cluster(x: &[f32]) {}

#[ptx_kernel(arch = "sm_90a", block = 32, max_cluster = 32)]
pub fn at_launch(x: &[f32]) {}

#[ptx_kernel(arch = "sm_80", block = 32, max_regs = 300)]
pub fn registers(x: &[f32]) {}

fn main() {}
