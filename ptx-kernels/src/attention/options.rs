//! The options of an attention, by the names of the literature.

use super::problem::refuse;
use ptx_launch::{IntoTensor, Result, TensorRef};

/// Scales and soft caps: their quotients and products are normal numbers.
const FACTORS: std::ops::RangeInclusive<f32> = 1e-18..=1e18;

/// Attention with options: O = softmax(S) · V for every query head of every sequence.
///
/// S(i, j) = cap · tanh(scale · q(i) · k(j) / cap) + bias(i, j) where query i sees key j, else minus infinity; without a soft
/// cap and a bias, S = scale · Q · Kᵀ. A query that sees no key has a row of zeros, and minus infinity for the logarithm of
/// its sum. Heads of Q may share those of K and V (grouped-query and multi-query attention): head h of Q sees head
/// h / (heads of Q / heads of K) of K and V.
///
/// ```
/// use ptx_kernels::attention::Attention;
/// use ptx_launch::prelude::*;
///
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let q = device.upload(&[bf16::ONE; 5 * 2 * 64])?; // 5 tokens, 2 heads
/// let k = device.upload(&[bf16::ONE; 5 * 64])?; // one head of K and V, which both heads of Q share
/// let v = device.upload(&[bf16::ONE; 5 * 64])?;
/// let mut out = device.zeros::<bf16>(5 * 2 * 64)?;
/// Attention::new().causal().window(Some(2), Some(0)).soft_cap(30.0).forward(
///     &device,
///     q.tile([1, 5, 2, 64])?,
///     k.tile([1, 5, 1, 64])?,
///     v.tile([1, 5, 1, 64])?,
///     out.tile_mut([1, 5, 2, 64])?,
/// )?;
/// assert_eq!(out.download()?, [bf16::ONE; 5 * 2 * 64]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a, T> {
    pub(super) layout: Layout,
    pub(super) left: Option<u32>,
    pub(super) right: Option<u32>,
    pub(super) top_left: bool,
    pub(super) scale: Option<f32>,
    pub(super) soft_cap: f32,
    pub(super) bias: Option<TensorRef<'a, T, 4>>,
    pub(super) lengths: Option<Lengths<'a>>,
    pub(super) portable: bool,
    pub(super) deterministic: bool,
    pub(super) descale: Descale<'a>,
}

/// The order of the dimensions of Q, K, V, the output, and their gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// (batch, tokens, heads, elements), as in FlashAttention.
    #[default]
    Bshd,
    /// (batch, heads, tokens, elements), as in PyTorch's `scaled_dot_product_attention`.
    Bhsd,
}

/// The factors of Q, K and V, each (sequences, heads of K).
pub(super) type Descale<'a> = [Option<TensorRef<'a, f32, 2>>; 3];

/// Cumulative lengths of packed sequences.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths<'a> {
    pub starts_q: TensorRef<'a, i32, 1>,
    pub starts_k: TensorRef<'a, i32, 1>,
    pub longest_q: u32,
    pub longest_k: u32,
}

impl Layout {
    /// Four values in the order batch, token, head, element.
    pub(super) fn order(self, [batch, second, third, element]: [usize; 4]) -> [usize; 4] {
        match self {
            Layout::Bshd => [batch, second, third, element],
            Layout::Bhsd => [batch, third, second, element],
        }
    }
}

impl<T> Default for Attention<'_, T> {
    fn default() -> Self {
        Attention {
            layout: Layout::Bshd,
            left: None,
            right: None,
            top_left: false,
            scale: None,
            soft_cap: 0.0,
            bias: None,
            lengths: None,
            portable: false,
            deterministic: false,
            descale: [None; 3],
        }
    }
}

impl<'a, T> Attention<'a, T> {
    /// Every query sees every key; the scale is 1 / √dim.
    pub fn new() -> Self {
        Attention::default()
    }

    /// The factor of the scores, for rows of `dim` elements.
    pub(super) fn factor(&self, dim: usize) -> f32 {
        self.scale.unwrap_or(1.0 / (dim as f32).sqrt())
    }

    /// The factor of the scores before the soft cap and the bias, the cap, and log2(e) times the factor that is left for the
    /// softmax: all of it, unless something else is done to the scores first.
    pub(super) fn factors(&self, dim: usize) -> Result<(f32, f32, f32)> {
        let (scale, cap, log2_e) = (self.factor(dim), self.soft_cap, std::f32::consts::LOG2_E);
        if !FACTORS.contains(&scale) || !(cap == 0.0 || FACTORS.contains(&cap)) {
            let found = format!("the scale is {scale}, the soft cap {cap}");
            return Err(refuse(found, "a scale from 1e-18 to 1e18, and such a soft cap or, for none, 0"));
        }
        Ok(match (cap > 0.0, self.bias.is_some()) {
            (true, _) => (scale / cap, cap, log2_e),
            (false, true) => (scale, 0.0, log2_e),
            (false, false) => (1.0, 0.0, scale * log2_e),
        })
    }

