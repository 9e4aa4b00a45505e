use ptx_launch::prelude::*;

#[deny(deprecated)]
#[ptx_kernel(arch = "sm_80", block = 32)]
fn never_written(x: &mut [f32], m: u32) {
    let (v, w): ([f32; 4], [f32; 8]);
    let p: pred = tid.x < m;
    vector::store::<f32, 4>(x, vector::pack::<f32, 4>(v), p);
    for i in 0..8 {
        w[i] += 1.0;
    }
}

// What is missing because of an error is not warned about.
#[deny(deprecated)]
#[ptx_kernel(arch = "sm_80", block = 32)]
fn never_written_after_an_error(x: &mut [f32]) {
    let v: f32 = warp::reduce_summ::<f32>(1.0);
    ptx! { st.global.f32 [x], v; }
}

fn main() {}
