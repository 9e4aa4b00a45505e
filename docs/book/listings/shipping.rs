//! A library function around a kernel: any stream, any memory, any strides.

use ptx_launch::prelude::*;
use ptx_launch::{Error, ErrorKind, IntoTensor, IntoTensorMut, Result};

// ANCHOR: library
#[ptx_kernel(arch = "sm_80", block = 256, grid = n.div_ceil(256), instances = [f32, u32], unsafe(requires(x.len() >= n, out.len() >= n)))]
fn double_kernel<T>(x: &[T], out: &mut [T], n: u32) {
    let i: u32 = ctaid.x * 256 + tid.x;
    if i < n {
        let (from, to) = (x.at(i), out.at(i));
        let mut v: T;
        ptx! { ld.global.{T} v, [from]; }
        v += v;
        ptx! { st.global.{T} [to], v; }
    }
}

/// `out = 2 x`. Both are vectors without gaps, of one length.
///
/// # Errors
/// Other strides or lengths, and those of the launch.
pub fn double<'a>(
    stream: impl AsStream,
    x: impl IntoTensor<'a, f32, 1>,
    out: impl IntoTensorMut<'a, f32, 1>,
) -> Result<()> {
    let (x, mut out) = (x.into(), out.into());
    if x.shape() != out.shape() || !x.is_contiguous() || !out.is_contiguous() {
        return Err(Error::new(ErrorKind::Condition, "`double` takes contiguous vectors of one length"));
    }
    let n = x.shape()[0] as u32;
    double_kernel::<f32>(stream, &x, &mut out, n)
}
// ANCHOR_END: library

// ANCHOR: main
pub fn main() -> Result<()> {
    let device = Device::best()?;
    let x = device.upload(&[1.0f32, 2.0, 3.0])?;
    let mut out = device.zeros::<f32>(3)?;
    double(&device, x.tile([3])?, out.tile_mut([3])?)?;
    assert_eq!(out.download()?, [2.0, 4.0, 6.0]);
    Ok(())
}
// ANCHOR_END: main
