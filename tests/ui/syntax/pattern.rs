use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let Point { x, y }: u32 = 1;
}

fn main() {}
