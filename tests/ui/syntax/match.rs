use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32], n: u32) {
    let x: u32 = match n {
        0 => 1,
        _ => 2,
    };
    const MODE: u32 = 7;
    let y: u32 = match MODE {
        0 => 1,
        1 | 2 => 2,
    };
    let z: u32 = match MODE {
        other => 1,
        0..4 => 3,
    };
}

fn main() {}
