//! Attention: of tensors, and against a cache of keys and values.

use crate::memory::Typed;
use crate::run::{Custom, Input, Kernel, Op, check_rank, missing, part};
use candle_core::{DType, Device, Layout as Strides, Result, Shape, Tensor};
use half::{bf16, f16};
use ptx_kernels::attention::{Attention, Element, Grads, KvCache as KvMemory, Layout, Results, Saved};
use ptx_launch::{Error, ErrorKind, Stream, ViewMut};

/// `softmax(q · kᵀ · scale) · v` for tensors of `f16` or `bf16` of shape (batch, heads, tokens, elements), with any strides. `k` and `v` may
/// have fewer heads. Differentiable in all three.
///
/// With `causal`, a query sees no key behind its own; the last query is aligned with the last key.
///
/// # Errors
/// If shapes do not fit; those of the launch.
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32, causal: bool) -> Result<Tensor> {
    q.apply_op3(k, v, Custom(Forward::new(Layout::Bhsd, scale).causal(causal), Vec::new()))
}

/// The same for tensors of shape (batch, tokens, heads, elements), with the arguments of `candle_flash_attn::flash_attn`.
///
/// # Errors
/// As [`attention`].
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    q.apply_op3(k, v, Custom(Forward::new(Layout::Bshd, softmax_scale).causal(causal), Vec::new()))
}

/// As [`flash_attn`] with a window, as `candle_flash_attn::flash_attn_windowed`: a query sees so many keys in front of its own and behind it, and all of
/// them where that is `None`.
///
/// # Errors
/// As [`attention`].
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let window = [window_size_left, window_size_right].map(|size| size.map(saturate));
    q.apply_op3(k, v, Custom(Forward { window, ..Forward::new(Layout::Bshd, softmax_scale) }, Vec::new()))
}

/// Attention of packed sequences, with the arguments of `candle_flash_attn::flash_attn_varlen`: tensors of shape (tokens, heads, elements), of which
/// sequence i has the rows from `seqlens[i]` to `seqlens[i + 1]`, numbers of `u32` on the tensors' device. `max_seqlen` is a length that no
/// sequence exceeds. Rows of no sequence have no defined result, and the gradient zero.
///
/// # Errors
/// As [`attention`].
#[allow(clippy::too_many_arguments, reason = "those of candle_flash_attn")]
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    for (name, seqlens) in [("seqlens_q", seqlens_q), ("seqlens_k", seqlens_k)] {
        if seqlens.dtype() != DType::U32 || seqlens.rank() != 1 {
            let found = format!("{:?} of {:?}", seqlens.dims(), seqlens.dtype());
            candle_core::bail!("flash_attn_varlen: {name}: expected one dimension of u32, found {found}");
        }
    }
    let longest = Some([max_seqlen_q, max_seqlen_k].map(saturate));
    let forward = Forward { longest, ..Forward::new(Layout::Bshd, softmax_scale).causal(causal) };
    let [q, k, v] = [q.unsqueeze(0)?, k.unsqueeze(0)?, v.unsqueeze(0)?];
    q.apply_op3(&k, &v, Custom(forward, vec![seqlens_q.clone(), seqlens_k.clone()]))?.squeeze(0)
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[derive(Clone, Copy)]
struct Forward {
    layout: Layout,
    scale: f32,
    /// Keys that a query sees in front of its own and behind it.
    window: [Option<u32>; 2],
    /// For packed sequences: lengths of Q and K that none exceeds. Their cumulative lengths are the last two inputs.
    longest: Option<[u32; 2]>,
}

impl Forward {
    fn new(layout: Layout, scale: f32) -> Forward {
        Forward { layout, scale, window: [None; 2], longest: None }
    }

    fn causal(self, causal: bool) -> Forward {
        if causal { Forward { window: [None, Some(0)], ..self } } else { self }
    }

