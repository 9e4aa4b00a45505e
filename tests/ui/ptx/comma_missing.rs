use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32)]
fn kernel(x: &mut [u32], y: u32) {
    ptx! {
        st.global.u32 [x] y;
    }
}

fn main() {}
