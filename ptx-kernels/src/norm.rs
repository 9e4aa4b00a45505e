//! RMSNorm and LayerNorm, forward and backward.
//!
//! With rows x, weights w and biases b:
//!
//! ```text
//! RMSNorm:    out = x / sqrt(mean(x²) + ε) · w + b
//! LayerNorm:  out = (x - mean(x)) / sqrt(mean((x - mean(x))²) + ε) · w + b
//! ```
//!
//! Matrices may have any row stride, any alignment and any number of columns. Arithmetic is `f32`, results are rounded to nearest. For n columns the
//! relative error of a row's scale is at most (n / 256 + 20) · 2^-24, typically a few units in the last place. LayerNorm subtracts the mean
//! before it squares, so the squares do not cancel. The mean itself is rounded: normalized elements are off by up to 2⁻²³ · max |x| / sqrt(variance + ε),
//! which counts where a row's elements are nearly equal. A row with a NaN or an infinity gives NaN where PyTorch does.
//!
//! Gradients recompute the statistics of each row from `x`, so that nothing but the inputs is kept. An element of dx is off by at most 10⁻⁵ of the
//! largest of the terms w · dy / sqrt(… + ε), which cancel where rows have few columns, before it is rounded. Sums over rows (dw, db) have an
//! order that depends on the shape and on the kind of GPU alone: repeated calls give the same bits.
//!
//! | kernels | for |
//! |---|---|
//! | `norm/hopper.rs` | forward on `sm_90` and later: rows of whole 16 bytes up to 32,768 columns, with weights, without a residual stream; LayerNorm with biases |
//! | `norm/portable.rs` | forward everywhere else: a block per row, which reads its row again from the first-level cache |
//! | `norm/ring.rs` | backward on `sm_90` and later in one pass over memory: rows of whole 16 bytes up to 32 KiB |
//! | `norm/backward.rs` | backward everywhere else: dx row by row, then dw and db from a second pass |
//!
//! Measured on an H200 at 8192 × 8192, GB/s of the bytes that must move, and as a share of a device copy's in the same run:
//!
//! | | bf16 | f32 |
//! |---|---|---|
//! | device copy | 3815 | 4091 |
//! | RMSNorm, LayerNorm | 3811 (1.00), 3774 (0.99) | 4091 (1.00), 4057 (0.99) |
//! | RMSNorm with a residual stream | 3915 (1.03) | 3585 (0.88) |
//! | RMSNorm, LayerNorm backward | 3547 (0.93), 3270 (0.86) | 3868 (0.95), 3758 (0.92) |
//! | the same at 2048 × 8192 | 2713 (0.96), 2380 (0.85) | 3367 (0.97), 3171 (0.91) |
//! | RMSNorm backward with a residual stream | 3774 (0.99) | 4055 (0.99) |
//! | `norm/portable.rs`: RMSNorm, LayerNorm | 3446 (0.91), 3290 (0.87) | 2882 (0.72), 2587 (0.64) |
//! | `norm/backward.rs`: RMSNorm, LayerNorm | 1849 (0.49), 1785 (0.47) | 1794 (0.45), 1400 (0.35) |
//!
//! Other chips have not been measured.
//!
//! Sources: Zhang and Sennrich, *Root Mean Square Layer Normalization*, 2019; Ba, Kiros and Hinton, *Layer Normalization*, 2016.

mod backward;
mod hopper;
mod launch;
mod portable;
mod ring;

use crate::rows::{Matrix, Rows, check_vector, check_vector_mut};
use crate::workspace::Workspace;
use half::{bf16, f16};
use launch::{Backward, Forward, Kind, Launch};
use ptx_launch::{AsStream, IntoTensor, IntoTensorMut, Result, TensorMut, TensorRef};

/// Every module of kernels of this operation and its PTX, one entry per target, for tools.
pub const MODULES: &[(&str, &str)] = &[
    ("norm_sm_75", portable::kernels::TEXTS[0].1),
    ("norm_sm_90", portable::kernels::TEXTS[1].1),
    ("norm_backward_sm_75", backward::kernels::TEXTS[0].1),
    ("norm_backward_sm_90", backward::kernels::TEXTS[1].1),
    ("norm_hopper", hopper::kernels::PTX),
    ("norm_backward_hopper", ring::ring::PTX),
];

/// Element types of the norms: `f32`, `f16`, `bf16`.
#[diagnostic::on_unimplemented(
    message = "the norms have no kernels for elements of `{Self}`",
    label = "expected f32, f16 or bf16"
)]
pub trait Float: Launch {}
impl Float for f32 {}
impl Float for f16 {}
impl Float for bf16 {}

