#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Shape {
    pub m: u32,
    pub n: u32,
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, params(Shape { n: u32, m: u32 }), unsafe(requires()))]
pub fn kernel(shape: Shape) {
    let m: u32 = shape.m;
}

fn main() {}
