//! A mistake in an attribute or a signature is the only error: the calls of the kernel have none.

use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", blok = 128, grid = 1)]
pub fn misspelt(out: &mut [u32]) {}

#[ptx_kernel(arch = "sm_80", block = (1, 2, 3, 4), grid = 1)]
pub fn four_extents(out: &mut [u32]) {}

#[ptx_kernel(arch = "sm_80", block(128), grid = 1, unsafe(require(out.len() >= 32)))]
pub fn like_calls(out: &mut [u32]) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires()))]
pub fn returns(out: &mut [u32]) -> u32 {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, requires out.len() >= 32)]
pub fn generic<T, const N: u32>(out: &mut [T]) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires()))]
pub fn pattern((a, b): (u32, u32)) {}

#[ptx_module(arch = "sm_80", opt = 3)]
mod kernels {
    pub struct Config {
        pub rows: u32,
    }

    #[ptx_kernel(block = 32, gird = 1, instance = [tall = (Config { rows: 1 })], unsafe(requires()))]
    pub fn named<const C: Config>(out: &mut [u32]) {}

    #[ptx_kernel(arch = "sm_80", threads = 32, grid = 1, unsafe(requires()))]
    pub fn of_a_module(out: &mut [u32]) {}
}

fn launch(device: &Device, out: &mut Buffer<u32>) -> ptx_launch::Result<()> {
    misspelt(device, out)?;
    unsafe { misspelt(device, Config::grid(1).block(128), out)? };
    four_extents(device, out)?;
    like_calls(device, out)?;
    returns(device, out)?;
    generic::<f32, 4>(device, out)?;
    generic(device, out)?;
    pattern(device, (1, 2))?;
    kernels::named::tall(device, out)?;
    kernels::named::launch(kernels::named::Instance::tall, device, out)?;
    kernels::of_a_module(device, out)
}

fn main() {
    let device = Device::cpu();
    let mut out = device.zeros(32).unwrap();
    launch(&device, &mut out).unwrap();
}
