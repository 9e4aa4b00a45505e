//! Attention, in both orders of dimensions and for packed sequences, and rotary embedding. Frameworks pass elements of e4m3 as bytes.

use ptx_ffi::prelude::*;
use ptx_kernels::attention::{Attention, Element, Grads, Input, Layout, Saved};
use ptx_kernels::float8::E4m3;
use ptx_kernels::rotary::{self, Angles, Pairs, Rotary};

/// The options of the scores.
pub(crate) struct Scores {
    pub(crate) causal: bool,
    pub(crate) scale: Option<f32>,
    pub(crate) soft_cap: f32,
    /// Keys that a query sees in front of its own and behind it.
    pub(crate) window: [Option<u32>; 2],
}

impl Scores {
    pub(crate) fn attention<'a, T: Element>(self, layout: Layout) -> Attention<'a, T> {
        let [left, right] = self.window;
        let right = if self.causal { Some(0) } else { right };
        let attention = Attention::new().layout(layout).soft_cap(self.soft_cap).window(left, right);
        self.scale.into_iter().fold(attention, Attention::scale)
    }
}

/// The error of memory that has no other type.
pub(crate) fn no_cast() -> Error {
    Error::other("a tensor whose elements cannot be read as bytes")
}

fn forward<T: Element, I: Input<T>>(
    stream: &Stream,
    attention: Attention<'_, T>,
    [q, k, v]: [TensorRef<'_, I, 4>; 3],
    (out, lse): (TensorMut<'_, T, 4>, Option<TensorMut<'_, f32, 3>>),
) -> Result<()> {
    match lse {
        Some(lse) => attention.forward_with_lse(stream, q, k, v, out, lse),
        None => attention.forward(stream, q, k, v, out),
    }
}

/// Exports attention, its gradients, and attention of e4m3 for an order of dimensions.
macro_rules! layouts {
    ($($layout:ident: $attention:ident $backward:ident $e4m3:ident, $q:tt $k:tt $v:tt $out:tt;)*) => { $(
        /// Softmax(q · kᵀ · scale + bias) · v.
        #[ptx_ffi::export(
            types = [bf16, f16],
            shapes(q = $q, k = $k, v = $v, bias = [b, h, s, t], out = $out, lse = [b, h, s]),
            parallel(b, h / g),
            defaults(causal = false, soft_cap = 0.0, deterministic = false),
            backward = $backward,
            label = "attention"
        )]
        #[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
        fn $attention<T: Element>(
            stream: &Stream,
            q: TensorRef<'_, T, 4>,
            k: TensorRef<'_, T, 4>,
            v: TensorRef<'_, T, 4>,
            bias: Option<TensorRef<'_, T, 4>>,
            out: TensorMut<'_, T, 4>,
            lse: Option<TensorMut<'_, f32, 3>>,
            causal: bool,
            scale: Option<f32>,
            soft_cap: f32,
            window_left: Option<u32>,
            window_right: Option<u32>,
            deterministic: bool,
        ) -> Result<()> {
            let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
            forward(stream, with(scores.attention(Layout::$layout), bias, deterministic), [q, k, v], (out, lse))
        }

        /// The gradients of attention. The bias has none.
        #[ptx_ffi::export(
            types = [bf16, f16],
            shapes(
                q = $q, k = $k, v = $v, bias = [b, h, s, t], out = $out, lse = [b, h, s],
                grad_out = $out, grad_q = $q, grad_k = $k, grad_v = $v
            ),
            parallel(b, h / g),
            defaults(causal = false, soft_cap = 0.0, deterministic = false),
            label = "attention_backward"
        )]
        #[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
        fn $backward<T: Element>(
            stream: &Stream,
            q: TensorRef<'_, T, 4>,
            k: TensorRef<'_, T, 4>,
            v: TensorRef<'_, T, 4>,
            bias: Option<TensorRef<'_, T, 4>>,
            out: TensorRef<'_, T, 4>,
            lse: TensorRef<'_, f32, 3>,
            grad_out: TensorRef<'_, T, 4>,
            grad_q: TensorMut<'_, T, 4>,
            grad_k: TensorMut<'_, T, 4>,
            grad_v: TensorMut<'_, T, 4>,
            causal: bool,
            scale: Option<f32>,
            soft_cap: f32,
            window_left: Option<u32>,
            window_right: Option<u32>,
            deterministic: bool,
        ) -> Result<()> {
            let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
            let saved = Saved { q, k, v, out, lse, out_grad: grad_out };
            let grads = Grads { q: grad_q, k: grad_k, v: grad_v };
            with(scores.attention(Layout::$layout), bias, deterministic).backward(stream, &saved, grads, None)
        }

        /// Attention with q, k and v of e4m3, each times the factors of its sequences and heads.
        #[ptx_ffi::export(
            types = [bf16, f16],
            shapes(
                q = $q, k = $k, v = $v, q_descale = [b, g], k_descale = [b, g], v_descale = [b, g], out = $out, lse = [b, h, s]
            ),
            parallel(b, h / g),
            defaults(causal = false, soft_cap = 0.0),
            label = "attention"
        )]
        #[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
        fn $e4m3<T: Element>(
            stream: &Stream,
            q: TensorRef<'_, u8, 4>,
            k: TensorRef<'_, u8, 4>,
            v: TensorRef<'_, u8, 4>,
            q_descale: Option<TensorRef<'_, f32, 2>>,
            k_descale: Option<TensorRef<'_, f32, 2>>,
            v_descale: Option<TensorRef<'_, f32, 2>>,
            out: TensorMut<'_, T, 4>,
            lse: Option<TensorMut<'_, f32, 3>>,
            causal: bool,
            scale: Option<f32>,
            soft_cap: f32,
            window_left: Option<u32>,
            window_right: Option<u32>,
        ) -> Result<()>
        where
            E4m3: Input<T>,
        {
            let [Some(q), Some(k), Some(v)] = [q, k, v].map(TensorRef::cast::<E4m3>) else { return Err(no_cast()) };
            let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
            let attention = q_descale.into_iter().fold(scores.attention(Layout::$layout), Attention::q_descale);
            let attention = k_descale.into_iter().fold(attention, Attention::k_descale);
            let attention = v_descale.into_iter().fold(attention, Attention::v_descale);
            forward(stream, attention, [q, k, v], (out, lse))
        }
    )* };
}
layouts! {
    Bshd: attention attention_backward attention_e4m3, [b, s, h, d] [b, t, g, d] [b, t, g, e] [b, s, h, e];
    Bhsd: attention_bhsd attention_bhsd_backward attention_bhsd_e4m3, [b, h, s, d] [b, g, t, d] [b, g, t, e] [b, h, s, e];
}

