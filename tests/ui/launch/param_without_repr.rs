use ptx_launch::prelude::*;

#[derive(Clone, Copy, KernelParam)]
pub struct Shape {
    pub m: u32,
}

fn main() {}
