use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 128, grid = 1)]
pub fn kernel(x: &mut [f32], n: u32) {
    ptx! {
        setp.lt.u32     p, 1, n;
        @p bra          exti;
        @!q ld.global.f32 v, [from];
        mul.wide.u32    d, n, n;
        st.global.f32   [x], v;
    exit:
    }
}

fn main() {}
