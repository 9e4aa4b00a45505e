use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(x: &mut [f32]) {
    let i: u32 = tid;
    #[shared] let tile: [[f32; 4]; 4];
    tile[1][i] = 1.0;
    let v: f32 = tile[1][2];
}

fn main() {}
