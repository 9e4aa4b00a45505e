use ptx_launch::prelude::*;

const OUTSIDE: u32 = 3;

fn scale(x: u32) -> u32 {
    x * OUTSIDE
}

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let a: u32 = OUTSIDE;
    let b: u32 = crate::OUTSIDE;
    let c: u32 = scale(1);
}

fn main() {}
