use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80")]
pub fn kernel(out: &mut [u32]) {
    struct Pair {
        a: u32,
        b: u32,
    }
    struct List {
        head: u32,
        tail: List,
    }
    let pair = Pair { a: 1, b: 2 };
    let sum: u32 = pair + 1;
    ptx! { st.global.u32 [out], pair; }
    ptx! { st.global.u32 [out], pair.c; }
    let list: List;
}

fn main() {}