    fn options<'a, T: Element>(self, rest: &[Input<'a>]) -> ptx_launch::Result<Attention<'a, T>> {
        let [left, right] = self.window;
        let attention = Attention::new().layout(self.layout).scale(self.scale).window(left, right);
        let (Some([longest_q, longest_k]), [starts_q, starts_k]) = (self.longest, rest) else { return Ok(attention) };
        let starts = |input: &Input<'a>| {
            let starts = input.tensor::<u32, 1>()?.cast::<i32>();
            starts.ok_or_else(|| Error::other("cumulative lengths that cannot be read with a sign"))
        };
        Ok(attention.lengths(starts(starts_q)?, starts(starts_k)?, longest_q, longest_k))
    }

    fn run<T: Element + Typed>(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        mut out: ViewMut<'_, T>,
    ) -> ptx_launch::Result<()> {
        let [q, k, v, rest @ ..] = inputs else { return Err(missing(inputs)) };
        let (q, v) = (q.tensor::<T, 4>()?, v.tensor::<T, 4>()?);
        let [batch, second, third, _] = q.shape();
        let out = out.tile_mut([batch, second, third, v.shape()[3]])?;
        self.options(rest)?.forward(stream, q, k.tensor::<T, 4>()?, v, out)
    }
}

impl Op for Forward {
    const NAME: &'static str = "attention";

    fn shape(&self, layouts: &[&Strides]) -> Result<Shape> {
        let ([batch, second, third, _], [.., dim]) =
            (check_rank::<4>("q", layouts[0])?, check_rank::<4>("v", layouts[2])?);
        check_rank::<4>("k", layouts[1])?;
        Ok(Shape::from((batch, second, third, dim)))
    }

    fn gradients(&self, inputs: &[&Tensor], result: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let [q, k, v, rest @ ..] = inputs else { return Ok(Vec::new()) };
        let others = [*k, *v, result, grad].iter().chain(rest).map(|tensor| (*tensor).clone()).collect();
        let all = q.apply_op1_no_bwd(&Custom(Backward(*self), others))?;
        let (second, third) = (q.elem_count(), q.elem_count() + k.elem_count());
        Ok(vec![part(&all, 0, q)?, part(&all, second, k)?, part(&all, third, v)?])
    }
}

/// The gradients, of q, k, v, the result, and its gradient.
struct Backward(Forward);

