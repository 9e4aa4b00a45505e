//! Cross entropy of logits, forward and backward, with label smoothing and an ignored index.
//!
//! For a row of logits x over `n` classes and a target t, with a label smoothing of ε:
//!
//! ```text
//! lse   = log(sum(exp(x)))
//! loss  = (1 - ε) · (lse - x[t]) + ε · (lse - mean(x))
//! dx[j] = dloss · (exp(x[j] - lse) - ε / n - (1 - ε) · [j = t])
//! ```
//!
//! These are PyTorch's `cross_entropy(x, t, label_smoothing=ε, reduction="none")` and its gradient. The sum or mean over rows is the caller's: its
//! gradient is `dloss`, which may be one number for all rows (a tensor with a stride of zero). The loss and the gradient of an ignored target are zero. A target
//! that is neither a class nor the ignored index gives NaN; no memory outside of the row is read.
//!
//! The forward pass reads the logits once, the backward pass reads them once more and writes their gradient, in place if wanted. Rows may have any
//! stride, any alignment and any number of classes. Arithmetic is `f32`; `loss` and `lse` are `f32`. The absolute error of `lse` is at most
//! (n / 64 + 20) · 2^-24 + 2^-24 · |lse|, that of an element of dx before rounding 2^-20 · |dloss|. As in PyTorch, a row with a NaN or +∞, or of -∞
//! alone, gives NaN.
//!
//! Measured on an H200 with 4096 rows of 128,256 logits in bf16: forward 0.241 ms (4360 GB/s of the logits), backward 0.517 ms (4065 GB/s of logits and
//! gradient, 0.97 of a device copy's rate in the same run). The kernels are the same for every chip; other chips have not been measured.
//!
//! Source of the one-pass sum: Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018.

mod kernels;

use crate::rows::{Matrix, Rows, check_vector, check_vector_mut};
use half::{bf16, f16};
use kernels::losses;
use ptx_launch::{
    AsStream, Element, Error, ErrorKind, IntoTensor, IntoTensorMut, Result, StreamRef, TensorMut, TensorRef,
};

/// Every module of kernels of this operation and its PTX, one entry per target, for tools.
pub const MODULES: &[(&str, &str)] =
    &[("cross_entropy_sm_75", losses::TEXTS[0].1), ("cross_entropy_sm_90", losses::TEXTS[1].1)];

/// Element types of logits, `f32`, `f16`, `bf16`, with targets of type `I`: `i64`, `u32`.
#[diagnostic::on_unimplemented(
    message = "cross entropy has no kernels for logits of `{Self}` with targets of `{I}`",
    label = "expected logits of f32, f16 or bf16, and targets of i64 or u32"
)]
pub trait Float<I>: Launch<I> {}
impl Float<i64> for f32 {}
impl Float<u32> for f32 {}
impl Float<i64> for f16 {}
impl Float<u32> for f16 {}
impl Float<i64> for bf16 {}
impl Float<u32> for bf16 {}

/// The loss of each row of `logits` (`[rows, classes]`) for its target, and `lse`, which the gradient needs. All three vectors have one
/// element per row. [`CrossEntropy`] has options; the ignored index is -100. [The module](self) has types, error bounds, source and rates.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (x, targets) = (device.upload(&[0.0f32, f32::ln(3.0)])?, device.upload(&[1i64])?);
/// let (mut loss, mut lse) = (device.zeros::<f32>(1)?, device.zeros::<f32>(1)?);
/// let (out, log) = (loss.tile_mut([1])?, lse.tile_mut([1])?);
/// ptx_kernels::cross_entropy::cross_entropy(&device, x.tile([1, 2])?, targets.tile([1])?, out, log)?;
/// assert!((loss.download()?[0] - f32::ln(4.0 / 3.0)).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`CrossEntropy::forward`].
pub fn cross_entropy<'m, 'o, T: Float<I>, I: Element>(
    stream: impl AsStream,
    logits: impl IntoTensor<'m, T, 2>,
    targets: impl IntoTensor<'m, I, 1>,
    loss: impl IntoTensorMut<'o, f32, 1>,
    lse: impl IntoTensorMut<'o, f32, 1>,
) -> Result<()> {
    CrossEntropy::new().forward(stream, logits, targets, loss, lse)
}

