use ptx_launch::prelude::*;

const BLOCK: u32 = 64;

#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, requires(index.len() >= 64, y.len() >= 64), proved)]
pub fn gather(x: &[f32], index: &[u32], y: &mut [f32]) {
    let (of, to) = (index + wide(tid.x) * 4, y + wide(tid.x) * 4);
    let (i, v): (u32, f32);
    ptx! { ld.global.u32 i, [of]; }
    let from = x + wide(i) * 4;
    ptx! { ld.global.f32 v, [from]; st.global.f32 [to], v; }
}

#[ptx_kernel(arch = "sm_80", block = BLOCK, grid = 1, proved)]
pub fn hidden_constant() {}

#[ptx_kernel(arch = "sm_90", block = 64, grid = 1, pdl, proved)]
pub fn beside_another(n: u32) {
    if tid.x < n {
        grid::wait();
    }
}

#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, unsafe(requires(x.len() >= 64)), proved)]
pub fn vouched(x: &[f32]) {}

#[ptx_kernel(arch = "sm_80", block = 64, grid = 1, proved(limits))]
pub fn no_property() {}

#[ptx_kernel(arch = "sm_80", grid = 1, proved(bounds))]
pub fn no_block() {}

fn main() {}
