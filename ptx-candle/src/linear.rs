//! Linear layers.

use crate::matmul::matmul;
use crate::memory::Typed;
use crate::run::{Custom, Input, Kernel, Op, check_rank, check_rows, missing};
use candle_core::{Layout, Module, Result, Shape, Tensor};
use ptx_kernels::gemm::{Gemm, Operand, Output};
use ptx_launch::{Stream, ViewMut};

/// `x · weightᵀ + bias` over the last dimension, with the bias added in the same launch. `weight` has the shape (outputs, inputs).
/// Differentiable in all tensors.
///
/// # Errors
/// If shapes do not fit, or rows of `x` are not evenly spaced; those of the launch.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    match bias {
        Some(bias) => x.apply_op3(weight, bias, Custom(Product, Vec::new())),
        None => x.apply_op2(weight, Custom(Product, Vec::new())),
    }
}

/// A layer with [`linear`], in the place of `candle_nn::Linear`.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// A layer with this weight, (outputs, inputs), and this bias.
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Linear { weight, bias }
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        linear(x, &self.weight, self.bias.as_ref())
    }
}

/// The product of x and weight, plus bias where there is one.
struct Product;

impl<T: Operand + Output<T> + Typed> Kernel<T> for Product {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [x, weight, bias @ ..] = inputs else { return Err(missing(inputs)) };
        let (x, weight) = (x.rows::<T>()?, weight.tensor::<T, 2>()?);
        let mut gemm = Gemm::new();
        if let [bias, ..] = bias {
            gemm = gemm.bias_columns(bias.tensor::<T, 1>()?);
        }
        gemm.run(stream, x, weight.transposed(), out.tile_mut([x.shape()[0], weight.shape()[0]])?)
    }
}

impl Op for Product {
    const NAME: &'static str = "linear";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        let ([_, k], [outputs, inputs]) = (check_rows("x", layouts[0])?, check_rank::<2>("weight", layouts[1])?);
        if k != inputs {
            candle_core::bail!("linear: rows of x have {k} elements, and weight has the shape [{outputs}, {inputs}]");
        }
        if let Some(bias) = layouts.get(2).filter(|bias| bias.dims() != [outputs]) {
            candle_core::bail!("linear: bias has the shape {:?}, and weight [{outputs}, {inputs}]", bias.dims());
        }
        let mut shape = layouts[0].dims().to_vec();
        shape.pop();
        shape.push(outputs);
        Ok(Shape::from(shape))
    }

    fn gradients(&self, inputs: &[&Tensor], _: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let [x, weight, bias @ ..] = inputs else { return Ok(Vec::new()) };
        let (outputs, inputs) = weight.dims2()?;
        let (rows, grad) = (x.reshape(((), inputs))?, grad.reshape(((), outputs))?);
        let mut gradients = vec![matmul(&grad, weight)?.reshape(x.shape())?, matmul(&grad.t()?, &rows)?];
        if !bias.is_empty() {
            gradients.push(grad.sum(0)?);
        }
        Ok(gradients)
    }
}
