use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    mod helpers {
        struct Pair {
            a: u32,
            b: u32,
        }

        impl Pair {
            fn sum(&self) -> f32 {
                self.a + self.b
            }
        }

        fn twice(x: u32) -> u32 {
            let unused: u32 = 3;
            x << 1
        }

        fn quotient(pair: &Pair) -> u32 {
            pair.a % pair.c
        }
    }

    #[ptx_kernel(block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
    pub fn kernel(out: &mut [u32]) {
        let x: u32 = helpers::twice(tid.x);
        let to = out.at(tid.x);
        ptx! { st.global.u32 [to], x; }
    }
}

fn main() {}
