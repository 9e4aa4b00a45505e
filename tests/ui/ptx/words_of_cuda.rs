use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    const OP: &str = "add";
    let i: u32;
    ptx! {
        mov.u32 i, threadIdx.x;
        __syncthreads();
    }
    ptx! { {OP}.u32 i, i, i; }
}

fn main() {}
