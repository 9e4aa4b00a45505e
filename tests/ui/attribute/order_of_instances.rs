use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = N, instances = [(32, f32)])]
fn fill<T, const N: u32>(value: T, out: &mut [T]) {}

fn main() {}
