//! Attention.

use crate::run::{Custom, Input, Kernel, Op, check_rank, part};
use candle_core::{Layout as Strides, Result, Shape, Tensor};
use half::{bf16, f16};
use ptx_kernels::attention::{Attention, Element, Grads, Layout, Saved};
use ptx_launch::{Error, ErrorKind, Stream, ViewMut};

/// `softmax(q · kᵀ · scale) · v` for tensors of `f16` or `bf16` of shape (batch, heads, tokens, elements), with any strides. `k` and `v` may
/// have fewer heads. Differentiable in all three.
///
/// With `causal`, a query sees no key behind its own; the last query is aligned with the last key.
///
/// # Errors
/// If shapes do not fit; those of the launch.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32, causal: bool) -> Result<Tensor> {
    q.apply_op3(k, v, Custom(Forward { scale, causal }, Vec::new()))
}

#[derive(Clone, Copy)]
struct Forward {
    scale: f32,
    causal: bool,
}

impl Forward {
    fn options<'a, T: Element>(self) -> Attention<'a, T> {
        let attention = Attention::new().layout(Layout::Bhsd).scale(self.scale);
        if self.causal { attention.causal() } else { attention }
    }

    fn run<T: Element + ptx_launch::Element>(&self, stream: &Stream, inputs: &[Input<'_, T>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [q, k, v] = inputs else { return Ok(()) };
        let (q, v) = (q.tensor::<4>()?, v.tensor::<4>()?);
        let [batch, heads, tokens, _] = q.shape();
        let out = out.tile_mut([batch, heads, tokens, v.shape()[3]])?;
        self.options().forward(stream, q, k.tensor::<4>()?, v, out)
    }
}

impl Op for Forward {
    const NAME: &'static str = "attention";

    fn shape(&self, layouts: &[&Strides]) -> Result<Shape> {
        let ([b, h, s, _], [.., e]) = (check_rank::<4>("q", layouts[0])?, check_rank::<4>("v", layouts[2])?);
        check_rank::<4>("k", layouts[1])?;
        Ok(Shape::from((b, h, s, e)))
    }

    fn gradients(&self, inputs: &[&Tensor], result: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let [q, k, v] = inputs else { return Ok(Vec::new()) };
        let others = [*k, *v, result, grad].into_iter().cloned().collect();
        let all = q.apply_op1_no_bwd(&Custom(Backward(*self), others))?;
        let (second, third) = (q.elem_count(), q.elem_count() + k.elem_count());
        Ok(vec![part(&all, 0, q)?, part(&all, second, k)?, part(&all, third, v)?])
    }
}

/// The gradients, of q, k, v, the result, and its gradient.
struct Backward(Forward);

impl Backward {
    fn run<T: Element + ptx_launch::Element>(&self, stream: &Stream, inputs: &[Input<'_, T>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [q, k, v, result, grad] = inputs else { return Ok(()) };
        let (q, k, v) = (q.tensor::<4>()?, k.tensor::<4>()?, v.tensor::<4>()?);
        let [count_q, count_k] = [q.shape(), k.shape()].map(|shape| shape.iter().product());
        let [batch, heads, tokens, _] = q.shape();
        let device = stream.device();
        // The logarithms of the sums are computed again, with a result that is thrown away.
        let mut lse = device.zeros::<f32>(batch * heads * tokens)?;
        let mut again = device.zeros::<T>(batch * heads * tokens * v.shape()[3])?;
        let attention: Attention<'_, T> = self.0.options();
        attention.forward_with_lse(
            stream,
            q,
            k,
            v,
            again.tile_mut([batch, heads, tokens, v.shape()[3]])?,
            lse.tile_mut([batch, heads, tokens])?,
        )?;
        let (mut grad_q, mut rest) = out.split_at_mut(count_q)?;
        let (mut grad_k, mut grad_v) = rest.split_at_mut(count_k)?;
        let saved = Saved {
            q,
            k,
            v,
            out: result.tensor()?,
            lse: lse.tile([batch, heads, tokens])?.into(),
            out_grad: grad.tensor()?,
        };
        let grads = Grads {
            q: grad_q.tile_mut(q.shape())?.into(),
            k: grad_k.tile_mut(k.shape())?.into(),
            v: grad_v.tile_mut(v.shape())?.into(),
        };
        attention.backward(stream, &saved, grads, None)
    }
}

impl Op for Backward {
    const NAME: &'static str = "attention gradient";

    fn shape(&self, layouts: &[&Strides]) -> Result<Shape> {
        Ok(Shape::from(layouts[..3].iter().map(|layout| layout.shape().elem_count()).sum::<usize>()))
    }
}

macro_rules! kernels {
    ($($op:ident)*) => { $(
        kernels! { $op: f16 bf16 }

        impl Kernel<f32> for $op {
            fn launch(&self, _: &Stream, _: &[Input<'_, f32>], _: ViewMut<'_, f32>) -> ptx_launch::Result<()> {
                Err(Error::new(ErrorKind::Unsupported, "attention of f32 tensors").possible("f16 and bf16"))
            }
        }
    )* };
    ($op:ident: $($ty:ty)*) => { $(
        impl Kernel<$ty> for $op {
            fn launch(&self, stream: &Stream, inputs: &[Input<'_, $ty>], out: ViewMut<'_, $ty>) -> ptx_launch::Result<()> {
                self.run(stream, inputs, out)
            }
        }
    )* };
}
kernels! { Forward Backward }
