use ptx_launch::prelude::*;

#[ptx_kernel(
    arch = "sm_80",
    block = N,
    grid = 1,
    instances = [small = (f32, 32), small = (u32, 32), large = (f32, 64)],
    unsafe(requires(x.len() >= N))
)]
pub fn kernel<T, const N: u32>(x: &mut [T]) {}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let mut x = device.zeros::<u32>(64)?;
    kernel::small(&device, &mut x)?;
    kernel::large(&device, &mut x)?;
    let mut y = device.zeros::<f64>(64)?;
    kernel::launch(kernel::Instance::small, &device, &mut y)
}
