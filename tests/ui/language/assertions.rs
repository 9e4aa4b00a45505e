use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    fn sum<T, const N: u32>(values: &[T; N]) -> T {
        assert!(N % 2 == 0, "`sum` adds pairs: {N} values of `{T}` are {N % 2} too many");
        values[0] + values[N / 2]
    }

    #[ptx_kernel(block = N, grid = 1, instances = [small = (64), large = (2048)])]
    pub fn kernel<const N: u32>(n: u32) {
        assert!(N <= 1024);
        assert!(n > 0, "nothing to do");
        assert!(N, "no condition");
        let values: [f32; 3] = [1.0, 2.0, 3.0];
        let _total = sum(&values);
    }
}

fn main() {}
