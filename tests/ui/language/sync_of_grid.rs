use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 256, grid = 8)]
pub fn kernel() {
    grid::sync();
}

fn main() {}
