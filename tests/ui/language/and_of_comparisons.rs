use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(m: u32, n: u32) {
    if tid.x < n && ctaid.x < m {
        return;
    }
}

fn main() {}
