use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
mod kernels {
    #[ptx_kernel(arch = "sm_90a")]
    pub fn kernel() {}
}

fn main() {}
