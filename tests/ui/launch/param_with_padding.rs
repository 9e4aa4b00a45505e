use ptx_launch::prelude::*;

#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Shape {
    pub m: u32,
    pub n: u64,
}

fn main() {}
