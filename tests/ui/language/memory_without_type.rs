use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel() {
    #[shared]
    let (a, b);
    let sum: u32 = a + b;
}

fn main() {}
