use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Memory<const N: u32> {
        values: [f32; N],
    }

    #[ptx_kernel(block = 32, grid = 1, instances = [2, 4])]
    pub fn differ<const N: u32>() {
        #[shared(dynamic)]
        let memory: Memory<N>;
        ptx! { st.shared.f32 [memory.values], 0f00000000; }
    }
}

fn main() {}
