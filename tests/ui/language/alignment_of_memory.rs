#![deny(warnings)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(out: &mut [f32]) {
    #[shared]
    let tile: [f32; 64];
    let v: [f32; 4];
    ptx! {
        ld.shared.v4.f32 {v[..]}, [tile];
        st.global.f32 [out], v[0];
    }
}

fn main() {}
