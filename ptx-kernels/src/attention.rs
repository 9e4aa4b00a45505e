//! Attention: forward, backward, decode.
//!
//! | function | inputs | outputs |
//! |---|---|---|
//! | [`attention`] | Q, K, V | O |
//! | [`Attention::forward`] | Q, K, V | O, or [`Results`]: O and log Σ exp S of each row |
//! | [`Attention::backward`] | these, and dO | dQ, dK, dV |
//! | [`Attention::decode`] | Q of 1 to 16 tokens, a [`KvCache`] | O |
//! | [`Attention::decode_latent`] | the same for MLA, a [`LatentCache`] | O |
//! | [`Attention::prefill`] | Q of a chunk of tokens, a [`KvCache`] | O |
//! | [`Attention::append`] | new rows of K and V | a [`KvCacheMut`] with them |
//!
//! Elements are `bf16` or `f16`; the forward pass also takes Q, K and V of [`E4m3`](crate::float8::E4m3), with factors for each head
//! ([`Attention::q_descale`]). Scores, exponentials and sums are `f32`. Scores are never written: the softmax is computed
//! online, tile by tile (Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018), in the order of
//! FlashAttention (Dao et al., 2022) and with the loops of FlashAttention-2 (Dao, 2023, section 3.1), whose backward pass computes P again from the
//! logarithms. The kernels for Hopper overlap exponentials with products as FlashAttention-3 does (Shah et al., 2024, section 3). Decode divides the keys among blocks
//! (Flash-Decoding, Dao et al., 2023) and finds them by a table of pages (Kwon et al., *PagedAttention*, 2023). Latent attention is that of DeepSeek-V2 (DeepSeek-AI,
//! 2024, section 2.1).
//!
//! **Overlap on Hopper.** Exponentials run beside products; forward, then backward:
//!
#![doc = include_str!("../docs/figures/attention_forward.svg")]
//!
#![doc = include_str!("../docs/figures/attention_backward.svg")]
//!
//! **Error.** P is rounded to 16 bits, and O is rounded once. With
//! ε = 2⁻⁸ for `bf16`, 2⁻¹¹ for `f16`, an element of O differs from the exact one by at most ε · (|O| + 2 max |V|) / 2 plus the
//! rounding of the scores in `f32`, which is below 2⁻²⁰ · dim · max |Q| · max |K| · scale of it. Decode has the same bound: its parts of a sum are `f32`. With
//! a cache of `E4m3`, P is rounded to `f16`, so that ε is 2⁻¹¹ for P.
//!
//! With Q, K and V of `E4m3` the Hopper kernel rounds P to `e4m3`, so that ε is 2⁻³ for P, plus 2⁻¹⁶ · Σ |V| / Σ exp(S − max S). Hopper's products of
//! 8 bits keep 13 bits below the largest term of each 32: S changes by up to 2⁻⁸ · dim / 32 · max |Q · K|, and O by up to
//! 2⁻⁸ · tokens / 32 of its largest partial sum; errors of different sign cancel, so that both are far smaller in practice. The
//! portable kernel converts tiles to `f16`, exactly, and has the bound of `f16`.
//!
//! **Rate.** On an H200, `bf16`, 4 × 4,096 and 1 × 16,384 tokens: forward 520 to 570 TFLOP/s with a head size of 64 and 700 to 750 with 128, of the
//! visible scores alone if causal (470 to 770); backward 515 to 590 (434 to 549 if causal); decode 4.0 to 4.3 TB/s of keys and values, latent
//! decode 340 to 470 TFLOP/s with 128 heads. `docs/benchmarks` has every row beside its rivals.

