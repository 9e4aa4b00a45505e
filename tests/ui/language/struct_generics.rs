use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Ring<const STAGES: u32> {
        stage: u32,
    }

    impl<const STAGES: u32> Ring<STAGES> {
        fn new() -> Ring<STAGES> {
            Ring { stage: 0 }
        }
    }

    #[ptx_kernel]
    pub fn kernel() {
        let a = Ring::new();
        let b: Ring = Ring::<4>::new();
        let c: Ring<8> = Ring::<4>::new();
        let d: Ring<f32>;
    }
}

fn main() {}
