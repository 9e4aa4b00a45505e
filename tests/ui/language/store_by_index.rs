use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(bins: &mut [u32]) {
    #[shared]
    let local: [u32; 32];
    local[tid.x] = 0;
    bins[0] = 1;
}

fn main() {}
