//! Softmax, activations and gated activations.

use crate::memory::Typed;
use crate::run::{Custom, Input, Kernel, Op, check_rows, missing, part};
use candle_core::{Layout, Result, Shape, Tensor};
use ptx_kernels::activation::{Activation, Float, GatedGrads};
use ptx_kernels::softmax;
use ptx_launch::{Stream, ViewMut};

/// Softmax over the last dimension.
///
/// # Errors
/// If rows are not evenly spaced; those of the launch.
pub fn softmax(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Custom(RowWise::Softmax, Vec::new()))
}

/// `x · Φ(x)`.
///
/// # Errors
/// As [`softmax`].
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Custom(RowWise::Unary(Activation::Gelu), Vec::new()))
}

/// The approximation of [`gelu`] by a hyperbolic tangent: candle's `gelu`.
///
/// # Errors
/// As [`softmax`].
pub fn gelu_tanh(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Custom(RowWise::Unary(Activation::GeluTanh), Vec::new()))
}

/// `max(x, 0)`.
///
/// # Errors
/// As [`softmax`].
pub fn relu(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Custom(RowWise::Unary(Activation::Relu), Vec::new()))
}

/// `x / (1 + exp(-x))`.
///
/// # Errors
/// As [`softmax`].
pub fn silu(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Custom(RowWise::Unary(Activation::Silu), Vec::new()))
}

/// `silu(gate) · up`.
///
/// # Errors
/// If the shapes differ; as [`softmax`].
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.apply_op2(up, Custom(RowWise::Gated(Activation::Silu), Vec::new()))
}

/// `gelu(gate) · up`.
///
/// # Errors
/// As [`swiglu`].
pub fn geglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.apply_op2(up, Custom(RowWise::Gated(Activation::Gelu), Vec::new()))
}

/// An operation whose result has the shape of its first input.
#[derive(Clone, Copy)]
enum RowWise {
    /// x
    Softmax,
    /// x
    Unary(Activation),
    /// gate, up
    Gated(Activation),
}

impl<T: Float + softmax::Float + Typed> Kernel<T> for RowWise {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [first, rest @ ..] = inputs else { return Err(missing(inputs)) };
        let x = first.rows()?;
        let out = out.tile_mut(x.shape())?;
        match (self, rest) {
            (RowWise::Softmax, _) => softmax::softmax(stream, x, out),
            (RowWise::Unary(kind), _) => kind.apply(stream, x, out),
            (RowWise::Gated(kind), [up, ..]) => kind.gate(stream, x, up.rows()?, out),
            (RowWise::Gated(_), []) => Err(missing(inputs)),
        }
    }
}

impl Op for RowWise {
    const NAME: &'static str = "row-wise operation";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        same_shapes(layouts)?;
        Ok(layouts[0].shape().clone())
    }

    fn gradients(&self, inputs: &[&Tensor], result: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let others = |tensors: &[&Tensor]| tensors.iter().map(|tensor| (*tensor).clone()).collect();
        let backward =
            |first: &Tensor, rest: &[&Tensor]| first.apply_op1_no_bwd(&Custom(Backward(*self), others(rest)));
        match (self, inputs) {
            (RowWise::Softmax, _) => Ok(vec![backward(result, &[grad])?.reshape(result.shape())?]),
            (RowWise::Gated(_), [gate, up]) => {
                let both = backward(gate, &[up, grad])?;
                Ok(vec![part(&both, 0, gate)?, part(&both, gate.elem_count(), up)?])
            }
            (_, [x, ..]) => Ok(vec![backward(x, &[grad])?.reshape(x.shape())?]),
            _ => Ok(Vec::new()),
        }
    }
}

/// The gradients: of the result (softmax) or the inputs, and the result's gradient.
struct Backward(RowWise);

impl<T: Float + softmax::Float + Typed> Kernel<T> for Backward {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [first, rest @ ..] = inputs else { return Err(missing(inputs)) };
        let x = first.rows()?;
        let [rows, n] = x.shape();
        let (mut dx, mut behind) = out.split_at_mut(rows * n)?;
        let dx = dx.tile_mut([rows, n])?;
        match (self.0, rest) {
            (RowWise::Softmax, [grad]) => softmax::softmax_backward(stream, x, grad.rows()?, dx),
            (RowWise::Unary(kind), [grad]) => kind.backward(stream, x, grad.rows()?, dx),
            (RowWise::Gated(kind), [up, grad]) => {
                let grads = GatedGrads { dgate: dx.into(), dup: behind.tile_mut([rows, n])?.into() };
                kind.gate_backward(stream, x, up.rows()?, grad.rows()?, grads)
            }
            _ => Err(missing(inputs)),
        }
    }
}

impl Op for Backward {
    const NAME: &'static str = "gradient of a row-wise operation";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        same_shapes(layouts)?;
        let [rows, n] = check_rows("x", layouts[0])?;
        let results = if matches!(self.0, RowWise::Gated(_)) { 2 } else { 1 };
        Ok(Shape::from(results * rows * n))
    }
}

fn same_shapes(layouts: &[&Layout]) -> Result<()> {
    for layout in layouts {
        check_rows("an input", layout)?;
        if layout.dims() != layouts[0].dims() {
            candle_core::bail!("shapes {:?} and {:?} differ", layouts[0].dims(), layout.dims());
        }
    }
    Ok(())
}
