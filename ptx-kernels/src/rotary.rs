//! Rotary position embedding of queries and keys, forward and backward.
//!
//! Each pair (x1, x2) of a head's elements is rotated by the angle that belongs to the position and to the pair:
//!
//! ```text
//! out1 = x1 · cos - x2 · sin
//! out2 = x2 · cos + x1 · sin
//! ```
//!
//! Tables of cosines and sines hold the angles, a row per position and a column per pair; [`tables`] computes the usual ones. Where a head has more
//! elements than twice the columns, the others are copied. The gradient is the rotation by the opposite angle.
//!
//! Heads lie anywhere (`[tokens, heads, dim]` with any strides of tokens and heads), with their elements side by side. Arithmetic is `f32`, results
//! are rounded to nearest: the error before rounding is at most 2^-22 · (|x1| + |x2|). A position that the tables do not have gives NaN; no memory
//! outside of the tables is read.
//!
//! Measured on an H200 with 8192 tokens of 64 heads of 128 elements, GB/s of the heads' bytes, and as a share of a device copy's in the same run: halves 3700
//! (0.97) in bf16 and 3971 (0.98) in f32, neighbors 3714 (0.98) and 3978 (0.98). Other chips have not been measured.
//!
//! Source: Su et al., *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021.

mod kernel;

use half::{bf16, f16};
use kernel::rotations::{self, rotate};
use ptx_launch::{
    AsStream, Element, Error, ErrorKind, IntoTensor, IntoTensorMut, Result, StreamRef, TensorMut, TensorRef,
};

/// Every module of kernels of this operation and its PTX, one entry per target, for tools.
pub const MODULES: &[(&str, &str)] =
    &[("rotary_sm_75", rotations::TEXTS[0].1), ("rotary_sm_90", rotations::TEXTS[1].1)];

/// Element types of heads, `f32`, `f16`, `bf16`, with positions of type `I`: `i64`, `u32`.
#[diagnostic::on_unimplemented(
    message = "rotary embeddings have no kernels for heads of `{Self}` with positions of `{I}`",
    label = "expected heads of f32, f16 or bf16, and positions of i64 or u32"
)]
pub trait Float<I>: Launch<I> {}
impl Float<i64> for f32 {}
impl Float<u32> for f32 {}
impl Float<i64> for f16 {}
impl Float<u32> for f16 {}
impl Float<i64> for bf16 {}
impl Float<u32> for bf16 {}

/// The elements that make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairs {
    /// Element `i` of the first half and of the second: GPT-NeoX, Llama, Qwen.
    Halves,
    /// Neighbors, 2 `i` and 2 `i` + 1: GPT-J, the paper.
    Neighbors,
}

/// The angles of positions.
#[derive(Clone, Copy, Debug)]
pub struct Angles<'m, I> {
    /// Cosines, `[positions, pairs]`.
    pub cos: TensorRef<'m, f32, 2>,
    /// Sines, of the same shape and strides.
    pub sin: TensorRef<'m, f32, 2>,
    /// The row of the tables for each token.
    pub positions: TensorRef<'m, I, 1>,
}

/// Cosines and sines of `position` · `base`^(-i / `pairs`) for positions from 0 on and `pairs` pairs, row by row, computed in `f64`.
///
/// ```
/// let (cos, sin) = ptx_kernels::rotary::tables(10_000.0, 64, 4096);
/// assert_eq!((cos.len(), sin[0], sin[64]), (4096 * 64, 0.0, 1f32.sin()));
/// ```
pub fn tables(base: f64, pairs: usize, positions: usize) -> (Vec<f32>, Vec<f32>) {
    let rates: Vec<f64> = (0..pairs).map(|i| base.powf(-(i as f64) / pairs as f64)).collect();
    let angles = || (0..positions).flat_map(|position| rates.iter().map(move |rate| position as f64 * rate));
    (angles().map(|angle| angle.cos() as f32).collect(), angles().map(|angle| angle.sin() as f32).collect())
}

/// Queries and keys, `[tokens, heads, dim]` each, with any number of heads.
#[derive(Clone, Copy, Debug)]
pub struct Heads<Q, K> {
    /// The queries.
    pub q: Q,
    /// The keys.
    pub k: K,
}

