use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel() {
    let pair: [f32; 2] = [1.0, 2.0];
    let [a, b] = pair;
    let sum: f32 = a + b;
    static TABLE: [f32; 4];
}

fn main() {}
