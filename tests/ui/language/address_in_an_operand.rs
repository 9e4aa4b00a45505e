use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Memory {
        a: [f32; 32],
        b: [f32; 32],
    }

    fn first(x: &[f32]) -> f32 {
        let v: f32;
        ptx! { ld.global.f32 v, [x]; }
        v
    }

    #[ptx_kernel]
    pub fn kernel(x: &[f32]) {
        #[shared]
        let memory: Memory;
        let at: u32;
        ptx! { add.u32 at, memory.b, 4; }
        let v: f32 = first(x);
    }
}

fn main() {}
