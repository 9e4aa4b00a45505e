//! `allow(CODE)` silences one kind of warning in one kernel; `allow(deprecated)` is about host code, and silences none.
#![allow(deprecated)]
#![deny(warnings)]

use ptx_launch::prelude::*;

#[ptx_kernel(arch = "sm_80", block = 32, allow(P0205))]
fn another(v: u32) {
    let up: u32;
    let w: f32;
    ptx! { shfl.up.sync.b32 up, v, 1, 0, -1; add.rn.f32 w, w, w; }
}

#[ptx_kernel(arch = "sm_80", block = 32, allow(P0205, P0503))]
fn both(v: u32) {
    let up: u32;
    let w: f32;
    ptx! { shfl.up.sync.b32 up, v, 1, 0, -1; add.rn.f32 w, w, w; }
}

#[ptx_kernel(arch = "sm_80", block = 32, allow(P0593, deprecated, P0205 = 1))]
fn unknown() {}

#[ptx_module(arch = "sm_80", allow(P0205))]
mod kernels {
    fn helper(v: u32) {
        let up: u32;
        ptx! { shfl.up.sync.b32 up, v, 1, 0, -1; }
    }

    #[ptx_kernel(block = 32, allow(P0503))]
    fn one(v: u32) {
        let w: f32;
        helper(v);
        ptx! { add.rn.f32 w, w, w; }
    }

    #[ptx_kernel(block = 32)]
    fn two(v: u32) {
        let x: f32;
        helper(v);
        ptx! { add.rn.f32 x, x, x; }
    }
}

fn main() {}
