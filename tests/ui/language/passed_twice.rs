use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    fn add(sum: &mut u32, x: u32) {
        *sum += x;
    }

    fn blend(into: &mut [u32; 2], from: &[u32; 4]) {
        into[0] += from[3];
    }

    #[ptx_kernel]
    pub fn kernel(n: u32) {
        let mut sum: u32 = n;
        add(&mut sum, sum);
        let mut values: [u32; 4] = [n; 4];
        blend(&mut values[2..4], &values);
    }
}

fn main() {}
