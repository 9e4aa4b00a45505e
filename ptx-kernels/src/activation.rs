//! Activations and gated activations, forward and backward: GELU, SiLU, ReLU, SwiGLU, GEGLU.
//!
//! Functions read each element once and write each result once, 16 bytes per access where all rows start at multiples of 16
//! bytes and are whole multiples of 16 bytes long, else element by element. Matrices without gaps count as one row. Arithmetic is `f32`;
//! results are rounded to nearest. Against the exact value of the rounded inputs, the error before rounding is at most
//!
//! | function | error |
//! |---|---|
//! | [`gelu`] | 2^-22 · \|x\| |
//! | [`gelu_tanh`], [`silu`] | (6 + 1.3 \|a\|) ulp, where `a` is the argument of the sigmoid function; results below 2^-126 are zero |
//! | [`relu`] | 0 |
//!
//! The product with `up` or `dy` is one rounding more. Gradients have an error that is tested instead: for inputs of about 1, 3 · 10^-6 of the exact
//! value and 5 · 10^-6 more, or 3 · 10^-5 for `dgate`, which has three factors.
//!
//! Infinities and NaN give what PyTorch gives: `gelu(-inf)` and `silu(-inf)` are NaN, `relu(NaN)` is NaN.
//!
//! Measured on an H200, GB/s of the bytes that must move, and as a share of a device copy's in the same run:
//!
//! | 8192 × 8192 | bf16 | f32 |
//! |---|---|---|
//! | device copy | 3780 | 4024 |
//! | [`gelu`], [`gelu_tanh`] | 3558 (0.94) | 4025 (1.00) |
//! | [`silu`] | 3658 (0.97) | 4044 (1.01) |
//! | [`swiglu`] | 4068 (1.08) | 4232 (1.05) |
//! | [`gelu_backward`], [`gelu_tanh_backward`] | 3969 (1.05) | 4231 (1.05) |
//! | [`swiglu_backward`] | 4138 (1.09) | 4226 (1.05) |
//!
//! Sources: Hendrycks and Gimpel, *Gaussian Error Linear Units*, 2016; Shazeer, *GLU Variants Improve Transformer*, 2020.

mod elementwise;

use crate::rows::{Matrix, Rows};
use elementwise::Launch;
use half::{bf16, f16};
use ptx_launch::{AsStream, IntoTensor, IntoTensorMut, Result, TensorMut};

/// Every module of kernels of this operation and its PTX, one entry per target, for tools.
pub const MODULES: &[(&str, &str)] =
    &[("activation_sm_75", elementwise::kernels::TEXTS[0].1), ("activation_sm_90", elementwise::kernels::TEXTS[1].1)];

/// Element types of the activations: `f32`, `f16`, `bf16`.
#[diagnostic::on_unimplemented(
    message = "the activations have no kernels for elements of `{Self}`",
    label = "expected f32, f16 or bf16"
)]
pub trait Float: Launch {}
impl Float for f32 {}
impl Float for f16 {}
impl Float for bf16 {}

/// The gradients of a gated activation.
#[derive(Debug)]
pub struct GatedGrads<'a, T> {
    /// The gradient of `gate`.
    pub dgate: TensorMut<'a, T, 2>,
    /// The gradient of `up`.
    pub dup: TensorMut<'a, T, 2>,
}

/// An activation f. [The module](self) has types, error bounds, sources and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Activation {
    /// x · Φ(x), where Φ is the normal distribution's cumulative function.
    Gelu = 0,
    /// x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, the approximation of GELU.
    GeluTanh = 1,
    /// x / (1 + e^-x), also called swish.
    Silu = 2,
    /// max(x, 0).
    Relu = 3,
}

impl Activation {
    /// `out` = f(`x`), matrices of one shape whose rows may have any stride. One launch, or none without elements.
    ///
    /// ```
    /// # use ptx_launch::prelude::*;
    /// use ptx_kernels::activation::Activation;
    /// # fn main() -> ptx_launch::Result<()> {
    /// let device = Device::cpu();
    /// let x = device.upload(&[-1.0f32, 0.0, 2.0, 3.0])?;
    /// let mut out = device.zeros::<f32>(4)?;
    /// Activation::Relu.apply(&device, x.tile([2, 2])?, out.tile_mut([2, 2])?)?;
    /// assert_eq!(out.download()?, [0.0, 0.0, 2.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) where shapes differ or columns do not lie side by side; those of the launch.
    pub fn apply<'x, 'o, T: Float>(
        self,
        stream: impl AsStream,
        x: impl IntoTensor<'x, T, 2>,
        out: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (x, mut out) = (x.into(), out.into());
        match Rows::flat([Matrix::read("x", &x), Matrix::written("out", &out)])? {
            Some(rows) => T::unary(stream.as_stream(), self, rows, &x, &mut out),
            None => Ok(()),
        }
    }

