use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 256)]
fn kernel(x: f32) {
    let total: f32 = block::reduce_sum::<f32, 8>(x);
    let one: f32 = warp::reduce_add(x);
}

fn main() {}
