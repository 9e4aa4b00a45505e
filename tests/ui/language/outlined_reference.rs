use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    #[noinline]
    fn add(sum: &mut u32, x: u32) {
        *sum += x;
    }

    #[ptx_kernel]
    pub fn kernel(n: u32) {
        let mut sum: u32 = 0;
        add(&mut sum, n);
    }
}

fn main() {}
