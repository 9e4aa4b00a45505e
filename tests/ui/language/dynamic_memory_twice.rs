use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Memory<const N: u32> {
        values: [f32; N],
    }

    #[ptx_kernel(block = 32, grid = 1)]
    pub fn twice() {
        #[shared(dynamic)]
        let first: Memory<2>;
        #[shared(dynamic)]
        let second: Memory<4>;
        ptx! {
            st.shared.f32 [first.values], 0f00000000;
            st.shared.f32 [second.values], 0f00000000;
        }
    }
}

fn main() {}
