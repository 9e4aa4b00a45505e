use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let (x, y): (u32, u32);
    ptx! {
        ld.global.v3.u32 {x, y, x}, [out];
    }
}

fn main() {}
