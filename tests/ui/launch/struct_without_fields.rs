use ptx_launch::prelude::*;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Shape {
    pub n: u32,
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires()))]
pub fn kernel(shape: Shape) {}

fn main() {}
