//! Attention to caches of keys and values, and what writes them. Frameworks pass caches of e4m3 as bytes.

use crate::attention::{Scores, no_cast};
use ptx_ffi::Dtype;
use ptx_ffi::prelude::*;
use ptx_kernels::attention::{Attention, Cached, Element, KvCache, KvCacheMut, LatentCache, Layout};
use ptx_kernels::float8::E4m3;

/// An element type of caches as frameworks pass it, for queries of type `T`.
trait Passed<T>: Dtype {
    /// The elements that they are.
    type Element: Cached<T> + KernelParam;
}

impl Passed<bf16> for bf16 {
    type Element = bf16;
}

impl Passed<f16> for f16 {
    type Element = f16;
}

impl<T> Passed<T> for u8
where
    E4m3: Cached<T>,
{
    type Element = E4m3;
}

/// Factors of K and V, both or none.
type Scales<'a> = Option<(TensorRef<'a, f32, 1>, TensorRef<'a, f32, 1>)>;

fn scales<'a>(k: Option<TensorRef<'a, f32, 1>>, v: Option<TensorRef<'a, f32, 1>>) -> Result<Scales<'a>> {
    match (k, v) {
        (Some(k), Some(v)) => Ok(Some((k, v))),
        (None, None) => Ok(None),
        _ => Err(Error::new(ErrorKind::Condition, "k_scale and v_scale: expected both or none, found one")),
    }
}

/// Attention of 1 to 16 new queries of each sequence to a cache that holds their keys and values already.
#[ptx_ffi::export(
    types = [(bf16, bf16), (f16, f16), (bf16, u8), (f16, u8)],
    shapes(
        q = [b, s, h, d], k_cache = [_, _, g, d], v_cache = [_, _, g, e], lengths = [b], block_table = [b, _],
        k_scale = [g], v_scale = [g], out = [b, s, h, e], lse = [b, h, s]
    ),
    parallel(h / g),
    defaults(causal = true, soft_cap = 0.0)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_decode<T: Element, K: Passed<T>>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k_cache: TensorRef<'_, K, 4>,
    v_cache: TensorRef<'_, K, 4>,
    lengths: TensorRef<'_, i32, 1>,
    block_table: Option<TensorRef<'_, i32, 2>>,
    k_scale: Option<TensorRef<'_, f32, 1>>,
    v_scale: Option<TensorRef<'_, f32, 1>>,
    out: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
    window_left: Option<u32>,
    window_right: Option<u32>,
) -> Result<()> {
    let [Some(k), Some(v)] = [k_cache, v_cache].map(TensorRef::cast::<K::Element>) else { return Err(no_cast()) };
    let cache = block_table.into_iter().fold(KvCache::new(k, v, lengths), KvCache::paged);
    let cache = scales(k_scale, v_scale)?.into_iter().fold(cache, |cache, (k, v)| cache.scales(k, v));
    let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
    scores.attention(Layout::Bshd).decode(stream, q, &cache, out, lse, None)
}

/// Attention of a chunk of new queries of each sequence to a cache that holds their keys and values already.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(
        q = [b, s, h, d], k_cache = [_, _, g, d], v_cache = [_, _, g, e], lengths = [b], block_table = [b, _],
        out = [b, s, h, e], lse = [b, h, s]
    ),
    parallel(h / g),
    defaults(causal = true, soft_cap = 0.0)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_prefill<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    k_cache: TensorRef<'_, T, 4>,
    v_cache: TensorRef<'_, T, 4>,
    lengths: TensorRef<'_, i32, 1>,
    block_table: Option<TensorRef<'_, i32, 2>>,
    out: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
    causal: bool,
    scale: Option<f32>,
    soft_cap: f32,
    window_left: Option<u32>,
    window_right: Option<u32>,
) -> Result<()> {
    let cache = block_table.into_iter().fold(KvCache::new(k_cache, v_cache, lengths), KvCache::paged);
    let scores = Scores { causal, scale, soft_cap, window: [window_left, window_right] };
    scores.attention(Layout::Bshd).prefill(stream, q, &cache, out, lse)
}

/// Attention of 1 to 16 new queries of each sequence to a cache of latent attention, whose rows are keys and begin with the values.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(q = [b, s, h, d], cache = [_, _, 1, d], lengths = [b], block_table = [b, _], out = [b, s, h, _], lse = [b, h, s]),
    parallel(h),
    defaults(causal = true)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_decode_latent<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    cache: TensorRef<'_, T, 4>,
    lengths: TensorRef<'_, i32, 1>,
    block_table: Option<TensorRef<'_, i32, 2>>,
    out: TensorMut<'_, T, 4>,
    lse: Option<TensorMut<'_, f32, 3>>,
    causal: bool,
    scale: Option<f32>,
) -> Result<()> {
    let cache = block_table.into_iter().fold(LatentCache::new(cache, lengths), LatentCache::paged);
    let scores = Scores { causal, scale, soft_cap: 0.0, window: [None; 2] };
    scores.attention(Layout::Bshd).decode_latent(stream, q, &cache, out, lse, None)
}

/// Writes new keys and values to the places of the last tokens of each sequence.
#[ptx_ffi::export(
    types = [(bf16, bf16), (f16, f16), (bf16, u8), (f16, u8)],
    shapes(
        k = [b, s, g, d], v = [b, s, g, e], lengths = [b], block_table = [b, _], k_scale = [g], v_scale = [g],
        k_cache = [_, _, g, d], v_cache = [_, _, g, e]
    ),
    parallel(g)
)]
#[allow(clippy::too_many_arguments, reason = "the parameters of the operation")]
fn attention_append<T: Element, K: Passed<T>>(
    stream: &Stream,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    lengths: TensorRef<'_, i32, 1>,
    block_table: Option<TensorRef<'_, i32, 2>>,
    k_scale: Option<TensorRef<'_, f32, 1>>,
    v_scale: Option<TensorRef<'_, f32, 1>>,
    k_cache: TensorMut<'_, K, 4>,
    v_cache: TensorMut<'_, K, 4>,
) -> Result<()> {
    let caches = [k_cache, v_cache].map(TensorMut::cast::<K::Element>);
    let [Some(k_cache), Some(v_cache)] = caches else { return Err(no_cast()) };
    let cache = block_table.into_iter().fold(KvCacheMut::new(k_cache, v_cache, lengths), KvCacheMut::paged);
    let cache = scales(k_scale, v_scale)?.into_iter().fold(cache, |cache, (k, v)| cache.scales(k, v));
    Attention::new().append(stream, k, v, cache)
}