/// The gradient of [`cross_entropy`]: `dlogits`, from the logits, `lse`, and the gradient `dloss` of each row's loss.
///
/// `logits` and `dlogits` are `[rows, classes]`, each with any row stride; the vectors have an element per row. [The module](self) has types, error
/// bounds, source and rates.
///
/// # Errors
/// As [`CrossEntropy::backward`].
pub fn cross_entropy_backward<'m, 'o, T: Float<I>, I: Element>(
    stream: impl AsStream,
    logits: impl IntoTensor<'m, T, 2>,
    targets: impl IntoTensor<'m, I, 1>,
    lse: impl IntoTensor<'m, f32, 1>,
    dloss: impl IntoTensor<'m, f32, 1>,
    dlogits: impl IntoTensorMut<'o, T, 2>,
) -> Result<()> {
    let saved = Saved { targets: targets.into(), lse: lse.into(), dloss: dloss.into() };
    CrossEntropy::new().backward(stream, logits, saved, dlogits)
}

/// Cross entropy and its options. [The module](self) has types, error bounds, source and rates.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct CrossEntropy {
    ignored: i64,
    smoothing: f32,
}

impl Default for CrossEntropy {
    fn default() -> Self {
        CrossEntropy::new()
    }
}

impl CrossEntropy {
    /// Without label smoothing; the ignored index is -100.
    pub fn new() -> CrossEntropy {
        CrossEntropy { ignored: -100, smoothing: 0.0 }
    }

    /// Targets that do not count. Targets of type `u32` are compared as numbers, so that -1 ignores none.
    pub fn ignored_index(self, ignored: i64) -> CrossEntropy {
        CrossEntropy { ignored, ..self }
    }

    /// The share of the target's probability that all classes divide among themselves, from 0 to 1.
    pub fn label_smoothing(self, smoothing: f32) -> CrossEntropy {
        CrossEntropy { smoothing, ..self }
    }

    /// The loss of each row of `logits`, and `lse`: one launch, or none without rows. Without classes the loss is NaN.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] where shapes differ, elements do not lie side by side, or the label smoothing is not between 0 and 1; those of the
    /// launch.
    pub fn forward<'m, 'o, T: Float<I>, I: Element>(
        self,
        stream: impl AsStream,
        logits: impl IntoTensor<'m, T, 2>,
        targets: impl IntoTensor<'m, I, 1>,
        loss: impl IntoTensorMut<'o, f32, 1>,
        lse: impl IntoTensorMut<'o, f32, 1>,
    ) -> Result<()> {
        let (x, targets, mut loss, mut lse) = (logits.into(), targets.into(), loss.into(), lse.into());
        self.check_smoothing()?;
        let count = x.shape()[0];
        check_vector("targets", Some(&targets), count)?;
        check_vector_mut("loss", Some(&loss), count)?;
        check_vector_mut("lse", Some(&lse), count)?;
        let rows = match Rows::of([Matrix::read("logits", &x)])? {
            Some(rows) => rows,
            None if count > 0 => Rows { rows: count as u32, columns: 0, strides: [0], wide: false },
            None => return Ok(()),
        };
        T::forward(stream.as_stream(), self, rows, &x, &targets, [&mut loss, &mut lse])
    }

    /// The gradient of the logits: one launch, or none without elements.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn backward<'m, 'o, T: Float<I>, I: Element>(
        self,
        stream: impl AsStream,
        logits: impl IntoTensor<'m, T, 2>,
        saved: Saved<'m, I>,
        dlogits: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (x, mut dx) = (logits.into(), dlogits.into());
        let rows = Rows::of([Matrix::read("logits", &x), Matrix::written("dlogits", &dx)])?;
        self.differentiate(stream, rows, Some(&x), saved, &mut dx)
    }

    /// The same in place: `logits` becomes its gradient, which saves the memory of a second matrix.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn backward_in_place<'m, 'o, T: Float<I>, I: Element>(
        self,
        stream: impl AsStream,
        saved: Saved<'m, I>,
        logits: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let mut dx = logits.into();
        let own = Matrix::written("logits", &dx);
        self.differentiate(stream, Rows::of([own, own])?, None, saved, &mut dx)
    }

    fn differentiate<T: Float<I>, I: Element>(
        self,
        stream: impl AsStream,
        rows: Option<Rows<2>>,
        x: Option<&TensorRef<'_, T, 2>>,
        read: Saved<'_, I>,
        dx: &mut TensorMut<'_, T, 2>,
    ) -> Result<()> {
        self.check_smoothing()?;
        let count = dx.shape()[0];
        check_vector("targets", Some(&read.targets), count)?;
        check_vector("lse", Some(&read.lse), count)?;
        if read.dloss.shape()[0] != count {
            return Err(no_gradient(read.dloss.shape()[0], count));
        }
        match rows {
            Some(rows) => T::backward(stream.as_stream(), self, rows, x, &read, dx),
            None => Ok(()),
        }
    }

    fn check_smoothing(self) -> Result<()> {
        if (0.0..=1.0).contains(&self.smoothing) { Ok(()) } else { Err(no_smoothing(self.smoothing)) }
    }
}