#[cfg(feature = "attention_backward")]
mod backward;
#[cfg(feature = "attention_decode")]
#[allow(unreachable_pub, reason = "the sealed trait of the element types names its problem")]
mod decode;
mod device;
mod e4m3;
#[allow(unreachable_pub, reason = "a parameter of kernels")]
mod factors;
mod forward;
mod hopper;
mod maps;
#[allow(unreachable_pub, reason = "the sealed trait of the element types names them")]
mod optional;
#[allow(dead_code, reason = "each operation uses a part")]
mod options;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the sealed trait of the element types names it; caches are an operation of their own"
)]
mod places;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the sealed trait of the element types names it; each operation uses a part"
)]
mod problem;
mod types;

#[cfg(feature = "attention_decode")]
pub use decode::{Cached, KvCache, KvCacheMut, LatentCache};
pub use options::{Attention, Layout};
pub use types::{Element, Input, Results};

#[cfg(feature = "attention_backward")]
use crate::workspace::{self, Workspace};
#[cfg(feature = "attention_backward")]
use problem::Gradients;
#[cfg(feature = "attention_decode")]
use problem::{Paging, refuse};
use problem::{Problem, Rows};
#[cfg(feature = "attention_backward")]
use ptx_launch::TensorMut;
use ptx_launch::{AsStream, IntoTensor, IntoTensorMut, Module, Result, StreamRef, TensorRef};

/// The modules of this operation, by name, for tools that assemble them.
#[doc(hidden)]
pub fn modules() -> impl Iterator<Item = (&'static str, &'static Module)> {
    static MODULES: &[(&str, &Module)] = &[
        ("forward", &forward::kernels::MODULE),
        ("hopper_forward", &hopper::forward::kernels::MODULE),
        ("hopper_e4m3", &hopper::e4m3::kernel::kernels::MODULE),
        #[cfg(feature = "attention_backward")]
        ("hopper_backward", &hopper::backward::grads::kernels::MODULE),
        #[cfg(feature = "attention_backward")]
        ("hopper_backward_wide", &hopper::backward::wide::kernels::MODULE),
        #[cfg(feature = "attention_backward")]
        ("hopper_backward_passes", &hopper::backward::passes::kernels::MODULE),
        #[cfg(feature = "attention_decode")]
        ("decode", &decode::MODULE),
        #[cfg(feature = "attention_decode")]
        ("decode_tma", &decode::TMA),
        #[cfg(feature = "attention_decode")]
        ("append", &decode::APPEND),
        #[cfg(feature = "attention_decode")]
        ("decode_latent", &decode::LATENT),
        #[cfg(feature = "attention_decode")]
        ("hopper_decode_latent", &decode::HOPPER_LATENT),
        #[cfg(feature = "attention_backward")]
        ("backward_queries", &backward::queries::kernels::MODULE),
        #[cfg(feature = "attention_backward")]
        ("backward_keys", &backward::keys::kernels::MODULE),
    ];
    MODULES.iter().copied()
}

/// The Hopper kernel's module.
#[doc(hidden)]
pub mod hopper_forward {
    /// Its text.
    pub const PTX: &str = super::hopper::forward::kernels::PTX;
}

#[cfg(feature = "attention_backward")]
/// The inputs of a backward pass: those of the forward pass, its results, and the gradient of its output.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T> {
    /// Q, as the forward pass took it.
    pub q: TensorRef<'a, T, 4>,
    /// K.
    pub k: TensorRef<'a, T, 4>,
    /// V.
    pub v: TensorRef<'a, T, 4>,
    /// The output of the forward pass.
    pub out: TensorRef<'a, T, 4>,
    /// The logarithms of [`Results::lse`].
    pub lse: TensorRef<'a, f32, 3>,
    /// The gradient of the output, of its shape.
    pub out_grad: TensorRef<'a, T, 4>,
}

#[cfg(feature = "attention_backward")]
/// The results of a backward pass, each of the shape of its tensor.
#[derive(Debug)]
pub struct Grads<'a, T> {
    /// The gradient of Q.
    pub q: TensorMut<'a, T, 4>,
    /// The gradient of K, summed over the heads of Q that share a head.
    pub k: TensorMut<'a, T, 4>,
    /// The gradient of V, summed likewise.
    pub v: TensorMut<'a, T, 4>,
}

