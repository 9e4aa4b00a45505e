use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(a: u32, b: u16) {
    let q: u32 = a / 0x1_0000_0000;
    let r: u16 = b % 0x1_0000;
}

fn main() {}