impl Backward {
    fn run<T: Element + Typed + Default>(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        mut out: ViewMut<'_, T>,
    ) -> ptx_launch::Result<()> {
        let [q, k, v, result, grad, rest @ ..] = inputs else { return Err(missing(inputs)) };
        let (q, k, v) = (q.tensor::<T, 4>()?, k.tensor::<T, 4>()?, v.tensor::<T, 4>()?);
        let [count_q, count_k] = [q.shape(), k.shape()].map(|shape| shape.iter().product());
        let [batch, second, third, _] = q.shape();
        let (heads, tokens) = if self.0.layout == Layout::Bhsd { (second, third) } else { (third, second) };
        let device = stream.device();
        // The logarithms of the sums are computed again, with a result that is thrown away.
        let mut lse = device.zeros::<f32>(batch * heads * tokens)?;
        let mut again = device.zeros::<T>(batch * heads * tokens * v.shape()[3])?;
        let attention: Attention<'_, T> = self.0.options(rest)?;
        if self.0.longest.is_some() {
            stream.fill(&mut out, T::default())?;
        }
        let out_again = again.tile_mut([batch, second, third, v.shape()[3]])?.into();
        let logs = Some(lse.tile_mut([batch, heads, tokens])?.into());
        attention.forward(stream, q, k, v, Results { out: out_again, lse: logs })?;
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

/// Attention of at most 16 new tokens to a cache: of q, the keys, the values, and the lengths.
#[derive(Clone, Copy)]
struct Decode {
    scale: f32,
}

impl Decode {
    fn run<T: Element + Typed>(
        &self,
        stream: &Stream,
        inputs: &[Input<'_>],
        mut out: ViewMut<'_, T>,
    ) -> ptx_launch::Result<()> {
        let [q, k, v, lengths] = inputs else { return Err(missing(inputs)) };
        let (q, v) = (q.tensor::<T, 4>()?, v.tensor::<T, 4>()?);
        let [batch, tokens, heads, _] = q.shape();
        let cache = KvMemory::new(k.tensor::<T, 4>()?, v, lengths.tensor::<i32, 1>()?);
        let out = out.tile_mut([batch, tokens, heads, v.shape()[3]])?;
        Attention::new().scale(self.scale).causal().decode(stream, q, &cache, out, None)
    }
}

impl Op for Decode {
    const NAME: &'static str = "attention to a cache";

    fn shape(&self, layouts: &[&Strides]) -> Result<Shape> {
        Forward::new(Layout::Bshd, self.scale).shape(&layouts[..3])
    }
}

/// A cache of keys and values for one layer, which grows in place: nothing is copied but the new tokens.
#[derive(Clone, Debug)]
pub struct KvCache {
    k: Tensor,
    v: Tensor,
    /// Row n is n for each sequence, so that no launch writes lengths.
    lengths: Tensor,
    len: usize,
}

impl KvCache {
    /// An empty cache for `capacity` tokens of each sequence, of shape (batch, capacity, heads, elements).
    ///
    /// # Errors
    /// Those of the allocation.
    pub fn new(shape: (usize, usize, usize, usize), dtype: DType, device: &Device) -> Result<KvCache> {
        let (batch, capacity, ..) = shape;
        let zeros = || Tensor::zeros(shape, dtype, device);
        let lengths: Vec<i32> = (0..=capacity as i32).flat_map(|len| std::iter::repeat_n(len, batch)).collect();
        Ok(KvCache {
            k: zeros()?,
            v: zeros()?,
            lengths: Tensor::from_vec(lengths, (capacity + 1, batch), device)?,
            len: 0,
        })
    }

    /// Tokens of each sequence.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends keys and values of shape (batch, tokens, heads, elements), and returns the attention of `q` (batch, tokens, heads of q,
    /// elements) to all tokens: a query sees no key behind its own. Without gradients.
    ///
    /// # Errors
    /// If shapes do not fit, or the cache has no room; those of the launch.
    pub fn attend(&mut self, q: &Tensor, k: &Tensor, v: &Tensor, scale: f32) -> Result<Tensor> {
        let (tokens, end) = (k.dim(1)?, self.len + k.dim(1)?);
        self.k.slice_set(&k.contiguous()?, 1, self.len)?;
        self.v.slice_set(&v.contiguous()?, 1, self.len)?;
        self.len = end;
        if tokens <= MOST_QUERIES {
            let others = vec![self.k.clone(), self.v.clone(), self.lengths.get(end)?];
            return q.apply_op1_no_bwd(&Custom(Decode { scale }, others));
        }
        let part = |all: &Tensor| all.narrow(1, 0, end);
        let forward = Forward::new(Layout::Bshd, scale).causal(true);
        q.apply_op3_no_bwd(&part(&self.k)?, &part(&self.v)?, &Custom(forward, Vec::new()))
    }
}

/// The most queries of a sequence that decode takes.
const MOST_QUERIES: usize = 16;

macro_rules! kernels {
    ($($op:ident)*) => { $(
        kernels! { $op: f16 bf16 }

        impl Kernel<f32> for $op {
            fn launch(&self, _: &Stream, _: &[Input<'_>], _: ViewMut<'_, f32>) -> ptx_launch::Result<()> {
                Err(Error::new(ErrorKind::Unsupported, "attention of f32 tensors").possible("f16 and bf16"))
            }
        }
    )* };
    ($op:ident: $($ty:ty)*) => { $(
        impl Kernel<$ty> for $op {
            fn launch(&self, stream: &Stream, inputs: &[Input<'_>], out: ViewMut<'_, $ty>) -> ptx_launch::Result<()> {
                self.run(stream, inputs, out)
            }
        }
    )* };
}
kernels! { Forward Backward Decode }
