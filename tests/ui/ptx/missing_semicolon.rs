use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let (mut x, y): (u32, u32) = (1, 2);
    let f: f32 = 1.0;
    let p: pred = x < y;
    ptx! {
        add.u32 x, x, y
        sub.u32 x, x, y;
    }
}

fn main() {}