/// Rotates queries and keys, `[tokens, heads, dim]` each, with any number of heads: two launches. [The module](self) has types, error bound, source and
/// rates.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_kernels::rotary::{Angles, Heads, Pairs, rotary, tables};
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let (cos, sin) = tables(10_000.0, 4, 16);
/// let (cos, sin) = (device.upload(&cos)?, device.upload(&sin)?);
/// let positions = device.upload(&[0i64, 5])?;
/// let angles = Angles {
///     cos: cos.tile([16, 4])?.into(),
///     sin: sin.tile([16, 4])?.into(),
///     positions: positions.tile([2])?.into(),
/// };
/// let (q, k) = (device.upload(&[1.0f32; 2 * 3 * 8])?, device.upload(&[1.0f32; 2 * 8])?);
/// let (mut q_out, mut k_out) = (device.zeros::<f32>(2 * 3 * 8)?, device.zeros::<f32>(2 * 8)?);
/// let heads = Heads { q: q.tile([2, 3, 8])?, k: k.tile([2, 1, 8])? };
/// let out = Heads { q: q_out.tile_mut([2, 3, 8])?, k: k_out.tile_mut([2, 1, 8])? };
/// rotary(&device, Pairs::Halves, &angles, heads, out)?;
/// assert_eq!(q_out.download()?[..8], [1.0; 8]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`Rotary::apply`].
pub fn rotary<'m, 'q, 'k, T: Float<I>, I: Element>(
    stream: impl AsStream,
    pairs: Pairs,
    angles: &Angles<'_, I>,
    heads: Heads<impl IntoTensor<'m, T, 3>, impl IntoTensor<'m, T, 3>>,
    out: Heads<impl IntoTensorMut<'q, T, 3>, impl IntoTensorMut<'k, T, 3>>,
) -> Result<()> {
    let (rotary, stream) = (Rotary::new(pairs), stream.as_stream());
    rotary.apply(stream, angles, heads.q, out.q)?;
    rotary.apply(stream, angles, heads.k, out.k)
}

/// The gradients of [`rotary`]: rotates the gradients of queries and keys, of the same shapes, back. [The module](self) has types, error bound, source
/// and rates.
///
/// # Errors
/// As [`Rotary::apply`].
pub fn rotary_backward<'m, 'q, 'k, T: Float<I>, I: Element>(
    stream: impl AsStream,
    pairs: Pairs,
    angles: &Angles<'_, I>,
    out_grads: Heads<impl IntoTensor<'m, T, 3>, impl IntoTensor<'m, T, 3>>,
    grads: Heads<impl IntoTensorMut<'q, T, 3>, impl IntoTensorMut<'k, T, 3>>,
) -> Result<()> {
    let (rotary, stream) = (Rotary::new(pairs).inverse(), stream.as_stream());
    rotary.apply(stream, angles, out_grads.q, grads.q)?;
    rotary.apply(stream, angles, out_grads.k, grads.k)
}

/// The rotation of one tensor, and its options. [The module](self) has types, error bound, source and rates.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Rotary {
    pairs: Pairs,
    sine_sign: f32,
}

impl Rotary {
    /// The rotation by the angles of the tables.
    pub fn new(pairs: Pairs) -> Rotary {
        Rotary { pairs, sine_sign: 1.0 }
    }

    /// The rotation by the opposite angles: the gradient.
    pub fn inverse(self) -> Rotary {
        Rotary { sine_sign: -self.sine_sign, ..self }
    }

    /// Rotates the heads of `x`, `[tokens, heads, dim]`: one launch, or none without elements.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] where shapes do not fit or elements of a head do not lie side by side, [`ErrorKind::Unsupported`] for extents of
    /// 2^31 and more; those of the launch, which has fewer than 2^31 threads.
    pub fn apply<'x, 'o, T: Float<I>, I: Element>(
        self,
        stream: impl AsStream,
        angles: &Angles<'_, I>,
        x: impl IntoTensor<'x, T, 3>,
        out: impl IntoTensorMut<'o, T, 3>,
    ) -> Result<()> {
        let (x, mut out) = (x.into(), out.into());
        let shape = Shape::of(angles, &x, &out)?;
        if x.shape().contains(&0) { Ok(()) } else { T::rotate(stream.as_stream(), self, shape, angles, &x, &mut out) }
    }
}

/// Extents and strides of a rotation.
#[derive(Clone, Copy)]
pub struct Shape {
    tokens: u32,
    heads: u32,
    dim: u32,
    half: u32,
    rows: u64,
    x: [u64; 2],
    out: [u64; 2],
    table: u64,
    /// Every access of 16 bytes is aligned.
    wide: bool,
}

