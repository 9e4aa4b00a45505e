use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(x: &[f32]) {
    let a: f32 = *x;
    println!("{a}");
    let b = |c| c;
}

fn main() {}
