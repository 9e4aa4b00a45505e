use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn kernel() {
    let a: float = 1.0;
    let b: int = 3;
    let c: half = 1.0;
    let d: size_t = 4;
    let e: Option<u32>;
    let f: u32 = 1.5;
    let g = 1.0f;
}

#[ptx_kernel(arch = "sm_80", block = 32)]
pub fn parameters(x: [f32], name: &str, flag: bool) {}

fn main() {}
