use ptx_launch::prelude::*;

#[ptx_module]
mod kernels {
    #[ptx_kernel]
    pub fn kernel() {}
}

fn main() {}
