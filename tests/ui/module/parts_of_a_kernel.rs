use ptx_launch::prelude::*;

#[ptx_part]
mod helpers {
    fn twice(x: u32) -> u32 {
        x + x
    }
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, parts(helpers), unsafe(requires()))]
pub fn kernel() {}

fn main() {}
