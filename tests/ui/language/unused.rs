#![deny(unused_variables, dead_code)]
use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    fn never(x: u32) -> u32 {
        only_by_never(x)
    }

    fn only_by_never(x: u32) -> u32 {
        x
    }

    fn twice(x: u32, factor: u32) -> u32 {
        x + x
    }

    struct Pair {
        a: u32,
        b: u32,
    }

    impl Pair {
        fn sum(&self) -> u32 {
            self.a + self.b
        }

        fn difference(&self) -> u32 {
            self.a - self.b
        }
    }

    #[ptx_kernel(block = 32, grid = n / 32)]
    pub fn kernel(out: &mut [u32], n: u32, scale: u32) {
        #[shared]
        let tile: [u32; 32];
        let pair = Pair { a: 1, b: twice(2, 3) };
        let (sum, assigned): (u32, u32);
        sum = pair.sum();
        assigned = sum;
        for i in 0..2 {
            let _on_purpose: u32 = 0;
        }
        ptx! { st.global.u32 [out], sum; }
    }

    #[allow(unused_variables)]
    #[ptx_kernel(block = 32, grid = 1)]
    pub fn silent(scale: u32) {
        let x: u32 = tid.x;
    }
}

fn main() {}
