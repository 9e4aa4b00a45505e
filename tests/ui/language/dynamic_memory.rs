use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    #[ptx_kernel(block = 32, grid = 1, instances = [4, 8])]
    pub fn unknown<const N: u32>() {
        #[shared(dynamic)]
        let values: [f32];
        ptx! { st.shared.f32 [values + N], 0f00000000; }
    }
}

fn main() {}
