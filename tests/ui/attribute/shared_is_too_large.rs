use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_90", block = 32)]
fn kernel() {
    #[shared]
    let tile: [f32; 65536];
}

fn main() {}
