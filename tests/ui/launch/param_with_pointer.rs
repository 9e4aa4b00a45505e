use ptx_launch::prelude::*;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Shape {
    pub m: &'static u32,
}

fn main() {}
