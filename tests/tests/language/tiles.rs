//! Shapes: dimensions that tiles name, and tensor maps made at the launch.
use libtest_mimic::Trial;
use ptx_launch::prelude::*;

pub fn trials() -> Vec<Trial> {
    vec![
        super::passes!(dimensions_are_parameters_behind_the_others),
        super::passes!(dimensions_that_differ_are_an_error),
        super::passes!(a_constant_in_a_tile_is_compared),
        super::assembles("scale::PTX", scale::PTX),
        super::assembles("rows::PTX", rows::PTX),
    ]
}

#[ptx_kernel(arch = "sm_90a", block = 128, grid = (N.div_ceil(64), M.div_ceil(32)), unsafe(requires()))]
pub fn scale(#[tma(box = [32, 64], promotion = 128)] a: Tile<f32, (M, N)>, c: TileMut<f32, (M, N)>, factor: f32) {
    let (m, n): (u32, u32) = (M, N);
    ptx! {
        prefetch.tensormap [a_map];
        st.global.v2.u32 [c], {m, n};
        st.global.f32 [c + 8], factor;
    }
}

fn dimensions_are_parameters_behind_the_others() {
    let params: Vec<_> = scale::KERNEL.params.iter().map(|p| (p.name, p.size)).collect();
    assert_eq!(params, [("a", 8), ("c", 8), ("factor", 4), ("a_map", 128), ("M", 4), ("N", 4)]);
    assert!(scale::PTX.contains("prefetch.tensormap [%a_map];"), "{}", scale::PTX);
}

fn dimensions_that_differ_are_an_error() {
    let device = Device::cpu();
    let (a, mut c) = (device.zeros::<f32>(32).unwrap(), device.zeros::<f32>(32).unwrap());
    let launched = scale(&device, a.tile([4, 8]).unwrap(), c.tile_mut([8, 4]).unwrap(), 1.0);
    let text = launched.unwrap_err().to_string();
    assert!(text.contains("M = 4 in `a`, 8 in `c`"), "{text}");
}

#[ptx_kernel(arch = "sm_80", block = 32, grid = ROWS, instances = [64, 128], unsafe(requires()))]
pub fn rows<const HEAD: u32>(x: TileMut<u32, (ROWS, HEAD)>) {
    let n: u32 = ROWS * HEAD;
    ptx! { st.global.u32 [x], n; }
}

fn a_constant_in_a_tile_is_compared() {
    let device = Device::cpu();
    let mut x = device.zeros::<u32>(128).unwrap();
    let launched = rows::<64>(&device, x.tile_mut([1, 128]).unwrap());
    let text = launched.unwrap_err().to_string();
    assert!(text.contains("HEAD = 64 in `HEAD`, 128 in `x`"), "{text}");
}
