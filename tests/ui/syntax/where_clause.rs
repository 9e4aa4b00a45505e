use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", instances = [f32])]
pub fn kernel<T>(x: &[T])
where
    T: Copy,
{
}

fn main() {}
