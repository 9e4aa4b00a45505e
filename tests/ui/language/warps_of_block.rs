#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 256)]
pub fn too_few() {
    let x: f32 = 1.0;
    let sum: f32 = block::reduce_sum::<4, f32>(x);
}

#[ptx_kernel(arch = "sm_80", block = 48)]
pub fn no_whole_warps() {
    let x: u32 = tid.x;
    let sum: u32 = block::scan_sum::<2, u32>(x);
}

#[ptx_kernel(arch = "sm_80", block = (32, 8))]
pub fn right() {
    let x: u32 = tid.x;
    let most: u32 = block::reduce_max::<8, u32>(x);
}

fn main() {}
