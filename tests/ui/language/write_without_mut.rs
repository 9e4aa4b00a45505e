use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32], n: u32) {
    let sum: u32 = 0;
    sum += n;
    let (low, high): (u32, u32) = (n, 1);
    ptx! {
        min.u32         low, low, high;
        st.global.u32   [out], low;
    }
    n = 7;
}

fn main() {}
