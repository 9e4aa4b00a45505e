use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(x: &[u32]) {
    let v: u32;
    ptx! { ld.global.u32 v, [x] }
    let d: u32 = v + 1;
}

fn main() {}
