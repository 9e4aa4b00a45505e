use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
mod kernels {
    pub struct Params {
        pub n: u32,
    }

    pub trait Named {
        fn name(&self) -> u32;
    }
}

fn main() {}
