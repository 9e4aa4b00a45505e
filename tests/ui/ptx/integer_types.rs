use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(x: i32, y: u32) {
    ptx! {
        add.i32 x, x, 1;
        sub.b32 y, y, 1;
        xor.u32 y, y, 1;
    }
}

fn main() {}
