use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, grid = 1, pdl, unsafe(requires(x.len() >= 32)))]
pub fn on_a_target_without_overlap(x: &mut [f32]) {
    grid::overlap();
    let at = x.at(tid.x);
    ptx! { st.global.f32 [at], 0f00000000; }
}

#[ptx_kernel(arch = "sm_90", block = 32, grid = 1, pdl, unsafe(requires(x.len() >= 32)))]
pub fn that_waits(x: &mut [f32]) {
    grid::wait();
    let at = x.at(tid.x);
    ptx! { st.global.f32 [at], 0f00000000; }
}

fn main() {}
