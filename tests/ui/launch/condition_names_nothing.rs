#![allow(unused_variables)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(x.len() >= m)))]
pub fn kernel(x: &[f32], n: u32) {}

fn main() {}
