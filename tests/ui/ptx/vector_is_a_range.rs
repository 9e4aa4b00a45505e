use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(x: &[f32]) {
    let v: [f32; 4];
    ptx! {
        ld.global.v2.f32 {v[..]}, [x];
    }
}

fn main() {}
