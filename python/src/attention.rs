//! Attention, in both orders of dimensions and for packed sequences, and rotary embedding. Frameworks pass elements of e4m3 as bytes.

use ptx_ffi::prelude::*;
use ptx_kernels::attention::{self as kernels, Attention, Element, Input, Layout};
use ptx_kernels::float8::E4m3;
use ptx_kernels::rotary::{self, Pairs, Rotary};

/// The operands of attention.
#[derive(ptx_ffi::Args)]
struct Operands<'a, T> {
    q: TensorRef<'a, T, 4>,
    k: TensorRef<'a, T, 4>,
    v: TensorRef<'a, T, 4>,
    bias: Option<TensorRef<'a, T, 4>>,
}

/// The operands of attention of e4m3: as bytes, with factors of sequences and heads.
#[derive(ptx_ffi::Args)]
struct Bytes<'a> {
    q: TensorRef<'a, u8, 4>,
    k: TensorRef<'a, u8, 4>,
    v: TensorRef<'a, u8, 4>,
    q_descale: Option<TensorRef<'a, f32, 2>>,
    k_descale: Option<TensorRef<'a, f32, 2>>,
    v_descale: Option<TensorRef<'a, f32, 2>>,
}

/// The operands of attention of packed sequences, and where these begin.
#[derive(ptx_ffi::Args)]
struct Packed<'a, T> {
    q: TensorRef<'a, T, 4>,
    k: TensorRef<'a, T, 4>,
    v: TensorRef<'a, T, 4>,
    cu_seqlens_q: TensorRef<'a, i32, 1>,
    cu_seqlens_k: TensorRef<'a, i32, 1>,
}

/// The most tokens of a packed sequence.
#[derive(ptx_ffi::Args)]
struct Longest {
    max_seqlen_q: u32,
    max_seqlen_k: u32,
}

/// The results of attention.
#[derive(ptx_ffi::Args)]
pub(crate) struct Results<'a, T> {
    out: TensorMut<'a, T, 4>,
    lse: Option<TensorMut<'a, f32, 3>>,
}

/// The results of the forward pass, and the gradient of its output.
#[derive(ptx_ffi::Args)]
struct Saved<'a, T> {
    out: TensorRef<'a, T, 4>,
    lse: TensorRef<'a, f32, 3>,
    grad_out: TensorRef<'a, T, 4>,
}

/// The results of the backward pass.
#[derive(ptx_ffi::Args)]
struct Grads<'a, T> {
    grad_q: TensorMut<'a, T, 4>,
    grad_k: TensorMut<'a, T, 4>,
    grad_v: TensorMut<'a, T, 4>,
}

/// The options of the scores. The window is the keys that a query sees in front of its own and behind it.
#[derive(ptx_ffi::Args)]
pub(crate) struct Scores {
    pub(crate) causal: bool,
    pub(crate) scale: Option<f32>,
    pub(crate) soft_cap: f32,
    pub(crate) window_left: Option<u32>,
    pub(crate) window_right: Option<u32>,
}

/// The options of both passes.
#[derive(ptx_ffi::Args)]
struct Options {
    scores: Scores,
    deterministic: bool,
}

impl<'a, T> From<Results<'a, T>> for kernels::Results<'a, T> {
    fn from(Results { out, lse }: Results<'a, T>) -> Self {
        kernels::Results { out, lse }
    }
}

impl<'a, T> From<Grads<'a, T>> for kernels::Grads<'a, T> {
    fn from(grads: Grads<'a, T>) -> Self {
        kernels::Grads { q: grads.grad_q, k: grads.grad_k, v: grads.grad_v }
    }
}

impl<'a, T> Saved<'a, T> {
    fn of(self, [q, k, v]: [TensorRef<'a, T, 4>; 3]) -> kernels::Saved<'a, T> {
        kernels::Saved { q, k, v, out: self.out, lse: self.lse, out_grad: self.grad_out }
    }
}

impl Scores {
    pub(crate) fn attention<'a, T: Element>(self, layout: Layout) -> Attention<'a, T> {
        let right = if self.causal { Some(0) } else { self.window_right };
        let attention = Attention::new().layout(layout).soft_cap(self.soft_cap).window(self.window_left, right);
        self.scale.into_iter().fold(attention, Attention::scale)
    }
}

impl Options {
    fn attention<'a, T: Element>(self, layout: Layout, bias: Option<TensorRef<'a, T, 4>>) -> Attention<'a, T> {
        let attention = bias.into_iter().fold(self.scores.attention(layout), Attention::bias);
        if self.deterministic { attention.deterministic() } else { attention }
    }
}

