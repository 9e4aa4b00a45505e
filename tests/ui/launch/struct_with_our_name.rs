use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    #[repr(C)]
    pub struct Texture {
        pub level: u32,
    }

    #[ptx_kernel(block = 32)]
    pub fn kernel(x: &mut [u32], texture: Texture) {
        ptx! { st.global.u32 [x], 1; }
    }
}

fn main() {}
