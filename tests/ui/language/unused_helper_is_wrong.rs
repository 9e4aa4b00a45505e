use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    struct Counter {
        count: u32,
    }

    impl Counter {
        fn step(&mut self, by: u64) {
            self.count += by;
        }
    }

    fn stores(to: Global<f32>, x: f32) {
        ptx! { st.global.f32 [to], x; }
    }

    #[ptx_kernel(block = 32, grid = 1)]
    pub fn kernel() {}
}

fn main() {}
