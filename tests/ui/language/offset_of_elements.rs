use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(x: &[f32]) {
    let at: u64 = x + tid.x * 4;
}

fn main() {}
