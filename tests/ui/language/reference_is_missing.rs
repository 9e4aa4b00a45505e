use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    fn add(sum: &mut u32, x: u32) {
        *sum += x;
    }

    fn total(values: &[u32; 4]) -> u32 {
        values[0] + values[1]
    }

    #[ptx_kernel]
    pub fn kernel(n: u32) {
        let mut sum: u32 = 0;
        let values: [u32; 4] = [n; 4];
        add(sum, n);
        add(&sum, n);
        add(&mut sum, &n);
        sum = total(values);
        add(&mut n, 1);
    }
}

fn main() {}