fn with<'a, T: Element>(
    attention: Attention<'a, T>,
    bias: Option<TensorRef<'a, T, 4>>,
    deterministic: bool,
) -> Attention<'a, T> {
    let attention = bias.into_iter().fold(attention, Attention::bias);
    if deterministic { attention.deterministic() } else { attention }
}

/// Attention of packed sequences: sequence i has the rows from `cu_seqlens[i]` to `cu_seqlens[i + 1]`.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(
        q = [1, s, h, d], k = [1, t, g, d], v = [1, t, g, e], cu_seqlens_q = [n], cu_seqlens_k = [n],
        out = [1, s, h, e], lse = [1, h, s]
    ),
    parallel(h / g),
    defaults(causal = false, soft_cap = 0.0, deterministic = false),
    backward = attention_varlen_backward
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_varlen<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    cu_seqlens_q: TensorRef<'_, i32, 1>,
    cu_seqlens_k: TensorRef<'_, i32, 1>,
    out: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
    max_seqlen_q: u32,
    max_seqlen_k: u32,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
    window_left: Option<u32>,
    window_right: Option<u32>,
    deterministic: bool,
) -> Result<()> {
    let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
    let attention = scores.attention(Layout::Bshd).lengths(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k);
    forward(stream, with(attention, None, deterministic), [q, k, v], (out, lse))
}

/// The gradients of `attention_varlen`. Rows of no sequence have the gradient zero.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(
        q = [1, s, h, d], k = [1, t, g, d], v = [1, t, g, e], cu_seqlens_q = [n], cu_seqlens_k = [n],
        out = [1, s, h, e], lse = [1, h, s], grad_out = [1, s, h, e],
        grad_q = [1, s, h, d], grad_k = [1, t, g, d], grad_v = [1, t, g, e]
    ),
    parallel(h / g),
    defaults(causal = false, soft_cap = 0.0, deterministic = false)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_varlen_backward<T: Element + Default>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    cu_seqlens_q: TensorRef<'_, i32, 1>,
    cu_seqlens_k: TensorRef<'_, i32, 1>,
    out: TensorRef<'_, T, 4>,
    lse: TensorRef<'_, f32, 3>,
    grad_out: TensorRef<'_, T, 4>,
    mut grad_q: TensorMut<'_, T, 4>,
    mut grad_k: TensorMut<'_, T, 4>,
    mut grad_v: TensorMut<'_, T, 4>,
    max_seqlen_q: u32,
    max_seqlen_k: u32,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
    window_left: Option<u32>,
    window_right: Option<u32>,
    deterministic: bool,
) -> Result<()> {
    stream.fill(&mut grad_q, T::default())?;
    stream.fill(&mut grad_k, T::default())?;
    stream.fill(&mut grad_v, T::default())?;
    let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
    let attention = scores.attention(Layout::Bshd).lengths(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k);
    let saved = Saved { q, k, v, out, lse, out_grad: grad_out };
    let grads = Grads { q: grad_q, k: grad_k, v: grad_v };
    with(attention, None, deterministic).backward(stream, &saved, grads, None)
}

/// Rotates the heads of `x` by the angles of their positions.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(x = [.., h, d], cos = [p, c], sin = [p, c], positions = [..], out = [.., h, d]),
    parallel(h),
    defaults(interleaved = false),
    backward = rotary_backward
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn rotary<T: rotary::Float<I>, I: KernelParam>(
    stream: &Stream,
    x: TensorRef<'_, T, 3>,
    cos: TensorRef<'_, f32, 2>,
    sin: TensorRef<'_, f32, 2>,
    positions: TensorRef<'_, I, 1>,
    out: TensorMut<'_, T, 3>,
    interleaved: bool,
) -> Result<()> {
    Rotary::new(pairs(interleaved)).apply(stream, &Angles { cos, sin, positions }, x, out)
}

/// The gradient of `rotary`.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(grad_out = [.., h, d], cos = [p, c], sin = [p, c], positions = [..], grad_x = [.., h, d]),
    parallel(h),
    defaults(interleaved = false)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn rotary_backward<T: rotary::Float<I>, I: KernelParam>(
    stream: &Stream,
    grad_out: TensorRef<'_, T, 3>,
    cos: TensorRef<'_, f32, 2>,
    sin: TensorRef<'_, f32, 2>,
    positions: TensorRef<'_, I, 1>,
    grad_x: TensorMut<'_, T, 3>,
    interleaved: bool,
) -> Result<()> {
    Rotary::new(pairs(interleaved)).inverse().apply(stream, &Angles { cos, sin, positions }, grad_out, grad_x)
}

fn pairs(interleaved: bool) -> Pairs {
    if interleaved { Pairs::Neighbors } else { Pairs::Halves }
}
