use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel() {
    tid.x = 3;
    laneid += 1;
    (ctaid.x, ctaid.y) = (1, 2);
}

fn main() {}
