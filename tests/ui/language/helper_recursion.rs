use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    fn again(x: u32) -> u32 {
        again(x)
    }
    let y: u32 = again(1);
}

fn main() {}
