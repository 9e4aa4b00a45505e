use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod kernels {
    fn doubled<T>(x: T) -> T {
        let y: T;
        ptx! { shl.b32 y, x, 1; }
        y
    }

    fn four_times<T>(x: T) -> T {
        doubled(doubled(x))
    }

    #[ptx_kernel(block = 32, grid = 1, instances = [small = (u32), large = (u64), bits = (f64)])]
    pub fn instances<T>(x: T, out: &mut [T]) {
        let y: T = four_times(x);
        ptx! { st.global.{T} [out], y; }
    }

    fn called_by_nothing(x: &mut u32) {
        ptx! { add.u64 x, x, 1; }
    }
}

#[ptx_kernel(arch = "sm_80", block = 128, grid = 1)]
pub fn library(out: &mut [u32]) {
    let a: f64 = warp::redux::<"add", f64>(0.5);
    let b: u16 = warp::reduce_sum::<u16>(1);
    let c: f32 = block::reduce::<"and", 4, f32>(0.5);
    let d: [b32; 1] = vector::pack::<f64, 2>([0.5, 0.5]);
}

fn main() {}
