use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(x: &[u32], at: u64) {
    let v: u32;
    ptx! { ld.global.u32 v, [x + at]; }
}

fn main() {}
