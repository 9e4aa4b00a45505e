use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(x: &[f32], n: u32) {
    let mut v: f32 = 0.0;
    ptx! { if n > 3 { ld.global.f32 v, [x]; } }
    ptx! { v = ld.global.f32 [x]; }
    ptx! { v += 1.0; }
    ptx! { ld.global.f32 v, x[3]; }
    ptx! { add.f32 v, v[0], 1.0; }
}

fn main() {}
