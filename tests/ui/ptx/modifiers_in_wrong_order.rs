#![deny(warnings)]

use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let (x, y): (u32, u32) = (1, 2);
    let mut f: f32 = 1.0;
    let p: pred = x < y;
    ptx! {
        fma.ftz.rn.f32 f, f, f, f;
    }
}

fn main() {}
