//! Attention: forward, backward, decode.
//!
//! | function | inputs | outputs |
//! |---|---|---|
//! | [`attention`], [`Attention::forward`] | Q, K, V | O |
//! | [`Attention::forward_with_lse`] | Q, K, V | O, and log Σ exp S of each row |
//!
//! Elements are `bf16` or `f16`; scores, exponentials and sums are `f32`. Scores are never written: the softmax is computed
//! online, tile by tile (Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018), in the order of
//! FlashAttention (Dao et al., 2022) and with the loops of FlashAttention-2 (Dao, 2023).
//!
//! **Error.** P is rounded to 16 bits relative to the largest score of its row so far, and O is rounded once. With
//! ε = 2⁻⁸ for `bf16`, 2⁻¹¹ for `f16`, an element of O differs from the exact one by at most ε · (|O| + 2 max |V|) / 2 plus the
//! rounding of the scores in `f32`, which is below 2⁻²⁰ · dim · max |Q| · max |K| · scale of it.

mod forward;
mod options;
#[allow(unreachable_pub, reason = "the sealed trait of the element types names it")]
mod problem;
mod types;

pub use options::{Attention, Layout};
pub use types::Element;

use problem::{Problem, Rows};
use ptx_launch::{AsStream, Result, StreamRef, TensorMut, TensorRef};

/// The modules of this operation, by name, for tools that assemble them.
#[doc(hidden)]
pub const PTX: &[(&str, &str)] = &[("forward", forward::kernels::PTX)];

/// O = softmax(Q · Kᵀ / √dim) · V, for tensors of shape (batch, tokens, heads, elements) with any strides: all queries see all
/// keys. [`Attention`] has options.
///
/// K and V may have fewer heads and another number of tokens than Q, and V rows of another length.
///
/// # Errors
/// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, and as every launch.
pub fn attention<'a, T: Element>(
    stream: impl AsStream,
    q: impl Into<TensorRef<'a, T, 4>>,
    k: impl Into<TensorRef<'a, T, 4>>,
    v: impl Into<TensorRef<'a, T, 4>>,
    out: impl Into<TensorMut<'a, T, 4>>,
) -> Result<()> {
    Attention::new().forward(stream, q, k, v, out)
}

impl<T: Element> Attention<'_, T> {
    /// Computes O.
    ///
    /// Q has the shape (batch, tokens, heads, dim), K (batch, tokens of K, heads of K, dim), V (batch, tokens of K, heads of K,
    /// dim of V), and O (batch, tokens, heads, dim of V); see [`layout`](Attention::layout). Rows are multiples of 8 elements, at
    /// most 256, side by side, and begin at multiples of 16 bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, and as every launch.
    pub fn forward<'a>(
        &self,
        stream: impl AsStream,
        q: impl Into<TensorRef<'a, T, 4>>,
        k: impl Into<TensorRef<'a, T, 4>>,
        v: impl Into<TensorRef<'a, T, 4>>,
        out: impl Into<TensorMut<'a, T, 4>>,
    ) -> Result<()> {
        self.run(stream.as_stream(), [q.into(), k.into(), v.into()], out.into(), None)
    }

    /// Computes O, and log Σ exp S of each row, which the backward pass needs: natural logarithms of shape (batch, heads,
    /// tokens), with any strides.
    ///
    /// # Errors
    /// As [`forward`](Attention::forward).
    pub fn forward_with_lse<'a>(
        &self,
        stream: impl AsStream,
        q: impl Into<TensorRef<'a, T, 4>>,
        k: impl Into<TensorRef<'a, T, 4>>,
        v: impl Into<TensorRef<'a, T, 4>>,
        out: impl Into<TensorMut<'a, T, 4>>,
        lse: impl Into<TensorMut<'a, f32, 3>>,
    ) -> Result<()> {
        self.run(stream.as_stream(), [q.into(), k.into(), v.into()], out.into(), Some(lse.into()))
    }

    fn run(
        &self,
        stream: StreamRef<'_>,
        inputs: [TensorRef<'_, T, 4>; 3],
        out: TensorMut<'_, T, 4>,
        lse: Option<TensorMut<'_, f32, 3>>,
    ) -> Result<()> {
        let [q, k, v] = [("Q", 0), ("K", 1), ("V", 2)].map(|(name, at)| Rows::of(name, &inputs[at], self.layout));
        let mut problem = Problem::new(self, &q, &k, &v)?;
        problem.set_out(&q, &Rows::of_mut("the output", &out, self.layout))?;
        if let Some(lse) = &lse {
            problem.set_lse(&q, lse.shape(), lse.strides())?;
        }
        T::forward(stream, self, inputs, out, lse, problem)
    }
}
