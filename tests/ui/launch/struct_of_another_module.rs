mod shapes {
    #[derive(Clone, Copy)]
    #[repr(C)]
    pub struct Shape {
        pub m: u32,
    }
}

use ptx_launch::prelude::*;
use shapes::Shape;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, params(Shape), unsafe(requires()))]
pub fn not_derived(shape: Shape) {}

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Extent {
    pub m: u32,
}

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    use super::Extent;

    #[ptx_kernel(block = 32, grid = 1, params(Extent), unsafe(requires()))]
    pub fn inside(extent: Extent) {}
}

fn main() {}