/// The error of memory that has no other type.
pub(crate) fn no_cast() -> Error {
    Error::other("a tensor whose elements cannot be read as bytes")
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
        fn $attention<T: Element>(
            stream: &Stream,
            Operands { q, k, v, bias }: Operands<'_, T>,
            results: Results<'_, T>,
            options: Options,
        ) -> Result<()> {
            options.attention(Layout::$layout, bias).forward(stream, q, k, v, results)
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
        fn $backward<T: Element>(
            stream: &Stream,
            Operands { q, k, v, bias }: Operands<'_, T>,
            saved: Saved<'_, T>,
            grads: Grads<'_, T>,
            options: Options,
        ) -> Result<()> {
            options.attention(Layout::$layout, bias).backward(stream, &saved.of([q, k, v]), grads.into(), None)
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
        fn $e4m3<T: Element>(
            stream: &Stream,
            Bytes { q, k, v, q_descale, k_descale, v_descale }: Bytes<'_>,
            results: Results<'_, T>,
            scores: Scores,
        ) -> Result<()>
        where
            E4m3: Input<T>,
        {
            let [Some(q), Some(k), Some(v)] = [q, k, v].map(TensorRef::cast::<E4m3>) else { return Err(no_cast()) };
            let attention = q_descale.into_iter().fold(scores.attention(Layout::$layout), Attention::q_descale);
            let attention = k_descale.into_iter().fold(attention, Attention::k_descale);
            let attention = v_descale.into_iter().fold(attention, Attention::v_descale);
            attention.forward(stream, q, k, v, results)
        }
    )* };
}
layouts! {
    Bshd: attention attention_backward attention_e4m3, [b, s, h, d] [b, t, g, d] [b, t, g, e] [b, s, h, e];
    Bhsd: attention_bhsd attention_bhsd_backward attention_bhsd_e4m3, [b, h, s, d] [b, g, t, d] [b, g, t, e] [b, h, s, e];
}

impl<'a, T: Element> Packed<'a, T> {
    fn attention(&self, Longest { max_seqlen_q, max_seqlen_k }: Longest, options: Options) -> Attention<'a, T> {
        let attention = options.attention(Layout::Bshd, None);
        attention.lengths(self.cu_seqlens_q, self.cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    }
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
fn attention_varlen<T: Element>(
    stream: &Stream,
    packed: Packed<'_, T>,
    results: Results<'_, T>,
    longest: Longest,
    options: Options,
) -> Result<()> {
    packed.attention(longest, options).forward(stream, packed.q, packed.k, packed.v, results)
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
fn attention_varlen_backward<T: Element + Default>(
    stream: &Stream,
    packed: Packed<'_, T>,
    saved: Saved<'_, T>,
    mut grads: Grads<'_, T>,
    longest: Longest,
    options: Options,
) -> Result<()> {
    for grad in [&mut grads.grad_q, &mut grads.grad_k, &mut grads.grad_v] {
        stream.fill(grad, T::default())?;
    }
    let saved = saved.of([packed.q, packed.k, packed.v]);
    packed.attention(longest, options).backward(stream, &saved, grads.into(), None)
}

/// The cosines and sines of all positions, and the positions of the tokens.
#[derive(ptx_ffi::Args)]
struct Angles<'a, I> {
    cos: TensorRef<'a, f32, 2>,
    sin: TensorRef<'a, f32, 2>,
    positions: TensorRef<'a, I, 1>,
}

/// Rotates the heads of `x` by the angles of their positions.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(x = [.., h, d], cos = [p, c], sin = [p, c], positions = [..], out = [.., h, d]),
    parallel(h),
    defaults(interleaved = false),
    backward = rotary_backward
)]
fn rotary<T: rotary::Float<I>, I: KernelParam>(
    stream: &Stream,
    x: TensorRef<'_, T, 3>,
    Angles { cos, sin, positions }: Angles<'_, I>,
    out: TensorMut<'_, T, 3>,
    interleaved: bool,
) -> Result<()> {
    Rotary::new(pairs(interleaved)).apply(stream, &rotary::Angles { cos, sin, positions }, x, out)
}

/// The gradient of `rotary`.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(grad_out = [.., h, d], cos = [p, c], sin = [p, c], positions = [..], grad_x = [.., h, d]),
    parallel(h),
    defaults(interleaved = false)
)]
fn rotary_backward<T: rotary::Float<I>, I: KernelParam>(
    stream: &Stream,
    grad_out: TensorRef<'_, T, 3>,
    Angles { cos, sin, positions }: Angles<'_, I>,
    grad_x: TensorMut<'_, T, 3>,
    interleaved: bool,
) -> Result<()> {
    Rotary::new(pairs(interleaved)).inverse().apply(stream, &rotary::Angles { cos, sin, positions }, grad_out, grad_x)
}

fn pairs(interleaved: bool) -> Pairs {
    if interleaved { Pairs::Neighbors } else { Pairs::Halves }
}