/// The vectors of a backward pass, one element per row: those of the forward pass, and the gradient of its loss.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'m, I> {
    /// The classes.
    pub targets: TensorRef<'m, I, 1>,
    /// The logarithms that the forward pass wrote.
    pub lse: TensorRef<'m, f32, 1>,
    /// The gradient of the loss, with any stride; a stride of zero is one number for all rows.
    pub dloss: TensorRef<'m, f32, 1>,
}

#[cold]
fn no_smoothing(smoothing: f32) -> Error {
    Error::new(ErrorKind::Condition, format!("the label smoothing is {smoothing}")).possible("numbers from 0 to 1")
}

#[cold]
fn no_gradient(len: usize, rows: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("`dloss` has {len} elements, for {rows} rows"))
        .possible("one element per row; a stride of zero repeats one number")
}

/// The launches of the types for which there are kernels.
pub trait Launch<I>: Element {
    #[doc(hidden)]
    fn forward(
        stream: StreamRef<'_>,
        options: CrossEntropy,
        rows: Rows<1>,
        x: &TensorRef<'_, Self, 2>,
        targets: &TensorRef<'_, I, 1>,
        written: [&mut TensorMut<'_, f32, 1>; 2],
    ) -> Result<()>;

    #[doc(hidden)]
    fn backward(
        stream: StreamRef<'_>,
        options: CrossEntropy,
        rows: Rows<2>,
        x: Option<&TensorRef<'_, Self, 2>>,
        read: &Saved<'_, I>,
        dx: &mut TensorMut<'_, Self, 2>,
    ) -> Result<()>;
}

/// The instance for accesses of 16 bytes, or of one element.
macro_rules! pick {
    ($kernel:ident, $T:ty, $wide:expr) => {
        match ($wide, size_of::<$T>()) {
            (false, _) => losses::$kernel::Instance::by_1,
            (true, 4) => losses::$kernel::Instance::by_4,
            (true, _) => losses::$kernel::Instance::by_8,
        }
    };
}

impl<T: Element, I: Element> Launch<I> for T
where
    losses::cross_entropy::Types<T, I>: losses::cross_entropy::Exists,
    losses::cross_entropy_backward::Types<T, I>: losses::cross_entropy_backward::Exists,
{
    fn forward(
        stream: StreamRef<'_>,
        CrossEntropy { ignored, smoothing }: CrossEntropy,
        Rows { rows, columns, strides: [s], wide }: Rows<1>,
        x: &TensorRef<'_, T, 2>,
        targets: &TensorRef<'_, I, 1>,
        [loss, lse]: [&mut TensorMut<'_, f32, 1>; 2],
    ) -> Result<()> {
        let instance = pick!(cross_entropy, T, wide);
        let (tensors, options) =
            (losses::LossTensors { x, targets, loss, lse }, losses::Options { ignored, smoothing });
        losses::cross_entropy::launch(instance, stream, tensors, s, options, rows, columns)
    }

    fn backward(
        stream: StreamRef<'_>,
        CrossEntropy { ignored, smoothing }: CrossEntropy,
        Rows { rows, columns, strides: [s, t], wide }: Rows<2>,
        x: Option<&TensorRef<'_, T, 2>>,
        Saved { targets, lse, dloss }: &Saved<'_, I>,
        dx: &mut TensorMut<'_, T, 2>,
    ) -> Result<()> {
        let (instance, step) = (pick!(cross_entropy_backward, T, wide), dloss.strides()[0] as u64);
        let tensors = losses::GradTensors { x, targets, lse, dloss, dx };
        let strides = losses::GradStrides { x_stride: s, dloss_stride: step, dx_stride: t };
        let options = losses::Options { ignored, smoothing };
        losses::cross_entropy_backward::launch(instance, stream, tensors, strides, options, rows, columns)
    }
}
