//! Names around a kernel change nothing: neither its launch nor the code that the macros write.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wrong_self_convention,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    missing_docs,
    unreachable_pub,
    unused_macros,
    reason = "tests"
)]

/// Every name that the macros might be caught by.
mod hostile {
    pub(crate) type u8 = u16;
    pub(crate) type u32 = u8;
    pub(crate) type u64 = f64;
    pub(crate) type i32 = i8;
    pub(crate) type f32 = u8;
    pub(crate) type f64 = u8;
    pub(crate) type usize = u8;
    pub(crate) type bool = u8;
    pub(crate) type str = u8;
    pub(crate) type f16 = u8;
    pub(crate) type bf16 = u8;
    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod ptx_launch {}
    pub(crate) struct Option;
    pub(crate) struct Result;
    pub(crate) struct Some;
    pub(crate) struct Ok;
    pub(crate) struct Err;
    pub(crate) struct None;
    pub(crate) struct Config;
    pub(crate) struct Kernel;
    pub(crate) struct Module;
    pub(crate) struct Variant;
    pub(crate) struct Param;
    pub(crate) struct Arg;
    pub(crate) struct Int;
    pub(crate) struct Len;
    pub(crate) struct Exists;
    pub(crate) struct Instance;
    pub(crate) struct PhantomData;
    pub(crate) trait ReadSlice {}
    pub(crate) trait WriteSlice {}
    pub(crate) trait Copy {}
    pub(crate) trait Clone {}
    pub(crate) trait Sized {}
    pub(crate) fn drop() {}
    pub(crate) fn int() {}
    pub(crate) fn run() {}
    pub(crate) fn unmet() {}
    pub(crate) fn launch() {}
    pub(crate) fn size_of() {}
    pub(crate) fn align_of() {}
    pub(crate) const MODULE: u8 = 0;
    pub(crate) const KERNEL: u8 = 0;
    pub(crate) const VARIANTS: u8 = 0;
    // A `let` of such a name would be a pattern.
    pub(crate) const stream: u8 = 0;
    pub(crate) const config: u8 = 0;
    pub(crate) const bound_x: u8 = 0;
    pub(crate) const dim_N: u8 = 0;
    pub(crate) const shape_a: u8 = 0;
    pub(crate) const length_a_map: u8 = 0;
    pub(crate) const a_map: u8 = 0;

    /// Methods that come before those that take a reference.
    pub(crate) trait Methods: ::core::marker::Sized {
        fn build(self) -> ! {
            ::core::panic!("a method of the user's")
        }
        fn bind(self) -> ! {
            ::core::panic!("a method of the user's")
        }
        fn shape(self) -> ! {
            ::core::panic!("a method of the user's")
        }
        fn arg(self) -> ! {
            ::core::panic!("a method of the user's")
        }
        fn as_stream(self) -> ! {
            ::core::panic!("a method of the user's")
        }
        fn len(self) -> ! {
            ::core::panic!("a method of the user's")
        }
        fn div_ceil(self, _: i128) -> ! {
            ::core::panic!("a method of the user's")
        }
    }
    impl<T> Methods for T {}
}

macro_rules! assert {
    ($($t:tt)*) => {
        ::core::compile_error!("a macro of the user's")
    };
}
macro_rules! unreachable {
    ($($t:tt)*) => {
        ::core::compile_error!("a macro of the user's")
    };
}
macro_rules! option_env {
    ($($t:tt)*) => {
        ::core::compile_error!("a macro of the user's")
    };
}

/// Kernels of every sort, among these names.
mod kernels {
    #![allow(unused_imports)]
    use super::hostile::*;
    use ::ptx_launch::{KernelParam, ptx, ptx_kernel, ptx_module, ptx_test};