    /// `dx` = `dy` · f'(`x`): the gradient of [`apply`](Self::apply). ReLU's derivative at zero is zero.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn backward<'x, 'y, 'o, T: Float>(
        self,
        stream: impl AsStream,
        x: impl IntoTensor<'x, T, 2>,
        dy: impl IntoTensor<'y, T, 2>,
        dx: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (x, dy, mut dx) = (x.into(), dy.into(), dx.into());
        match Rows::flat([Matrix::read("x", &x), Matrix::read("dy", &dy), Matrix::written("dx", &dx)])? {
            Some(rows) => T::unary_backward(stream.as_stream(), self, rows, [&x, &dy], &mut dx),
            None => Ok(()),
        }
    }

    /// `out` = f(`gate`) · `up`: a gated activation, SwiGLU for SiLU.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn gate<'g, 'u, 'o, T: Float>(
        self,
        stream: impl AsStream,
        gate: impl IntoTensor<'g, T, 2>,
        up: impl IntoTensor<'u, T, 2>,
        out: impl IntoTensorMut<'o, T, 2>,
    ) -> Result<()> {
        let (gate, up, mut out) = (gate.into(), up.into(), out.into());
        match Rows::flat([Matrix::read("gate", &gate), Matrix::read("up", &up), Matrix::written("out", &out)])? {
            Some(rows) => T::gated(stream.as_stream(), self, rows, [&gate, &up], &mut out),
            None => Ok(()),
        }
    }

    /// `dgate` = `dy` · `up` · f'(`gate`) and `dup` = `dy` · f(`gate`): the gradients of [`gate`](Self::gate).
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn gate_backward<'g, 'u, 'y, T: Float>(
        self,
        stream: impl AsStream,
        gate: impl IntoTensor<'g, T, 2>,
        up: impl IntoTensor<'u, T, 2>,
        dy: impl IntoTensor<'y, T, 2>,
        GatedGrads { mut dgate, mut dup }: GatedGrads<'_, T>,
    ) -> Result<()> {
        let (gate, up, dy) = (gate.into(), up.into(), dy.into());
        let read = [Matrix::read("gate", &gate), Matrix::read("up", &up), Matrix::read("dy", &dy)];
        let [a, b, c] = read;
        match Rows::flat([a, b, c, Matrix::written("dgate", &dgate), Matrix::written("dup", &dup)])? {
            Some(rows) => T::gated_backward(stream.as_stream(), self, rows, [&gate, &up, &dy], [&mut dgate, &mut dup]),
            None => Ok(()),
        }
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $forward:ident $backward:ident $activation:ident)*) => { $(
        $(#[$doc])*
        ///
        /// Both are `[rows, columns]`, each with any row stride. [The module](self) has types, error bounds, sources and rates.
        ///
        /// # Errors
        /// As [`Activation::apply`].
        pub fn $forward<'x, 'o, T: Float>(
            stream: impl AsStream,
            x: impl IntoTensor<'x, T, 2>,
            out: impl IntoTensorMut<'o, T, 2>,
        ) -> Result<()> {
            Activation::$activation.apply(stream, x, out)
        }

        #[doc = concat!("`dx` = `dy` · f'(`x`): the gradient of [`", stringify!($forward), "`].")]
        ///
        /// All are `[rows, columns]`, each with any row stride. [The module](self) has types, error bounds, sources and rates.
        ///
        /// # Errors
        /// As [`Activation::apply`].
        pub fn $backward<'x, 'y, 'o, T: Float>(
            stream: impl AsStream,
            x: impl IntoTensor<'x, T, 2>,
            dy: impl IntoTensor<'y, T, 2>,
            dx: impl IntoTensorMut<'o, T, 2>,
        ) -> Result<()> {
            Activation::$activation.backward(stream, x, dy, dx)
        }
    )* };
}
unary! {
    /// `out` = x · Φ(x), with the error function: PyTorch's `gelu(x)`.
    gelu gelu_backward Gelu
    /// `out` = x · (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2: PyTorch's `gelu(x, approximate="tanh")`.
    gelu_tanh gelu_tanh_backward GeluTanh
    /// `out` = x / (1 + e^-x).
    silu silu_backward Silu
    /// `out` = max(x, 0).
    relu relu_backward Relu
}

macro_rules! gated {
    ($($(#[$doc:meta])* $forward:ident $backward:ident $activation:ident)*) => { $(
        $(#[$doc])*
        ///
        /// All are `[rows, columns]`, each with any row stride. [The module](self) has types, error bounds, sources and rates.
        ///
        /// # Errors
        /// As [`Activation::apply`].
        pub fn $forward<'g, 'u, 'o, T: Float>(
            stream: impl AsStream,
            gate: impl IntoTensor<'g, T, 2>,
            up: impl IntoTensor<'u, T, 2>,
            out: impl IntoTensorMut<'o, T, 2>,
        ) -> Result<()> {
            Activation::$activation.gate(stream, gate, up, out)
        }

        #[doc = concat!("`dgate` = `dy` · `up` · f'(`gate`) and `dup` = `dy` · f(`gate`): the gradients of [`", stringify!($forward), "`].")]
        ///
        /// All are `[rows, columns]`, each with any row stride. [The module](self) has types, error bounds, sources and rates.
        ///
        /// # Errors
        /// As [`Activation::apply`].
        pub fn $backward<'g, 'u, 'y, 'o, T: Float>(
            stream: impl AsStream,
            gate: impl IntoTensor<'g, T, 2>,
            up: impl IntoTensor<'u, T, 2>,
            dy: impl IntoTensor<'y, T, 2>,
            dgate: impl IntoTensorMut<'o, T, 2>,
            dup: impl IntoTensorMut<'o, T, 2>,
        ) -> Result<()> {
            let grads = GatedGrads { dgate: dgate.into(), dup: dup.into() };
            Activation::$activation.gate_backward(stream, gate, up, dy, grads)
        }
    )* };
}
gated! {
    /// `out` = SiLU(`gate`) · `up`.
    swiglu swiglu_backward Silu
    /// `out` = GELU(`gate`) · `up`, with the error function.
    geglu geglu_backward Gelu
}
