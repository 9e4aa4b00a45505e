use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let x: u32 = match 1 {
        0 => 1,
        _ => 2,
    };
}

fn main() {}
