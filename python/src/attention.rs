//! Attention, for both orders of dimensions, and rotary embedding.

use ptx_ffi::prelude::*;
use ptx_kernels::attention::{Attention, Element, Grads, Layout, Saved};
use ptx_kernels::rotary::{self, Angles, Pairs, Rotary};

/// Softmax(q · kᵀ · scale) · v for tensors of shape (batch, tokens, heads, elements).
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(q = [b, s, h, d], k = [b, t, g, d], v = [b, t, g, e], out = [b, s, h, e], lse = [b, h, s]),
    defaults(causal = false, soft_cap = 0.0),
    backward = attention_backward
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    out: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
) -> Result<()> {
    forward(stream, options(Layout::Bshd, causal, scale, soft_cap), [q, k, v], (out, lse))
}

/// The gradients of `attention`.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(
        q = [b, s, h, d], k = [b, t, g, d], v = [b, t, g, e], out = [b, s, h, e], lse = [b, h, s],
        grad_out = [b, s, h, e], grad_q = [b, s, h, d], grad_k = [b, t, g, d], grad_v = [b, t, g, e]
    ),
    defaults(causal = false, soft_cap = 0.0)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_backward<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    out: TensorRef<'_, T, 4>,
    lse: TensorRef<'_, f32, 3>,
    grad_out: TensorRef<'_, T, 4>,
    grad_q: TensorMut<'_, T, 4>,
    grad_k: TensorMut<'_, T, 4>,
    grad_v: TensorMut<'_, T, 4>,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
) -> Result<()> {
    let saved = Saved { q, k, v, out, lse, out_grad: grad_out };
    let grads = Grads { q: grad_q, k: grad_k, v: grad_v };
    options(Layout::Bshd, causal, scale, soft_cap).backward(stream, &saved, grads, None)
}

/// The same as `attention` for tensors of shape (batch, heads, tokens, elements).
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(q = [b, h, s, d], k = [b, g, t, d], v = [b, g, t, e], out = [b, h, s, e], lse = [b, h, s]),
    defaults(causal = false, soft_cap = 0.0),
    backward = attention_bhsd_backward
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_bhsd<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    out: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
) -> Result<()> {
    forward(stream, options(Layout::Bhsd, causal, scale, soft_cap), [q, k, v], (out, lse))
}

/// The gradients of `attention_bhsd`.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(
        q = [b, h, s, d], k = [b, g, t, d], v = [b, g, t, e], out = [b, h, s, e], lse = [b, h, s],
        grad_out = [b, h, s, e], grad_q = [b, h, s, d], grad_k = [b, g, t, d], grad_v = [b, g, t, e]
    ),
    defaults(causal = false, soft_cap = 0.0)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_bhsd_backward<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    out: TensorRef<'_, T, 4>,
    lse: TensorRef<'_, f32, 3>,
    grad_out: TensorRef<'_, T, 4>,
    grad_q: TensorMut<'_, T, 4>,
    grad_k: TensorMut<'_, T, 4>,
    grad_v: TensorMut<'_, T, 4>,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
) -> Result<()> {
    let saved = Saved { q, k, v, out, lse, out_grad: grad_out };
    let grads = Grads { q: grad_q, k: grad_k, v: grad_v };
    options(Layout::Bhsd, causal, scale, soft_cap).backward(stream, &saved, grads, None)
}

pub(crate) fn options<'a, T: Element>(
    layout: Layout,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
) -> Attention<'a, T> {
    let attention = Attention::new().layout(layout).soft_cap(soft_cap);
    let attention = if causal { attention.causal() } else { attention };
    scale.into_iter().fold(attention, Attention::scale)
}

fn forward<T: Element>(
    stream: &Stream,
    attention: Attention<'_, T>,
    [q, k, v]: [TensorRef<'_, T, 4>; 3],
    (out, lse): (TensorMut<'_, T, 4>, Option<TensorMut<'_, f32, 3>>),
) -> Result<()> {
    match lse {
        Some(lse) => attention.forward_with_lse(stream, q, k, v, out, lse),
        None => attention.forward(stream, q, k, v, out),
    }
}

/// Rotates the heads of `x` by the angles of their positions.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(x = [.., h, d], cos = [p, c], sin = [p, c], positions = [..], out = [.., h, d]),
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
