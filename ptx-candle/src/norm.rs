//! RMSNorm and LayerNorm.

use crate::memory::Typed;
use crate::run::{Custom, Input, Kernel, Op, check_rows, missing, part};
use candle_core::{Layout, Module, Result, Shape, Tensor};
use ptx_kernels::norm::{Float, Norm, NormBackward};
use ptx_launch::{Stream, ViewMut};

/// `x / sqrt(mean(x²) + eps) · weight` over the last dimension, differentiable in both tensors.
///
/// # Errors
/// If `weight` has other elements than a row of `x`, or rows are not evenly spaced; those of the launch.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    x.apply_op2(weight, Custom(Forward { center: false, eps: eps as f32 }, Vec::new()))
}

/// `(x - mean(x)) / sqrt(var(x) + eps) · weight + bias` over the last dimension, differentiable in all three tensors.
///
/// # Errors
/// As [`rms_norm`].
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    x.apply_op3(weight, bias, Custom(Forward { center: true, eps: eps as f32 }, Vec::new()))
}

/// A layer with [`rms_norm`], in the place of `candle_nn::RmsNorm`.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Tensor,
    eps: f64,
}

impl RmsNorm {
    /// A layer with these weights.
    pub fn new(weight: Tensor, eps: f64) -> Self {
        RmsNorm { weight, eps }
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.weight, self.eps)
    }
}

/// A layer with [`layer_norm`], in the place of `candle_nn::LayerNorm`.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl LayerNorm {
    /// A layer with these weights and this bias.
    pub fn new(weight: Tensor, bias: Tensor, eps: f64) -> Self {
        LayerNorm { weight, bias, eps }
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        layer_norm(x, &self.weight, &self.bias, self.eps)
    }
}

/// The norm: of x and weight, with `center` also of bias.
#[derive(Clone, Copy)]
struct Forward {
    center: bool,
    eps: f32,
}

impl<T: Float + Typed> Kernel<T> for Forward {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [x, rest @ ..] = inputs else { return Err(missing(inputs)) };
        let norm = if self.center { Norm::layer(self.eps) } else { Norm::rms(self.eps) };
        let norm = match rest {
            [weight] => norm.weight(weight.tensor()?),
            [weight, bias, ..] => norm.weight(weight.tensor()?).bias(bias.tensor()?),
            [] => norm,
        };
        let x = x.rows()?;
        norm.forward(stream, x, out.tile_mut(x.shape())?)
    }
}

impl Op for Forward {
    const NAME: &'static str = "norm";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        check_vectors(layouts)?;
        Ok(layouts[0].shape().clone())
    }

    fn gradients(&self, inputs: &[&Tensor], _: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let (x, weight) = (inputs[0], inputs[1]);
        let all = x.apply_op1_no_bwd(&Custom(Backward(*self), vec![weight.clone(), grad.clone()]))?;
        let mut at = 0;
        let parts = inputs.iter().map(|input| {
            let gradient = part(&all, at, input);
            at += input.elem_count();
            gradient
        });
        parts.collect()
    }
}

/// The gradients: of x, weight and the result's gradient, those of x, weight, and with `center` bias.
#[derive(Clone, Copy)]
struct Backward(Forward);

impl<T: Float + Typed> Kernel<T> for Backward {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [x, weight, grad] = inputs else { return Err(missing(inputs)) };
        let (x, weight) = (x.rows()?, weight.tensor()?);
        let ([rows, n], Forward { center, eps }) = (x.shape(), self.0);
        let (mut dx, mut sums) = out.split_at_mut(rows * n)?;
        let (mut dw, mut db) = sums.split_at_mut(n)?;
        let norm = if center { NormBackward::layer(eps) } else { NormBackward::rms(eps) };
        let norm = norm.weight(weight).dw(dw.tile_mut([n])?);
        let norm = if center { norm.db(db.tile_mut([n])?) } else { norm };
        norm.backward(stream, x, grad.rows()?, dx.tile_mut([rows, n])?)
    }
}

impl Op for Backward {
    const NAME: &'static str = "norm gradient";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        let [rows, n] = check_rows("x", layouts[0])?;
        Ok(Shape::from(rows * n + if self.0.center { 2 * n } else { n }))
    }
}

fn check_vectors(layouts: &[&Layout]) -> Result<()> {
    let [_, n] = check_rows("x", layouts[0])?;
    match layouts[1..].iter().find(|layout| layout.dims() != [n]) {
        Some(layout) => {
            candle_core::bail!("norm: a weight or bias has shape {:?}, and rows have {n} elements", layout.dims())
        }
        None => Ok(()),
    }
}
