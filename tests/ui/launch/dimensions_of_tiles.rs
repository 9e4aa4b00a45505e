use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn none(x: Tile<f32>) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn without_brackets(x: Tile<f32, M, N>) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn a_number(x: Tile<f32, 512>) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn no_dimension(x: TileMut<f32, ()>) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn nested(x: Tile<f32, (M, (N, K))>) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn one_more(x: Tile<f32, (M, N), 3>) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn a_parameter_too(x: Tile<f32, (n,)>, n: u32) {}

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1)]
pub fn of_a_map(x: TensorMap<f32>) {}

fn main() {}
