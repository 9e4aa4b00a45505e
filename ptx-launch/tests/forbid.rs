//! A crate that forbids `unsafe` can use the macros; another one launches, or vouches for, its kernels.
#![forbid(unsafe_code)]

use ptx_launch::prelude::*;

/// Kernels that share a struct.
#[ptx_module(arch = "sm_80")]
pub mod kernels {
    /// Two factors.
    #[derive(Clone, Copy, ptx_launch::KernelParam)]
    #[repr(C)]
    pub struct Factors {
        /// One.
        pub a: f32,
        /// The other.
        pub b: f32,
    }

    /// `y[i] = a * b * i`; `unsafe` to launch, conditions or not.
    #[ptx_kernel(block = 64, grid = n.div_ceil(64), requires(y.len() >= n))]
    pub fn fill(factors: Factors, y: &mut [f32], n: u32) {
        let i: u32 = ctaid.x * ntid.x + tid.x;
        if i < n {
            let p: u64 = y + wide(i) * 4;
            let v: f32 = (i as f32) * factors.a * factors.b;
            ptx! { st.global.f32 [p], v; }
        }
    }

    /// Without conditions: `unsafe` to launch.
    #[ptx_kernel]
    pub fn nothing() {}
}

#[test]
fn kernels_are_data() {
    let factors = kernels::Factors { a: 2.0, b: 0.5 };
    assert_eq!(factors.a * factors.b, 1.0);
    assert!(kernels::PTX.contains(".entry nothing"));
}
