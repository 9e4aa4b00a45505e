use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, safe(x.len() >= 32, n <= 32))]
pub fn kernel(x: &mut [f32], n: u32) {}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let mut x = device.zeros::<f32>(32)?;
    kernel(&device, &mut x, 32)
}
