//! Softmax over rows, forward and backward.
//!
//! Matrices may have any row stride, any alignment and any number of columns. Arithmetic is `f32`, results are rounded to nearest. The relative
//! error of an element before rounding is at most (n / 256 + 2 |a| + 20) · 2^-24 for n columns, where `a` is `scale` · (x - max(x)); elements below
//! 2^-126 are zero. An element of dx is off by at most (n / 256 + 30) · 2^-24 · `scale` · y · max |dy| before rounding. As in PyTorch, a row with a NaN
//! or +∞ is NaN, and so is a row of -∞ alone; elements of -∞ beside finite ones are zero.
//!
//! On `sm_90` and later, rows of whole 16 bytes stay in registers (`softmax/hopper.rs`): forward up to 131,072 columns, which a cluster of blocks shares,
//! backward up to 64 KiB. Everything else runs by `softmax/portable.rs`, which reads a row twice. Measured on an H200 at 8192 × 8192, GB/s of the bytes that
//! must move, and as a share of a device copy's in the same run:
//!
//! | | bf16 | f32 |
//! |---|---|---|
//! | device copy | 3815 | 4091 |
//! | [`softmax`] | 3846 (1.01) | 4121 (1.01) |
//! | [`softmax_backward`] | 4142 (1.09) | 4273 (1.04) |
//! | `softmax/portable.rs`: forward, backward | 3434 (0.91), 2903 (0.77) | 2875 (0.71), 2521 (0.63) |
//!
//! Other chips have not been measured.
//!
//! Source: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018.

mod hopper;
mod portable;

use crate::rows::{Matrix, Rows, is_hopper};
use half::{bf16, f16};
use hopper::tuned;
use portable::kernels;
use ptx_launch::{
    AsStream, Element, Error, ErrorKind, IntoTensor, IntoTensorMut, Result, StreamRef, TensorMut, TensorRef,
};

/// Every module of kernels of this operation and its PTX, one entry per target, for tools.
pub const MODULES: &[(&str, &str)] =
    &[("softmax_sm_75", kernels::TEXTS[0].1), ("softmax_sm_90", kernels::TEXTS[1].1), ("softmax_hopper", tuned::PTX)];

/// Element types of softmax: `f32`, `f16`, `bf16`.
#[diagnostic::on_unimplemented(
    message = "softmax has no kernels for elements of `{Self}`",
    label = "expected f32, f16 or bf16"
)]
pub trait Float: Launch {}
impl Float for f32 {}
impl Float for f16 {}
impl Float for bf16 {}

/// `out` = exp(`x`) / sum(exp(`x`)), row by row.
///
/// Both are `[rows, columns]`, each with any row stride. [The module](self) has types, error bound, kernels, source and rates.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (x, mut out) = (device.upload(&[0.0f32, f32::ln(3.0)])?, device.zeros::<f32>(2)?);
/// ptx_kernels::softmax::softmax(&device, x.tile([1, 2])?, out.tile_mut([1, 2])?)?;
/// assert!((out.download()?[1] - 0.75).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Softmax::forward`].
pub fn softmax<'x, 'o, T: Float>(
    stream: impl AsStream,
    x: impl IntoTensor<'x, T, 2>,
    out: impl IntoTensorMut<'o, T, 2>,
) -> Result<()> {
    Softmax::new().forward(stream, x, out)
}

/// `dx` = `y` · (`dy` - sum(`y` · `dy`)), row by row: the gradient of [`softmax`], from its result `y`.
///
/// All are `[rows, columns]`, each with any row stride. [The module](self) has types, error bound, kernels, source and rates.
///
/// # Errors
/// As [`Softmax::forward`].
pub fn softmax_backward<'y, 'd, 'o, T: Float>(
    stream: impl AsStream,
    y: impl IntoTensor<'y, T, 2>,
    dy: impl IntoTensor<'d, T, 2>,
    dx: impl IntoTensorMut<'o, T, 2>,
) -> Result<()> {
    Softmax::new().backward(stream, y, dy, dx)
}

/// Softmax and its options. [The module](self) has types, error bound, kernels, source and rates.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Softmax {
    scale: f32,
    portable: bool,
}

impl Default for Softmax {
    fn default() -> Self {
        Softmax::new()
    }
}

impl Softmax {
    /// Softmax of the elements as they are.
    pub fn new() -> Softmax {
        Softmax { scale: 1.0, portable: false }
    }

    /// Softmax of `scale` · x; `scale` is positive: the inverse of a temperature.
    pub fn scale(self, scale: f32) -> Softmax {
        Softmax { scale, ..self }
    }

    /// Uses the kernels for every chip, also where there are faster ones: for comparison.
    pub fn portable(self) -> Softmax {
        Softmax { portable: true, ..self }
    }

    /// `out` = exp(scale · `x`) / sum(exp(scale · `x`)), row by row: one launch, or none without elements.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] where shapes differ or columns do not lie side by side, or for a scale that is not positive; those of the launch.
    pub fn forward<'x, 'o, T: Float>(
        self,
        stream: impl AsStream,
        x: impl IntoTensor<'x, T, 2>,
        out: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (x, mut out) = (x.into(), out.into());
        self.check_scale()?;
        match Rows::of([Matrix::read("x", &x), Matrix::written("out", &out)])? {
            Some(rows) => T::forward(stream.as_stream(), self, rows, &x, &mut out),
            None => Ok(()),
        }
    }

