//! A crate that forbids `unsafe` can use the macros.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests")]

use kernels::{Factors, fill};
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

    /// `y[i] = a * b * i`
    #[ptx_kernel(block = 64, grid = n.div_ceil(64), safe(y.len() >= n))]
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
fn a_struct_travels_by_value() {
    let device = Device::cpu();
    let mut y = device.zeros::<f32>(100).unwrap();
    fill(&device, Factors { a: 2.0, b: 0.5 }, &mut y.slice_mut(..90).unwrap(), 90).unwrap();
    let y = y.download().unwrap();
    assert!((0..90).all(|i| y[i] == i as f32) && y[90..] == [0.0; 10]);
    assert!(kernels::PTX.contains(".entry nothing"));
}
