use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    #[aligned(16)]
    let tile: [f32; 4];
}

fn main() {}
