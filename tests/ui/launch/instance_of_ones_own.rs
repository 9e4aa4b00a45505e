use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, instances = [f32], unsafe(requires(x.len() >= 32)))]
pub fn kernel<T>(x: &[T]) {}

impl kernel::Exists for kernel::Instance<u8> {
    fn kernel() -> &'static Kernel {
        <kernel::Instance<f32> as kernel::Exists>::kernel()
    }
}

fn main() {}
