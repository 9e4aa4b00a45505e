#![forbid(unsafe_code)]
use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), requires(x.len() >= n, y.len() >= n), proved)]
pub fn right(a: f32, x: &[f32], y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i < n {
        let (from, to) = (x + wide(i) * 4, y + wide(i) * 4);
        let (v, w): (f32, f32);
        ptx! { ld.global.f32 v, [from]; ld.global.f32 w, [to]; fma.rn.f32 w, a, v, w; st.global.f32 [to], w; }
    }
}

#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), requires(x.len() >= n, y.len() >= n), proved)]
pub fn off_by_one(a: f32, x: &[f32], y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    if i <= n {
        let (from, to) = (x + wide(i) * 4, y + wide(i) * 4);
        let (v, w): (f32, f32);
        ptx! { ld.global.f32 v, [from]; ld.global.f32 w, [to]; fma.rn.f32 w, a, v, w; st.global.f32 [to], w; }
    }
}

#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), requires(y.len() >= n), proved)]
pub fn no_guard(y: &mut [f32], n: u32) {
    let i: u32 = ctaid.x * ntid.x + tid.x;
    let to = y + wide(i) * 4;
    ptx! { st.global.f32 [to], 0.0; }
}

#[ptx_kernel(arch = "sm_80", block = 256, grid = 1, requires(x.len() >= 256), proved)]
pub fn no_barrier(x: &mut [u32]) {
    #[shared]
    let tile: [u32; 256];
    let (at, there, back) = (x + wide(tid.x) * 4, tile + tid.x * 4, tile + (255 - tid.x) * 4);
    let v: u32;
    ptx! {
        ld.global.u32   v, [at];
        st.shared.u32   [there], v;
        ld.shared.u32   v, [back];
        st.global.u32   [at], v;
    }
}

fn main() {}
