#![allow(unused_variables)]
use ptx_launch::prelude::*;

pub struct Shape {
    pub m: u32,
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, params(Shape { m: u32 }), unsafe(requires()))]
pub fn kernel(shape: Shape) {}

fn main() {}
