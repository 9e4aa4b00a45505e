use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(name: String) {
    let x: u32 = 1;
}

fn main() {}