impl Shape {
    fn of<T, I>(angles: &Angles<'_, I>, x: &TensorRef<'_, T, 3>, out: &TensorMut<'_, T, 3>) -> Result<Shape> {
        let Angles { cos, sin, positions } = angles;
        let ([tokens, heads, dim], [rows, half]) = (x.shape(), cos.shape());
        let ([xt, xh, xe], [ot, oh, oe], [table, ce]) = (x.strides(), out.strides(), cos.strides());
        if out.shape() != x.shape() {
            return Err(no_heads(x.shape(), out.shape()));
        }
        if sin.shape() != cos.shape() || sin.strides() != cos.strides() || half > dim / 2 {
            return Err(no_tables(cos, sin, dim));
        }
        if positions.shape() != [tokens] || positions.strides()[0] != 1 && tokens > 1 {
            return Err(no_positions(positions, tokens));
        }
        for (name, step, extent) in [("x", xe, dim), ("out", oe, dim), ("cos", ce, half)] {
            if step != 1 && extent > 1 {
                return Err(elements_apart(name, step));
            }
        }
        if [tokens, heads, dim].iter().any(|extent| *extent >= 1 << 31) {
            return Err(too_large(x.shape()));
        }
        let each = 16 / size_of::<T>();
        let aligned = [x.address(), out.address(), cos.address(), sin.address()].iter().all(|at| at.is_multiple_of(16));
        let strides = [xt, xh, ot, oh, half, dim].iter().all(|stride| stride.is_multiple_of(each));
        Ok(Shape {
            tokens: tokens as u32,
            heads: heads as u32,
            dim: dim as u32,
            half: half as u32,
            rows: rows as u64,
            x: [xt as u64, xh as u64],
            out: [ot as u64, oh as u64],
            table: table as u64,
            wide: aligned && strides && table.is_multiple_of(4),
        })
    }
}

#[cold]
fn no_heads(x: [usize; 3], out: [usize; 3]) -> Error {
    Error::new(ErrorKind::Condition, format!("`x` has the shape {x:?}, and `out` {out:?}"))
        .possible("`[tokens, heads, dim]` for both")
}

#[cold]
fn no_tables(cos: &TensorRef<'_, f32, 2>, sin: &TensorRef<'_, f32, 2>, dim: usize) -> Error {
    let table = |table: &TensorRef<'_, f32, 2>| format!("{:?} (strides {:?})", table.shape(), table.strides());
    Error::new(ErrorKind::Condition, format!("`cos` has the shape {}, and `sin` {}", table(cos), table(sin))).possible(
        format!("`[positions, pairs]` for both, with equal strides and at most {} pairs for heads of {dim}", dim / 2),
    )
}

#[cold]
fn no_positions<I>(positions: &TensorRef<'_, I, 1>, tokens: usize) -> Error {
    let ([len], [stride]) = (positions.shape(), positions.strides());
    Error::new(ErrorKind::Condition, format!("`positions` has {len} elements with a stride of {stride}"))
        .possible(format!("{tokens} elements side by side, one for each token"))
}

#[cold]
fn elements_apart(name: &str, step: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("elements of a row of `{name}` are {step} apart"))
        .possible("elements side by side; tokens, heads and positions may have any stride")
        .help("copy it into a buffer of its own first")
}

#[cold]
fn too_large(shape: [usize; 3]) -> Error {
    Error::new(ErrorKind::Unsupported, format!("`x` has the shape {shape:?}")).possible("extents below 2^31")
}

/// The launches of the types for which there are kernels.
pub trait Launch<I>: Element {
    #[doc(hidden)]
    fn rotate(
        stream: StreamRef<'_>,
        rotary: Rotary,
        shape: Shape,
        angles: &Angles<'_, I>,
        x: &TensorRef<'_, Self, 3>,
        out: &mut TensorMut<'_, Self, 3>,
    ) -> Result<()>;
}

impl<T: Element, I: Element> Launch<I> for T
where
    rotate::Types<T, I>: rotate::Exists,
{
    fn rotate(
        stream: StreamRef<'_>,
        Rotary { pairs, sine_sign }: Rotary,
        shape: Shape,
        Angles { cos, sin, positions }: &Angles<'_, I>,
        x: &TensorRef<'_, T, 3>,
        out: &mut TensorMut<'_, T, 3>,
    ) -> Result<()> {
        let instance = match (pairs, shape.wide, size_of::<T>()) {
            (Pairs::Halves, false, _) => rotate::Instance::halves_1,
            (Pairs::Halves, true, 4) => rotate::Instance::halves_4,
            (Pairs::Halves, true, _) => rotate::Instance::halves_8,
            (Pairs::Neighbors, false, _) => rotate::Instance::neighbors_1,
            (Pairs::Neighbors, true, 4) => rotate::Instance::neighbors_4,
            (Pairs::Neighbors, true, _) => rotate::Instance::neighbors_8,
        };
        let Shape { tokens, heads, dim, half, rows, x: [xt, xh], out: [ot, oh], table, .. } = shape;
        let tensors = rotations::Tensors { x, cos, sin, positions, out };
        let strides = rotations::Strides { x_token: xt, x_head: xh, out_token: ot, out_head: oh, table_stride: table };
        rotate::launch(
            instance,
            stream,
            tensors,
            strides,
            sine_sign,
            rotations::Shape { rows, tokens, heads, half, dim },
        )
    }
}
