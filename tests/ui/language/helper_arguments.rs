use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    fn add(x: u32, y: u32) -> u32 {
        x + y
    }
    let z: u32 = add(1);
}

fn main() {}
