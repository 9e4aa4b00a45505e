use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
mod kernels {
    pub struct Params {
        pub n: u32,
    }

    impl Params {
        pub fn new() {}
    }
}

fn main() {}
