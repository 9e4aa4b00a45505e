use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    let x: u32;
    ptx! {
        min.u32 x, smid, 255;
        mov.u32 x, smid;
        st.global.u32 [out], tid.x;
    }
}

fn main() {}
