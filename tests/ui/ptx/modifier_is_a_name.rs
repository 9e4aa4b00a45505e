use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, instances = [(f32), (u32)])]
fn kernel<T>(value: T, out: &mut [T]) {
    const CACHE: &str = "cs";
    ptx! {
        st.global.T         [out], value;
        st.global.CACHE.b32 [out], value;
    }
}

fn main() {}