/// `out` = `x` / sqrt(mean(`x`²) + `epsilon`) · `weight`, row by row. [`Norm::rms`] has more options.
///
/// `x` and `out` are `[rows, columns]`, each with any row stride; `weight` is `[columns]`. [The module](self) has types, error bound, kernels, sources
/// and rates.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (x, weight) = (device.upload(&[3.0f32, 4.0])?, device.upload(&[1.0f32, 0.5])?);
/// let mut out = device.zeros::<f32>(2)?;
/// ptx_kernels::norm::rms_norm(&device, x.tile([1, 2])?, weight.tile([2])?, out.tile_mut([1, 2])?, 0.0)?;
/// let rms = 12.5f32.sqrt();
/// assert!((out.download()?[1] - 2.0 / rms).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Norm::forward`].
pub fn rms_norm<'m, 'o, T: Float>(
    stream: impl AsStream,
    x: impl IntoTensor<'m, T, 2>,
    weight: impl IntoTensor<'m, T, 1>,
    out: impl IntoTensorMut<'o, T, 2>,
    epsilon: f32,
) -> Result<()> {
    Norm::rms(epsilon).weight(weight).forward(stream, x, out)
}

/// `out` = (`x` - mean(`x`)) / sqrt(variance(`x`) + `epsilon`) · `weight` + `bias`, row by row. [`Norm::layer`] has more options.
///
/// `x` and `out` are `[rows, columns]`, each with any row stride; `weight` and `bias` are `[columns]`. [The module](self) has types, error bound, kernels,
/// sources and rates.
///
/// # Errors
/// As [`Norm::forward`].
pub fn layer_norm<'m, 'o, T: Float>(
    stream: impl AsStream,
    x: impl IntoTensor<'m, T, 2>,
    weight: impl IntoTensor<'m, T, 1>,
    bias: impl IntoTensor<'m, T, 1>,
    out: impl IntoTensorMut<'o, T, 2>,
    epsilon: f32,
) -> Result<()> {
    Norm::layer(epsilon).weight(weight).bias(bias).forward(stream, x, out)
}

/// The gradients of [`rms_norm`]: `dx`, and `dw`, the gradient of the weights. [`NormBackward`] has more options.
///
/// `x`, `dy` and `dx` are `[rows, columns]`, each with any row stride; `weight` and `dw` are `[columns]`. [The module](self) has types, error bound,
/// kernels, sources and rates.
///
/// # Errors
/// As [`NormBackward::backward`].
pub fn rms_norm_backward<'m, 'o, T: Float>(
    stream: impl AsStream,
    x: impl IntoTensor<'m, T, 2>,
    weight: impl IntoTensor<'m, T, 1>,
    dy: impl IntoTensor<'m, T, 2>,
    grads: RmsNormGrads<impl IntoTensorMut<'o, T, 2>, impl IntoTensorMut<'m, T, 1>>,
    epsilon: f32,
) -> Result<()> {
    NormBackward::rms(epsilon).weight(weight).dw(grads.dw).backward(stream, x, dy, grads.dx)
}

/// The results of [`rms_norm_backward`].
#[derive(Clone, Copy, Debug)]
pub struct RmsNormGrads<X, W> {
    /// The gradient of `x`.
    pub dx: X,
    /// The gradient of the weights.
    pub dw: W,
}

/// A norm and its options. [The module](self) has types, error bound, kernels, sources and rates.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_kernels::norm::Norm;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (x, mut stream) = (device.upload(&[1.0f32, 2.0])?, device.upload(&[2.0f32, 2.0])?);
/// let mut out = device.zeros::<f32>(2)?;
/// Norm::rms(1e-6).residual(stream.tile_mut([1, 2])?).forward(&device, x.tile([1, 2])?, out.tile_mut([1, 2])?)?;
/// assert_eq!(stream.download()?, [3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Norm<'m, T> {
    kind: Kind,
    weight: Option<TensorRef<'m, T, 1>>,
    bias: Option<TensorRef<'m, T, 1>>,
    residual: Option<TensorMut<'m, T, 2>>,
}

impl<'m, T: Float> Norm<'m, T> {
    /// RMSNorm with the constant that is added to the mean square.
    pub fn rms(epsilon: f32) -> Self {
        Norm { kind: Kind { center: false, epsilon, portable: false }, weight: None, bias: None, residual: None }
    }

    /// LayerNorm with the constant that is added to the variance.
    pub fn layer(epsilon: f32) -> Self {
        Norm { kind: Kind { center: true, epsilon, portable: false }, weight: None, bias: None, residual: None }
    }

    /// Weights, one per column; else they are one.
    pub fn weight(self, weight: impl IntoTensor<'m, T, 1>) -> Self {
        Norm { weight: Some(weight.into()), ..self }
    }

    /// Biases, one per column; else they are zero.
    pub fn bias(self, bias: impl IntoTensor<'m, T, 1>) -> Self {
        Norm { bias: Some(bias.into()), ..self }
    }

    /// A residual stream: `residual` becomes `x` + `residual`, rounded, and the norm is that of the sum.
    pub fn residual(self, residual: impl IntoTensorMut<'m, T, 2>) -> Self {
        Norm { residual: Some(residual.into()), ..self }
    }

    /// Uses the kernels for every chip, also where there are faster ones: for comparison.
    pub fn portable(self) -> Self {
        Norm { kind: Kind { portable: true, ..self.kind }, ..self }
    }

