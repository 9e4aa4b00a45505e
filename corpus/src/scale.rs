//! A kernel in Rust for rustc's nvptx64 target. It brings its own pieces of `core`, so that no library of that target
//! need be installed.
#![no_core]
#![no_std]
#![crate_type = "lib"]
#![allow(internal_features)]
#![feature(abi_ptx, lang_items, no_core)]

#[lang = "pointee_sized"]
pub trait PointeeSized {}
#[lang = "meta_sized"]
pub trait MetaSized: PointeeSized {}
#[lang = "sized"]
pub trait Sized: MetaSized {}
#[lang = "copy"]
pub trait Copy {}
impl Copy for f32 {}
impl Copy for u32 {}
impl<T> Copy for *mut T {}

#[lang = "mul"]
pub trait Mul<Rhs = Self> {
    type Output;
    fn mul(self, other: Rhs) -> Self::Output;
}
impl Mul for f32 {
    type Output = f32;
    fn mul(self, other: f32) -> f32 {
        self * other
    }
}

/// `*x = *x * by * by`, through a function that stays one.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn scale(x: *mut f32, by: f32) {
    unsafe { *x = twice(*x, by) }
}

#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn twice(x: f32, by: f32) -> f32 {
    x * by * by
}
