use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [f32]) {
    let known = [0.0f32; 4];
    let unknown = [0.0, 1.0];
    let longer: [f32; 8] = known;
    let shorter: [f32; 4] = [0.0; 3];
    let typed: [f32; 2] = [1.0f32];
}

fn main() {}
