use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, requires(index.len() >= 64, y.len() >= 64, x.len() >= n), proved)]
pub fn gather(x: &[f32], index: &[u32], y: &mut [f32], n: u32) {
    let (of, to) = (index + wide(tid.x) * 4, y + wide(tid.x) * 4);
    let (i, v): (u32, f32);
    ptx! { ld.global.u32 i, [of]; }
    assume!(i < n);
    let from = x + wide(i) * 4;
    ptx! { ld.global.f32 v, [from]; st.global.f32 [to], v; }
}

fn main() -> ptx_launch::Result<()> {
    let device = Device::cpu();
    let stream = device.new_stream()?;
    let (x, index, mut y) = (device.zeros::<f32>(64)?, device.zeros::<u32>(64)?, device.zeros::<f32>(64)?);
    gather(&stream, &x, &index, &mut y, 64)
}