    #[ptx_kernel(arch = "sm_80", block = 32, grid = n.div_ceil(32), unsafe(requires(x.len() >= n, y.len() >= n)))]
    pub(crate) fn scale(a: f32, x: &[f32], y: &mut [f32], n: u32) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < n {
            let (from, to): (u64, u64) = (x + wide(i) * 4, y + wide(i) * 4);
            let v: f32;
            ptx! { ld.global.f32 v, [from]; mul.rn.f32 v, v, a; st.global.f32 [to], v; }
        }
    }

    #[ptx_kernel(arch = "sm_80", block = N, grid = 1, instances = [(32, u32), (64, f32)], unsafe(requires(out.len() >= 64)))]
    pub(crate) fn fill<const N: u32, T>(value: T, _values: [T; 2], out: &mut [T]) {
        let to: u64 = out + wide(tid.x) * 4;
        ptx! { st.global.b32 [to], value; }
    }

    #[ptx_kernel(arch = "sm_90a", block = 32, grid = N.div_ceil(32), unsafe(requires(M >= 1)))]
    pub(crate) fn tile(#[tma(box = [8, 32])] a: Tile<f32, (M, N)>, b: TileMut<f32, (M, N)>) {
        let i: u32 = ctaid.x * 32 + tid.x;
        if i < N {
            let (from, to): (u64, u64) = (a + wide(i) * 4, b + wide(i) * 4);
            let v: f32;
            ptx! { ld.global.f32 v, [from]; st.global.f32 [to], v; }
        }
    }

    #[ptx_module(arch = "sm_80")]
    pub(crate) mod several {
        use super::super::hostile::*;
        type u32 = u8;

        #[ptx_kernel(block = 32, grid = 1, unsafe(requires(x.len() >= 32)))]
        pub(crate) fn count(x: &mut [u32], from: u32) {
            let at: u64 = x + wide(tid.x) * 4;
            let v: u32 = from + tid.x;
            ptx! { st.global.u32 [at], v; }
        }
    }

    ptx! {
        #[ptx_kernel(block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
        pub fn lanes(out: &mut [u32], add: u32);

        .version 7.0
        .target sm_80
        .address_size 64
        .visible .entry lanes(.param .u64 out, .param .u32 add)
        {
            .reg .u32 %i, %a;
            .reg .u64 %at, %offset;
            ld.param.u64        %at, [out];
            ld.param.u32        %a, [add];
            mov.u32             %i, %tid.x;
            mul.wide.u32        %offset, %i, 4;
            add.u64             %at, %at, %offset;
            add.u32             %i, %i, %a;
            st.global.u32       [%at], %i;
            ret;
        }
    }

    #[ptx_test(seeds = 2)]
    fn the_body_calls_what_it_names(device: &::ptx_launch::Device) {
        run();
        let _ = device;
    }
}

use ptx_launch::Device;

#[test]
fn numbers_are_those_of_the_kernel() {
    let device = Device::cpu();
    let x = device.upload(&[2.0f32; 40]).unwrap();
    let mut y = device.zeros::<f32>(40).unwrap();
    kernels::scale(&device, 1.5, &x, &mut y, 40).unwrap();
    assert_eq!(y.download().unwrap(), [3.0; 40]);
    let mut out = device.zeros::<u32>(64).unwrap();
    kernels::fill::<32, u32>(&device, 7, [7, 7], &mut out).unwrap();
    assert_eq!((out.download().unwrap()[..32].to_vec(), out.download().unwrap()[32]), (vec![7; 32], 0));
    let mut out = device.zeros::<f32>(64).unwrap();
    kernels::fill::<64, f32>(&device, 0.5, [0.5; 2], &mut out).unwrap();
    assert_eq!(out.download().unwrap(), [0.5; 64]);
    let a = device.upload(&[4.0f32; 8 * 64]).unwrap();
    let mut b = device.zeros::<f32>(8 * 64).unwrap();
    kernels::tile(&device, a.tile([8, 64]).unwrap(), b.tile_mut([8, 64]).unwrap()).unwrap();
    assert_eq!(b.download().unwrap()[..64], [4.0; 64]);
    let mut out = device.zeros::<u32>(32).unwrap();
    kernels::several::count(&device, &mut out, 1000).unwrap();
    assert_eq!(out.download().unwrap()[31], 1031);
    kernels::lanes(&device, &mut out, 70_000).unwrap();
    assert_eq!(out.download().unwrap()[31], 70_031);
}

/// A macro's arguments have invisible brackets around them.
mod from_macros {
    use ptx_launch::prelude::*;

    macro_rules! stores {
        ($name:ident, $ty:ty, $element:ty) => {
            #[ptx_kernel(arch = "sm_80", block = 32, grid = 1, unsafe(requires(out.len() >= 32)))]
            pub(crate) fn $name(value: $ty, out: &mut [$element]) {
                let at: u64 = out + wide(tid.x) * 4;
                ptx! { st.global.u32 [at], value; }
            }
        };
    }
    stores!(store, u32, u32);

    #[test]
    fn macros_pass_types() {
        let device = Device::cpu();
        let mut out = device.zeros::<u32>(32).unwrap();
        store(&device, 9, &mut out).unwrap();
        assert_eq!(out.download().unwrap(), [9; 32]);
    }
}
