//! Rotary position embedding.

use crate::memory::Typed;
use crate::run::{Custom, Input, Kernel, Op, check_rank, missing};
use candle_core::{Layout, Result, Shape, Tensor};
use ptx_kernels::rotary::{Angles, Float, Pairs, Rotary};
use ptx_launch::{Stream, TensorRef, ViewMut};

/// Rotates pairs of elements of `x` by the angles of their positions, as Llama does: an element of the first half and one of the second.
/// Differentiable in `x`.
///
/// `x` has the shape (batch, tokens, heads, elements), `cos` and `sin` (positions, elements / 2) and `f32`, and `positions`, of `u32`, are
/// the rows of the tables for the tokens: (tokens) for all sequences, or (batch, tokens).
///
/// # Errors
/// If shapes do not fit; those of the launch.
pub fn rotary(x: &Tensor, cos: &Tensor, sin: &Tensor, positions: &Tensor) -> Result<Tensor> {
    let (batch, tokens, ..) = x.dims4()?;
    let positions = positions.broadcast_as((batch, tokens))?.flatten_all()?.contiguous()?;
    x.apply_op1(Custom(Rotate { inverse: false }, vec![cos.clone(), sin.clone(), positions]))
}

/// The rotation, of x, the tables, and the positions.
#[derive(Clone, Copy)]
struct Rotate {
    inverse: bool,
}

impl<T: Float<u32> + Typed> Kernel<T> for Rotate {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [x, cos, sin, positions] = inputs else { return Err(missing(inputs)) };
        let x = x.tensor::<T, 4>()?;
        let ([batch, tokens, heads, dim], [_, token, head, element]) = (x.shape(), x.strides());
        let rotary = if self.inverse { Rotary::new(Pairs::Halves).inverse() } else { Rotary::new(Pairs::Halves) };
        let angles = Angles { cos: cos.tensor()?, sin: sin.tensor()?, positions: positions.tensor()? };
        // `shape` has seen that the tokens of all sequences are evenly spaced.
        let x = TensorRef::strided(inputs[0].memory.of()?, [batch * tokens, heads, dim], [token, head, element])?;
        rotary.apply(stream, &angles, x, out.tile_mut([batch * tokens, heads, dim])?)
    }
}

impl Op for Rotate {
    const NAME: &'static str = "rotary";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        let [batch, tokens, ..] = check_rank::<4>("x", layouts[0])?;
        check_rank::<2>("cos", layouts[1])?;
        check_rank::<2>("sin", layouts[2])?;
        let stride = layouts[0].stride();
        if batch > 1 && stride[0] != tokens * stride[1] {
            candle_core::bail!("rotary: x with strides {stride:?} has gaps between sequences; make it contiguous");
        }
        Ok(layouts[0].shape().clone())
    }

    fn gradients(&self, inputs: &[&Tensor], _: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let [_, others @ ..] = inputs else { return Ok(Vec::new()) };
        let others = others.iter().map(|tensor| (*tensor).clone()).collect();
        Ok(vec![grad.apply_op1_no_bwd(&Custom(Rotate { inverse: !self.inverse }, others))?])
    }
}
