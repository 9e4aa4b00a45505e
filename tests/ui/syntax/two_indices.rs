use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires()))]
pub fn kernel(x: Tile<f32, (M, N)>) {
    let i: u32 = tid.x;
    let v: f32 = x[i, 3];
}

fn main() {
    let device = Device::cpu();
    kernel(&device, device.zeros::<f32>(64).unwrap().tile([8, 8]).unwrap()).unwrap();
}
