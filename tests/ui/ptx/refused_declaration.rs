use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(mut v: u32) {
    let up: u32;
    let ok: bool;
    ptx! {
        shfl.sync.up.b32 up|ok, v, 1, 0, -1;
        @ok add.u32 v, v, up;
    }
}

fn main() {}