    /// Refuses factors: elements of 16 bits have none.
    pub(super) fn refuse_descale(&self) -> Result<()> {
        if self.descale.iter().all(Option::is_none) {
            return Ok(());
        }
        Err(refuse(
            "factors of Q, K or V".into(),
            "them for the forward pass of `E4m3`; `KvCache::scales` has those of a cache",
        ))
    }

    /// The order of dimensions.
    #[must_use]
    pub fn layout(self, layout: Layout) -> Self {
        Attention { layout, ..self }
    }

    /// A query sees no key behind its own. The last query is aligned with the last key, as in FlashAttention: query i of m
    /// sees key j of n if j <= i + n - m.
    #[must_use]
    pub fn causal(self) -> Self {
        Attention { right: Some(0), ..self }
    }

    /// A query sees `left` keys in front of its own and `right` keys behind it, and all of them where that is `None`. Its own
    /// key is that of `causal`.
    #[must_use]
    pub fn window(self, left: Option<u32>, right: Option<u32>) -> Self {
        Attention { left, right, ..self }
    }

    /// Query i's own key is key i, and not the one that is as far from the end.
    #[must_use]
    pub fn top_left(self) -> Self {
        Attention { top_left: true, ..self }
    }

    /// The factor of the scores, from 1e-18 to 1e18.
    #[must_use]
    pub fn scale(self, scale: f32) -> Self {
        Attention { scale: Some(scale), ..self }
    }

    /// Uses the kernels for `sm_80` and newer on every device, also where there are faster ones.
    #[must_use]
    pub fn portable(self) -> Self {
        Attention { portable: true, ..self }
    }

    /// The backward pass has the same result each time. Without this option it may add in any order, which is faster.
    #[must_use]
    pub fn deterministic(self) -> Self {
        Attention { deterministic: true, ..self }
    }

    /// Factors of a Q of [`E4m3`](crate::float8::E4m3), positive: (sequences, heads of K), one for all heads of Q that share a head of K. An element
    /// of Q is the tensor's times its factor. A stride of 0 repeats a factor: `TensorRef::strided`. Without factors they are 1.
    #[must_use]
    pub fn q_descale(mut self, factors: impl IntoTensor<'a, f32, 2>) -> Self {
        self.descale[0] = Some(factors.into());
        self
    }

    /// The same for K: (sequences, heads).
    #[must_use]
    pub fn k_descale(mut self, factors: impl IntoTensor<'a, f32, 2>) -> Self {
        self.descale[1] = Some(factors.into());
        self
    }

    /// The same for V, of any sign.
    #[must_use]
    pub fn v_descale(mut self, factors: impl IntoTensor<'a, f32, 2>) -> Self {
        self.descale[2] = Some(factors.into());
        self
    }

    /// Scores become cap · tanh(score / cap), before a bias is added, with a cap from 1e-18 to 1e18. 0 is no cap.
    #[must_use]
    pub fn soft_cap(self, cap: f32) -> Self {
        Attention { soft_cap: cap, ..self }
    }

    /// A bias of shape (batch, heads, queries, keys), which is added to the scores. A stride of 0 repeats one; minus infinity
    /// hides a key. With cumulative lengths, queries and keys are those of the longest sequences.
    #[must_use]
    pub fn bias(self, bias: impl IntoTensor<'a, T, 4>) -> Self {
        Attention { bias: Some(bias.into()), ..self }
    }

    /// Sequences of different lengths, packed: the tensors have a batch of 1, and sequence b has the tokens from `starts[b]` to
    /// `starts[b + 1]`, of Q by `starts_q` and of K and V by `starts_k`; both lie on the device. `longest_q` and `longest_k`
    /// are lengths that no sequence exceeds: tokens behind them count as absent. Numbers that lead out of the tensors are cut off, and a
    /// sequence whose end lies before its beginning is empty. Rows of several sequences have the results of any of them.
    #[must_use]
    pub fn lengths(
        self,
        starts_q: impl IntoTensor<'a, i32, 1>,
        starts_k: impl IntoTensor<'a, i32, 1>,
        longest_q: u32,
        longest_k: u32,
    ) -> Self {
        let (starts_q, starts_k) = (starts_q.into(), starts_k.into());
        Attention { lengths: Some(Lengths { starts_q, starts_k, longest_q, longest_k }), ..self }
    }
}
