use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
mod kernels {
    static mut COUNT: u32;

    #[ptx_kernel(block = 32)]
    pub fn k(x: u32) {
        let y: u32 = warp::reduce_sums(x);
    }
}

fn main() {}
