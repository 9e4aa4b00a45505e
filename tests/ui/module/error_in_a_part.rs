use ptx_launch::prelude::*;

#[ptx_part]
mod helpers {
    fn twice(x: u32) -> u32 {
        x + y
    }
}

#[ptx_module(arch = "sm_80", parts(helpers))]
pub mod kernels {
    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
    pub fn kernel(out: &mut [u32]) {
        let x: u32 = twice(tid.x);
        let to = out.at(tid.x);
        ptx! { st.global.u32 [to], x; }
    }
}

fn main() {}
