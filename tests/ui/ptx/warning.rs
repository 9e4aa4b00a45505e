#![deny(warnings)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(v: u32) {
    let up: u32;
    ptx! { shfl.up.sync.b32 up, v, 1, 0, -1; }
}

fn main() {}
