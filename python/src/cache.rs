//! Attention to caches of keys and values, and what writes them. Frameworks pass caches of e4m3 as bytes.

use crate::attention::{Results, Scores, no_cast};
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

/// The keys of each sequence, and its pages.
#[derive(ptx_ffi::Args)]
struct Places<'a> {
    lengths: TensorRef<'a, i32, 1>,
    block_table: Option<TensorRef<'a, i32, 2>>,
}

/// A cache that attention reads.
#[derive(ptx_ffi::Args)]
struct Cache<'a, K> {
    k_cache: TensorRef<'a, K, 4>,
    v_cache: TensorRef<'a, K, 4>,
    places: Places<'a>,
}

/// A cache that new tokens are written to.
#[derive(ptx_ffi::Args)]
struct CacheMut<'a, K> {
    k_cache: TensorMut<'a, K, 4>,
    v_cache: TensorMut<'a, K, 4>,
}

/// A cache of latent attention.
#[derive(ptx_ffi::Args)]
struct Latent<'a, T> {
    cache: TensorRef<'a, T, 4>,
    places: Places<'a>,
}

/// Factors of K and V, both or none.
#[derive(ptx_ffi::Args)]
struct Scales<'a> {
    k_scale: Option<TensorRef<'a, f32, 1>>,
    v_scale: Option<TensorRef<'a, f32, 1>>,
}

impl<'a> Scales<'a> {
    fn both(self) -> Result<Option<[TensorRef<'a, f32, 1>; 2]>> {
        match (self.k_scale, self.v_scale) {
            (Some(k), Some(v)) => Ok(Some([k, v])),
            (None, None) => Ok(None),
            _ => Err(Error::new(ErrorKind::Condition, "k_scale and v_scale: expected both or none, found one")),
        }
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
fn attention_decode<T: Element, K: Passed<T>>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    Cache { k_cache, v_cache, places }: Cache<'_, K>,
    scales: Scales<'_>,
    results: Results<'_, T>,
    scores: Scores,
) -> Result<()> {
    let [Some(k), Some(v)] = [k_cache, v_cache].map(TensorRef::cast::<K::Element>) else { return Err(no_cast()) };
    let cache = places.block_table.into_iter().fold(KvCache::new(k, v, places.lengths), KvCache::paged);
    let cache = scales.both()?.into_iter().fold(cache, |cache, [k, v]| cache.scales(k, v));
    scores.attention(Layout::Bshd).decode(stream, q, &cache, results, None)
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
fn attention_prefill<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    Cache { k_cache, v_cache, places }: Cache<'_, T>,
    results: Results<'_, T>,
    scores: Scores,
) -> Result<()> {
    let cache = KvCache::new(k_cache, v_cache, places.lengths);
    let cache = places.block_table.into_iter().fold(cache, KvCache::paged);
    scores.attention(Layout::Bshd).prefill(stream, q, &cache, results)
}

/// Attention of 1 to 16 new queries of each sequence to a cache of latent attention, whose rows are keys and begin with the values.
#[ptx_ffi::export(
    types = [bf16, f16],
    shapes(q = [b, s, h, d], cache = [_, _, 1, d], lengths = [b], block_table = [b, _], out = [b, s, h, _], lse = [b, h, s]),
    parallel(h),
    defaults(causal = true)
)]
fn attention_decode_latent<T: Element>(
    stream: &Stream,
    q: TensorRef<'_, T, 4>,
    Latent { cache, places }: Latent<'_, T>,
    results: Results<'_, T>,
    causal: bool,
    scale: Option<f32>,
) -> Result<()> {
    let cache = places.block_table.into_iter().fold(LatentCache::new(cache, places.lengths), LatentCache::paged);
    let scores = Scores { causal, scale, soft_cap: 0.0, window_left: None, window_right: None };
    scores.attention(Layout::Bshd).decode_latent(stream, q, &cache, results, None)
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
fn attention_append<T: Element, K: Passed<T>>(
    stream: &Stream,
    k: TensorRef<'_, T, 4>,
    v: TensorRef<'_, T, 4>,
    Places { lengths, block_table }: Places<'_>,
    scales: Scales<'_>,
    CacheMut { k_cache, v_cache }: CacheMut<'_, K>,
) -> Result<()> {
    let caches = [k_cache, v_cache].map(TensorMut::cast::<K::Element>);
    let [Some(k_cache), Some(v_cache)] = caches else { return Err(no_cast()) };
    let cache = block_table.into_iter().fold(KvCacheMut::new(k_cache, v_cache, lengths), KvCacheMut::paged);
    let cache = scales.both()?.into_iter().fold(cache, |cache, [k, v]| cache.scales(k, v));
    Attention::new().append(stream, k, v, cache)
}