    /// `dx` = scale · `y` · (`dy` - sum(`y` · `dy`)), row by row: the gradient, from the result `y`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn backward<'y, 'd, 'o, T: Float>(
        self,
        stream: impl AsStream,
        y: impl IntoTensor<'y, T, 2>,
        dy: impl IntoTensor<'d, T, 2>,
        dx: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (y, dy, mut dx) = (y.into(), dy.into(), dx.into());
        self.check_scale()?;
        match Rows::of([Matrix::read("y", &y), Matrix::read("dy", &dy), Matrix::written("dx", &dx)])? {
            Some(rows) => T::backward(stream.as_stream(), self, rows, [&y, &dy], &mut dx),
            None => Ok(()),
        }
    }

    fn check_scale(self) -> Result<()> {
        if self.scale > 0.0 && self.scale.is_finite() { Ok(()) } else { Err(no_scale(self.scale)) }
    }
}

#[cold]
fn no_scale(scale: f32) -> Error {
    Error::new(ErrorKind::Condition, format!("the scale of a softmax is {scale}")).possible("finite numbers above zero")
}

/// The launches of the types for which there are kernels.
pub trait Launch: Element {
    #[doc(hidden)]
    fn forward(
        stream: StreamRef<'_>,
        options: Softmax,
        rows: Rows<2>,
        x: &TensorRef<'_, Self, 2>,
        out: &mut TensorMut<'_, Self, 2>,
    ) -> Result<()>;

    #[doc(hidden)]
    fn backward(
        stream: StreamRef<'_>,
        options: Softmax,
        rows: Rows<3>,
        read: [&TensorRef<'_, Self, 2>; 2],
        dx: &mut TensorMut<'_, Self, 2>,
    ) -> Result<()>;
}

/// The instance for accesses of 16 bytes, or of one element.
macro_rules! pick {
    ($kernel:ident, $T:ty, $wide:expr) => {
        match ($wide, size_of::<$T>()) {
            (false, _) => kernels::$kernel::Instance::by_1,
            (true, 4) => kernels::$kernel::Instance::by_4,
            (true, _) => kernels::$kernel::Instance::by_8,
        }
    };
}

/// The instance for rows of so many columns.
macro_rules! tune {
    ($kernel:ident, $T:ty, $columns:expr) => {
        match ($columns, size_of::<$T>()) {
            (0..=2048, 4) => tuned::$kernel::Instance::short_4,
            (0..=2048, _) => tuned::$kernel::Instance::short_8,
            (2049..=8192, 4) => tuned::$kernel::Instance::medium_4,
            (2049..=8192, _) => tuned::$kernel::Instance::medium_8,
            (_, 4) => tuned::$kernel::Instance::long_4,
            (_, _) => tuned::$kernel::Instance::long_8,
        }
    };
}

impl<T: Element> Launch for T
where
    kernels::softmax::Types<T>: kernels::softmax::Exists,
    kernels::softmax_backward::Types<T>: kernels::softmax_backward::Exists,
    tuned::softmax_rows::Types<T>: tuned::softmax_rows::Exists,
    tuned::softmax_rows_backward::Types<T>: tuned::softmax_rows_backward::Exists,
{
    fn forward(
        stream: StreamRef<'_>,
        Softmax { scale, portable }: Softmax,
        Rows { rows, columns, strides: [s, t], wide }: Rows<2>,
        x: &TensorRef<'_, T, 2>,
        out: &mut TensorMut<'_, T, 2>,
    ) -> Result<()> {
        if wide && columns <= 131_072 && !portable && is_hopper(stream)? {
            let instance = tune!(softmax_rows, T, columns);
            let strides = tuned::Strides { x_stride: s, out_stride: t };
            return tuned::softmax_rows::launch(instance, stream, x, out, strides, scale, rows, columns);
        }
        let strides = kernels::Strides { x_stride: s, out_stride: t };
        kernels::softmax::launch(pick!(softmax, T, wide), stream, x, out, strides, scale, rows, columns)
    }

    fn backward(
        stream: StreamRef<'_>,
        Softmax { scale, portable }: Softmax,
        Rows { rows, columns, strides: [s, t, u], wide }: Rows<3>,
        [y, dy]: [&TensorRef<'_, T, 2>; 2],
        dx: &mut TensorMut<'_, T, 2>,
    ) -> Result<()> {
        let most = 16384 * 4 / size_of::<T>() as u32;
        if wide && columns <= most && !portable && is_hopper(stream)? {
            let instance = tune!(softmax_rows_backward, T, columns);
            let tensors = tuned::GradTensors { y, dy, dx };
            let strides = tuned::GradStrides { y_stride: s, dy_stride: t, dx_stride: u };
            return tuned::softmax_rows_backward::launch(instance, stream, tensors, strides, scale, rows, columns);
        }
        let instance = pick!(softmax_backward, T, wide);
        let tensors = kernels::GradTensors { y, dy, dx };
        let strides = kernels::GradStrides { y_stride: s, dy_stride: t, dx_stride: u };
        kernels::softmax_backward::launch(instance, stream, tensors, strides, scale, rows, columns)
    }
}
