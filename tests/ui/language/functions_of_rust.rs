use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel(x: &[f32], n: u32) {
    let v: f32 = f32::max(tid.x as f32, 2.0);
    let i: u32 = min(tid.x, n);
    let root: f32 = v.sqrt();
    let power: f32 = v.exp();
    let len = x.len();
    let part = &x[0..4];
    let name = "text";
    let nothing = block::sync();
    let sum: f32 = block::reduce_sum(v);
    println!("{}", i);
}

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn rows(x: Tile<f32, (M, N)>, row: i32) {
    let at = x.at(row, 0);
}

fn main() {}
