use ptx_launch::prelude::*;

#[ptx_module(arch = "sm_80")]
pub mod helpers {
    fn f() {}
    fn f() {}
    fn k() {}

    struct Pair {
        x: u32,
        x: u32,
    }

    #[ptx_kernel(block = 32)]
    pub fn k() {
        let (a, a): (u32, u32);
        fn g() {}
        const g: u32 = 1;
    }
}

#[ptx_kernel(arch = "sm_80", block = 32, instances = [(f32), (f32)])]
pub fn twice<T>(x: T) {}

#[ptx_kernel(arch = "sm_80", block = 32, instances = [(f32)])]
pub fn not_generic(x: f32) {}

fn main() {}