/// O = softmax(Q · Kᵀ / √dim) · V, for tensors of shape (batch, tokens, heads, elements) with any strides: all queries see all
/// keys. [`Attention`] has options.
///
/// K and V may have fewer heads and another number of tokens than Q, and V rows of another length.
///
/// # Errors
/// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, and as every launch.
pub fn attention<'a, I: Input<T>, T: Element>(
    stream: impl AsStream,
    q: impl IntoTensor<'a, I, 4>,
    k: impl IntoTensor<'a, I, 4>,
    v: impl IntoTensor<'a, I, 4>,
    out: impl IntoTensorMut<'a, T, 4>,
) -> Result<()> {
    Attention::new().forward(stream, q, k, v, out.into())
}

impl<T: Element> Attention<'_, T> {
    /// Computes O, and the logarithms of [`Results::lse`] where they are given.
    ///
    /// Q has the shape (batch, tokens, heads, dim), K (batch, tokens of K, heads of K, dim), V (batch, tokens of K, heads of K,
    /// dim of V), and O (batch, tokens, heads, dim of V); see [`layout`](Attention::layout). Rows are multiples of 8 elements, at
    /// most 256, side by side, and begin at multiples of 16 bytes. Q, K and V have the type of O, or are [`E4m3`](crate::float8::E4m3) with rows of
    /// multiples of 16 elements.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, and as every launch.
    pub fn forward<'a, I: Input<T>>(
        &self,
        stream: impl AsStream,
        q: impl IntoTensor<'a, I, 4>,
        k: impl IntoTensor<'a, I, 4>,
        v: impl IntoTensor<'a, I, 4>,
        results: impl Into<Results<'a, T>>,
    ) -> Result<()> {
        self.run(stream.as_stream(), [q.into(), k.into(), v.into()], results.into())
    }

    #[cfg(feature = "attention_decode")]
    /// Computes O for a chunk of new queries of each sequence against a cache that holds their keys and values already (chunked prefill). Q is
    /// (batch, queries, heads, dim), O (batch, queries, heads, dim of V). The kernel reads lengths and pages on the device. The last query is
    /// aligned with the last key. For a few queries [`decode`](Attention::decode) is faster. A length counts as the capacity of the cache if it exceeds it, and as 0 if it is negative.
    ///
    /// # Errors
    /// As [`forward`](Attention::forward), and with cumulative lengths or factors of the cache. A sequence has fewer than 2^29 tokens.
    pub fn prefill<'a>(
        &self,
        stream: impl AsStream,
        q: impl IntoTensor<'a, T, 4>,
        cache: &KvCache<'_, T>,
        results: impl Into<Results<'a, T>>,
    ) -> Result<()> {
        self.refuse_descale()?;
        let (inputs, results) = ([q.into(), cache.k, cache.v], results.into());
        let [q, k, v] = [("Q", 0), ("K", 1), ("V", 2)].map(|(name, at)| Rows::of(name, &inputs[at], self.layout));
        let (batch, [pages, page_size, ..]) = (q.shape[0], k.shape);
        let capacity = cache.places.check(batch, k.shape)?;
        if self.lengths.is_some() || cache.places.scales.is_some() {
            return Err(refuse(
                "cumulative lengths, or factors of a cache".into(),
                "sequences of as many queries each",
            ));
        }
        let [keys, values] = [&k, &v].map(|rows| rows.of_sequences(batch, capacity as usize));
        v.check_shape([pages, page_size, k.shape[2], v.shape[3]])?;
        let mut problem = Problem::new(self, &q, &keys, &values)?;
        problem.set_cache(&k, &v);
        problem.set_out(&q, &Rows::of_mut("the output", &results.out, self.layout))?;
        if let Some(lse) = &results.lse {
            problem.set_lse(&q, lse.shape(), lse.strides())?;
        }
        let is_empty = batch == 0 || capacity == 0;
        let cached = Paging {
            cached: 1,
            page_size: page_size as u32,
            pages: pages as u32,
            table_pages: cache.places.table_pages(),
            heads_k: k.shape[2] as u32,
        };
        let paging = if is_empty { Paging::none(&problem) } else { cached };
        T::forward(stream.as_stream(), self, inputs, results, (problem, paging, Some(cache.places)))
    }

    #[cfg(feature = "attention_backward")]
    /// Computes the gradients of Q, K and V. The bias has no gradient. On Hopper, parts of dQ are added atomically, so that the last
    /// bits can differ from run to run, unless the options are [`deterministic`](Attention::deterministic).
    ///
    /// It takes 8 bytes of scratch memory for each query of each head, from `workspace` or, without one, from the pool of the stream
    /// ([`workspace`](crate::workspace)). On Hopper, queries are whole tiles of 64 or 128, and each takes 4 bytes more for each of 64, 128
    /// or 256 elements.
    ///
    /// With ε = 2⁻⁸ for `bf16` and 2⁻¹¹ for `f16`: P and dS are rounded to ε before they are multiplied, and delta is made of the
    /// rounded output. So an element of dV differs by at most ε · (|dV| + Σ P · |dO|), one of dQ by about
    /// ε · (|dQ| + scale · Σ (|dS| + P · Σ |dO| · |O|) · |K|), and dK likewise.
    ///
    /// # Errors
    /// As [`forward`](Attention::forward), and those of the pool.
    pub fn backward(
        &self,
        stream: impl AsStream,
        saved: &Saved<'_, T>,
        grads: Grads<'_, T>,
        workspace: Option<&mut Workspace>,
    ) -> Result<()> {
        self.refuse_descale()?;
        let of = |name, tensor| Rows::of(name, tensor, self.layout);
        let of_mut = |name, tensor| Rows::of_mut(name, tensor, self.layout);
        let (q, k, v) = (of("Q", &saved.q), of("K", &saved.k), of("V", &saved.v));
        let mut problem = Problem::new(self, &q, &k, &v)?;
        problem.set_out(&q, &of("the output", &saved.out))?;
        problem.set_lse(&q, saved.lse.shape(), saved.lse.strides())?;
        let out_grad = of("the gradient of the output", &saved.out_grad);
        let results = [
            of_mut("the gradient of Q", &grads.q),
            of_mut("the gradient of K", &grads.k),
            of_mut("the gradient of V", &grads.v),
        ];
        let [q_grad, k_grad, v_grad] = &results;
        let all = [&out_grad, q_grad, k_grad, v_grad];
        let mut gradients = Gradients::new(&problem, [&q, &k, &v], all, self.factor(q.shape[3]))?;
        let stream = stream.as_stream();
        let plan = hopper::backward::plan(stream, self, saved, &problem)?;
        if let Some(plan) = &plan {
            gradients.scratch = plan.scratch(&problem);
        }
        workspace::with(stream, workspace, gradients.scratch as usize, |workspace| {
            let plan = backward::Plan { hopper: plan, problem, gradients };
            T::backward(stream, self, saved, grads, workspace.scratch(), plan)
        })
    }

    fn run<I: Input<T>>(
        &self,
        stream: StreamRef<'_>,
        inputs: [TensorRef<'_, I, 4>; 3],
        results: Results<'_, T>,
    ) -> Result<()> {
        let [q, k, v] = [("Q", 0), ("K", 1), ("V", 2)].map(|(name, at)| Rows::of(name, &inputs[at], self.layout));
        let mut problem = Problem::new(self, &q, &k, &v)?;
        problem.set_out(&q, &Rows::of_mut("the output", &results.out, self.layout))?;
        if let Some(lse) = &results.lse {
            problem.set_lse(&q, lse.shape(), lse.strides())?;
        }
        I::attend(stream, self, inputs, results, problem)
    }
}