    /// Normalizes the rows of `x`: one launch, or none without elements.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) where shapes differ or columns do not lie side by side; those of the launch.
    pub fn forward<'x: 'm, 'o>(
        self,
        stream: impl AsStream,
        x: impl IntoTensor<'x, T, 2>,
        out: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (x, mut out): (TensorRef<'m, T, 2>, _) = (x.into(), out.into());
        let Norm { kind, weight, bias, mut residual } = self;
        let own = Matrix::read("x", &x);
        let sums = residual.as_ref().map_or(own, |residual| Matrix::written("residual", residual));
        let mut aligned = true;
        for (name, vector) in [("weight", &weight), ("bias", &bias)] {
            aligned &= check_vector(name, vector.as_ref(), x.shape()[1])?;
        }
        let Some(mut rows) = Rows::of([own, sums, Matrix::written("out", &out)])? else { return Ok(()) };
        rows.wide &= aligned;
        let (weight, bias, residual) = (weight.as_ref(), bias.as_ref(), residual.as_mut());
        T::forward(stream.as_stream(), Forward { kind, rows, x: &x, residual, weight, bias }, &mut out)
    }
}

/// The gradients of a norm and their options. [The module](self) has types, error bound, kernels, sources and rates.
#[must_use]
pub struct NormBackward<'m, T> {
    kind: Kind,
    weight: Option<TensorRef<'m, T, 1>>,
    dw: Option<TensorMut<'m, T, 1>>,
    db: Option<TensorMut<'m, T, 1>>,
    dsum: Option<TensorRef<'m, T, 2>>,
    workspace: Option<&'m mut Workspace>,
}

impl<'m, T: Float> NormBackward<'m, T> {
    fn of(kind: Kind) -> Self {
        NormBackward { kind, weight: None, dw: None, db: None, dsum: None, workspace: None }
    }

    /// RMSNorm with the constant of the forward pass.
    pub fn rms(epsilon: f32) -> Self {
        NormBackward::of(Kind { center: false, epsilon, portable: false })
    }

    /// LayerNorm with the constant of the forward pass.
    pub fn layer(epsilon: f32) -> Self {
        NormBackward::of(Kind { center: true, epsilon, portable: false })
    }

    /// The weights of the forward pass; else they are one.
    pub fn weight(self, weight: impl IntoTensor<'m, T, 1>) -> Self {
        NormBackward { weight: Some(weight.into()), ..self }
    }

    /// Computes the gradient of the weights, one element per column.
    pub fn dw(self, dw: impl IntoTensorMut<'m, T, 1>) -> Self {
        NormBackward { dw: Some(dw.into()), ..self }
    }

    /// Computes the gradient of the biases, one element per column.
    pub fn db(self, db: impl IntoTensorMut<'m, T, 1>) -> Self {
        NormBackward { db: Some(db.into()), ..self }
    }

    /// The gradient of the sum that [`Norm::residual`] writes. It is added to `dx`, which then is the gradient of both `x` and `residual`;
    /// `x` of [`backward`](Self::backward) is the sum.
    pub fn residual_gradient(self, dsum: impl IntoTensor<'m, T, 2>) -> Self {
        NormBackward { dsum: Some(dsum.into()), ..self }
    }

    /// Scratch memory for the sums of `dw` and `db`; else the stream's pool has it.
    pub fn workspace(self, workspace: &'m mut Workspace) -> Self {
        NormBackward { workspace: Some(workspace), ..self }
    }

    /// Uses the kernels for every chip, also where there are faster ones: for comparison.
    pub fn portable(self) -> Self {
        NormBackward { kind: Kind { portable: true, ..self.kind }, ..self }
    }

    /// Computes `dx` from the input `x` of the norm and the gradient `dy` of its output. Without elements dw and db become zero.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) where shapes differ or columns do not lie side by side, or where the workspace is too
    /// small; those of the launches.
    pub fn backward<'x: 'm, 'o>(
        self,
        stream: impl AsStream,
        x: impl IntoTensor<'x, T, 2>,
        dy: impl IntoTensor<'x, T, 2>,
        dx: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (x, dy, mut dx): (TensorRef<'m, T, 2>, TensorRef<'m, T, 2>, _) = (x.into(), dy.into(), dx.into());
        let NormBackward { kind, weight, mut dw, mut db, dsum, workspace } = self;
        let own = Matrix::read("x", &x);
        let sums = dsum.as_ref().map_or(own, |dsum| Matrix::read("residual_gradient", dsum));
        let matrices = [own, Matrix::read("dy", &dy), sums, Matrix::written("dx", &dx)];
        let columns = x.shape()[1];
        let mut aligned = check_vector("weight", weight.as_ref(), columns)?;
        for (name, vector) in [("dw", &dw), ("db", &db)] {
            aligned &= check_vector_mut(name, vector.as_ref(), columns)?;
        }
        let Some(mut rows) = Rows::of(matrices)? else { return T::clear(stream.as_stream(), [dw, db]) };
        rows.wide &= aligned;
        let arguments = Backward {
            kind,
            rows,
            x: &x,
            dy: &dy,
            sum: dsum.as_ref(),
            weight: weight.as_ref(),
            dw: dw.as_mut(),
            db: db.as_mut(),
            workspace,
        };
        T::backward(stream.as_stream(), arguments, &mut dx)
    }
}
