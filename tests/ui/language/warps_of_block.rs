//! `WARPS` of the library's functions over a block is the number of warps of the kernel's block.

use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 256)]
pub fn too_few(x: &[f32], y: &mut [f32]) {
    let sum: f32 = block::reduce_sum::<4, f32>(x[tid.x]);
    if tid.x == 0 {
        y[0] = sum;
    }
}

#[ptx_kernel(arch = "sm_80", block = 48)]
pub fn no_whole_warps(x: &[f32], y: &mut [f32]) {
    let sum: f32 = block::scan_sum::<2, f32>(x[tid.x]);
    y[tid.x] = sum;
}

#[ptx_kernel(arch = "sm_80", block = (32, 8))]
pub fn right(x: &[f32], y: &mut [f32]) {
    let sum: f32 = block::reduce_max::<8, f32>(x[tid.x]);
    y[tid.x] = sum;
}

fn main() {}
