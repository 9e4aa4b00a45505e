//! Decode: few queries against a cache of keys and values.
#![allow(unsafe_code, reason = "a launch with tensor maps is vouched for here")]

mod append;
mod hopper;
mod kernel;
mod latent;
mod problem;
mod tma;
mod walk;

pub(super) use append::kernels::MODULE as APPEND;
pub(super) use hopper::kernels::MODULE as HOPPER_LATENT;
pub(super) use kernel::kernels::{MODULE, decode as entry};
pub(super) use latent::kernels::MODULE as LATENT;
pub use problem::DecodeProblem;
pub(super) use tma::kernels::MODULE as TMA;

use append::AppendProblem;
use append::kernels::append as appending;
use hopper::kernels::latent as hopper_entry;
use latent::kernels::latent as latent_entry;
use problem::Grain;
use tma::kernels::decode as tma_entry;

use super::hopper::takes_operands;
use super::options::Attention;
use super::places::Places;
use super::problem::{Rows, refuse};
use super::types::{Element, Results};
use crate::float8::E4m3;
use crate::workspace::{self, FLAGS, Workspace};
use half::{bf16, f16};
use ptx_launch::{AsStream, Buffer, Error, IntoTensor, IntoTensorMut, Result, StreamRef, TensorMut, TensorRef};

/// A cache of keys and values on the device.
///
/// Without pages, K and V have the shapes (batch, capacity, heads, dim) and (batch, capacity, heads, dim of V). With a table of
/// pages they are (pages, page size, heads, …), and token t of sequence b lies in page `table[b][t / page size]`. The kernel reads
/// `lengths`, the number of keys of each sequence, on the device, so that a captured graph serves every step.
#[derive(Clone, Copy, Debug)]
pub struct KvCache<'a, K> {
    pub(super) k: TensorRef<'a, K, 4>,
    pub(super) v: TensorRef<'a, K, 4>,
    pub(super) places: Places<'a>,
}

impl<'a, K> KvCache<'a, K> {
    /// A cache with a row of the batch for each sequence. `lengths` count the keys of each, new ones included.
    pub fn new(
        k: impl IntoTensor<'a, K, 4>,
        v: impl IntoTensor<'a, K, 4>,
        lengths: impl IntoTensor<'a, i32, 1>,
    ) -> Self {
        KvCache { k: k.into(), v: v.into(), places: Places::new(lengths.into()) }
    }

    /// The pages of each sequence, (batch, pages of a sequence): numbers of pages of K and V. Pages may have any size.
    #[must_use]
    pub fn paged(self, table: impl IntoTensor<'a, i32, 2>) -> Self {
        KvCache { places: self.places.paged(table.into()), ..self }
    }

    /// Factors of K and V, one for each head of the cache: an element of K is the cache's times `k[head]`.
    #[must_use]
    pub fn scales(self, k: impl IntoTensor<'a, f32, 1>, v: impl IntoTensor<'a, f32, 1>) -> Self {
        KvCache { places: Places { scales: Some([k.into(), v.into()]), ..self.places }, ..self }
    }
}

/// A cache that is written; shapes are those of [`KvCache`].
#[derive(Debug)]
pub struct KvCacheMut<'a, K> {
    k: TensorMut<'a, K, 4>,
    v: TensorMut<'a, K, 4>,
    places: Places<'a>,
}

impl<'a, K> KvCacheMut<'a, K> {
    /// As [`KvCache::new`].
    pub fn new(
        k: impl IntoTensorMut<'a, K, 4>,
        v: impl IntoTensorMut<'a, K, 4>,
        lengths: impl IntoTensor<'a, i32, 1>,
    ) -> Self {
        KvCacheMut { k: k.into(), v: v.into(), places: Places::new(lengths.into()) }
    }

    /// As [`KvCache::paged`].
    #[must_use]
    pub fn paged(self, table: impl IntoTensor<'a, i32, 2>) -> Self {
        KvCacheMut { places: self.places.paged(table.into()), ..self }
    }

    /// As [`KvCache::scales`]: an element of the cache is that of K divided by `k[head]`, rounded.
    #[must_use]
    pub fn scales(self, k: impl IntoTensor<'a, f32, 1>, v: impl IntoTensor<'a, f32, 1>) -> Self {
        KvCacheMut { places: Places { scales: Some([k.into(), v.into()]), ..self.places }, ..self }
    }
}

/// A cache of latent attention (MLA): one row for each token, which is K, and whose first elements are V.
///
/// Without pages its shape is (batch, capacity, 1, dim), with a table of pages (pages, page size, 1, dim), as in [`KvCache`].
#[derive(Clone, Copy, Debug)]
pub struct LatentCache<'a, T> {
    rows: TensorRef<'a, T, 4>,
    places: Places<'a>,
}

impl<'a, T> LatentCache<'a, T> {
    /// As [`KvCache::new`].
    pub fn new(rows: impl IntoTensor<'a, T, 4>, lengths: impl IntoTensor<'a, i32, 1>) -> Self {
        LatentCache { rows: rows.into(), places: Places::new(lengths.into()) }
    }

    /// As [`KvCache::paged`].
    #[must_use]
    pub fn paged(self, table: impl IntoTensor<'a, i32, 2>) -> Self {
        LatentCache { places: self.places.paged(table.into()), ..self }
    }
}

impl<T: Element> Attention<'_, T> {
    /// Writes new rows of K and V, (batch, new tokens, heads, dim), to the places of the last tokens of each sequence: `lengths` count them
    /// already. The kernel reads lengths and pages on the device, so that a captured graph serves every step. A token that the cache has no
    /// place for is left out. A page with new tokens belongs to one sequence alone, and the rows of a cache do not overlap. A cache of [`E4m3`] takes each element divided by the factor of its head, rounded to the nearest, at most ±448.
    ///
    /// ```
    /// use ptx_kernels::attention::{Attention, KvCache, KvCacheMut};
    /// use ptx_launch::prelude::*;
    ///
    /// # fn main() -> ptx_launch::Result<()> {
    /// let device = Device::cpu();
    /// let (mut k, mut v) = (device.zeros::<bf16>(4 * 64)?, device.zeros::<bf16>(4 * 64)?); // one head, 4 tokens
    /// let lengths = device.upload(&[1])?;
    /// let new = device.upload(&[bf16::ONE; 64])?;
    /// let (row, shape) = ([1, 1, 1, 64], [1, 4, 1, 64]);
    /// let cache = KvCacheMut::new(k.tile_mut(shape)?, v.tile_mut(shape)?, lengths.tile([1])?);
    /// Attention::new().append(&device, new.tile(row)?, new.tile(row)?, cache)?;
    /// let cache = KvCache::new(k.tile(shape)?, v.tile(shape)?, lengths.tile([1])?);
    /// let mut out = device.zeros::<bf16>(64)?;
    /// Attention::new().decode(&device, new.tile(row)?, &cache, out.tile_mut(row)?, None)?;
    /// assert_eq!(out.download()?, [bf16::ONE; 64]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, and as every launch.
    pub fn append<'a, K: Cached<T>>(
        &self,
        stream: impl AsStream,
        k: impl IntoTensor<'a, T, 4>,
        v: impl IntoTensor<'a, T, 4>,
        cache: KvCacheMut<'_, K>,
    ) -> Result<()> {
        let (k, v) = (k.into(), v.into());
        let rows = [Rows::of("K", &k, self.layout), Rows::of("V", &v, self.layout)];
        let caches = [
            Rows::of_mut("the cache of K", &cache.k, self.layout),
            Rows::of_mut("the cache of V", &cache.v, self.layout),
        ];
        let problem = AppendProblem::new(rows.each_ref(), caches.each_ref(), &cache.places)?;
        if problem.is_empty() {
            return Ok(());
        }
        K::append(stream.as_stream(), [k, v], cache, problem)
    }

    /// Computes O for 1 to 16 new queries of each sequence against a cache that holds their keys and values already. Q is (batch,
    /// queries, heads, dim), O (batch, queries, heads, dim of V). The last query is aligned with the last key; `causal` hides
    /// from each query the keys of later ones.
    ///
    /// The cache has Q's type or [`E4m3`](crate::float8::E4m3); with the latter, products are those of `f16`, so that Q must be in its range.
    ///
    /// Every block reads an equal number of keys, and the last block of a head adds up the parts, in the same launch. That takes
    /// scratch memory from `workspace`, or from the pool of the stream ([`workspace`](crate::workspace)). The order of sums depends on
    /// the number of multiprocessors, and not on the order in which blocks end. A length counts as the capacity of the cache if it exceeds it, and as 0 if
    /// it is negative; a number of a page that leads out of the cache as the last page.
    ///
    /// On Hopper, TMA copies a cache whose rows of K and V have 64, 128 or 256 elements and strides other than 0, if pages have an even number of tokens. With
    /// [`E4m3`](crate::float8::E4m3) rows have 128 or 256 elements, and pages a multiple of 4 tokens. Other calls, and those with
    /// [`portable`](Attention::portable), take the kernel of other chips.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`](ptx_launch::ErrorKind::Condition) if shapes do not fit, or with a bias, cumulative lengths or
    /// [`top_left`](Attention::top_left); and as every launch. A sequence has fewer than 2^29 tokens.
    pub fn decode<'a, K: Cached<T>>(
        &self,
        stream: impl AsStream,
        q: impl IntoTensor<'a, T, 4>,
        cache: &KvCache<'_, K>,
        results: impl Into<Results<'a, T>>,
        workspace: Option<&mut Workspace>,
    ) -> Result<()> {
        let (q, results, stream) = (q.into(), results.into(), stream.as_stream());
        let rows = [
            &Rows::of("Q", &q, self.layout),
            &Rows::of("the cache of K", &cache.k, self.layout),
            &Rows::of("the cache of V", &cache.v, self.layout),
            &Rows::of_mut("the output", &results.out, self.layout),
        ];
        let mut problem = DecodeProblem::new(self, rows, &cache.places, [256; 2])?;
        if let Some(lse) = &results.lse {
            problem.set_lse(lse.shape(), lse.strides())?;
        }
        if problem.is_empty() {
            return Ok(());
        }
        let mapped = takes_operands(stream, self, &[cache.k, cache.v])?;
        let kernel = K::select(&problem, mapped);
        problem.divide(stream.properties()?.multiprocessors, FLAGS, kernel.grain())?;
        workspace::with(stream, workspace, problem.scratch as usize, |workspace| {
            K::decode(stream, Plan { kernel, problem }, q, cache, results, workspace.parts())
        })
    }

    /// The same for latent attention (MLA), with the projections of K and V absorbed into Q and the output: rows of Q and the cache of up to
    /// 576 elements, of which the first ones, up to 512, are V. All heads share the cache. The scale is 1 / √dim unless
    /// [`scale`](Attention::scale) gives it: that of the heads before the absorption.
    ///
    /// ```
    /// use ptx_kernels::attention::{Attention, LatentCache};
    /// use ptx_launch::prelude::*;
    ///
    /// # fn main() -> ptx_launch::Result<()> {
    /// let device = Device::cpu();
    /// let rows = device.upload(&[bf16::ONE; 3 * 576])?; // 3 tokens
    /// let (q, lengths) = (device.upload(&[bf16::ONE; 16 * 576])?, device.upload(&[3])?); // 16 heads
    /// let mut out = device.zeros::<bf16>(16 * 512)?;
    /// let cache = LatentCache::new(rows.tile([1, 3, 1, 576])?, lengths.tile([1])?);
    /// let attention = Attention::new().scale(192f32.sqrt().recip());
    /// attention.decode_latent(&device, q.tile([1, 1, 16, 576])?, &cache, out.tile_mut([1, 1, 16, 512])?, None)?;
    /// assert_eq!(out.download()?, [bf16::ONE; 16 * 512]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`decode`](Attention::decode).
    pub fn decode_latent<'a>(
        &self,
        stream: impl AsStream,
        q: impl IntoTensor<'a, T, 4>,
        cache: &LatentCache<'_, T>,
        results: impl Into<Results<'a, T>>,
        workspace: Option<&mut Workspace>,
    ) -> Result<()> {
        let (q, results, stream) = (q.into(), results.into(), stream.as_stream());
        let rows = Rows::of("the cache", &cache.rows, self.layout);
        let out_rows = Rows::of_mut("the output", &results.out, self.layout);
        let values = rows.first(out_rows.shape[3]);
        let all = [&Rows::of("Q", &q, self.layout), &rows, &values, &out_rows];
        let mut problem = DecodeProblem::new(self, all, &cache.places, [576, 512])?;
        if rows.shape[2] != 1 {
            return Err(refuse(
                format!("the cache has {} heads", rows.shape[2]),
                "one head, which all heads of Q share",
            ));
        }
        if let Some(lse) = &results.lse {
            problem.set_lse(lse.shape(), lse.strides())?;
        }
        if problem.is_empty() {
            return Ok(());
        }
        let properties = stream.properties()?;
        let kernel = LatentKernel::select(self.portable, properties.capability);
        problem.divide(properties.multiprocessors, FLAGS / 2, kernel.grain())?;
        workspace::with(stream, workspace, problem.scratch as usize, |workspace| {
            T::decode_latent(stream, Plan { kernel, problem }, q, cache, results, workspace.parts())
        })
    }
}

/// A kernel, and the shapes of the call that it takes.
#[derive(Debug)]
pub struct Plan<K> {
    kernel: K,
    problem: DecodeProblem,
}

/// The elements of a cache for queries of type `T`: `T` itself, or [`E4m3`].
pub trait Cached<T>: Copy + 'static {
    /// The kernel for a call; `mapped` if tensor maps can describe the cache, on a chip that has them.
    #[doc(hidden)]
    fn select(problem: &DecodeProblem, mapped: bool) -> DecodeKernel;

    #[doc(hidden)]
    fn decode(
        stream: StreamRef<'_>,
        plan: Plan<DecodeKernel>,
        q: TensorRef<'_, T, 4>,
        cache: &KvCache<'_, Self>,
        results: Results<'_, T>,
        memory: (&mut Buffer<u8>, &mut Buffer<u32>),
    ) -> Result<()>;

    #[doc(hidden)]
    fn append(
        stream: StreamRef<'_>,
        rows: [TensorRef<'_, T, 4>; 2],
        cache: KvCacheMut<'_, Self>,
        problem: AppendProblem,
    ) -> Result<()>;
}

/// The launches of queries of one type on caches.
pub trait Cacheable: Cached<Self> + Latent {}

impl Cacheable for bf16 {}
impl Cacheable for f16 {}

/// An error about a cache whose elements cannot be read as bytes.
#[cold]
fn no_bytes() -> Error {
    refuse("a cache of bytes is a slice of cudarc".into(), "a buffer or a view of one")
}

macro_rules! cached {
    ($($query:ty: $cache:ty => $bits:expr, $bits_mut:expr, $instances:expr, $mapped:expr, $append:expr;)*) => { $(
        impl Cached<$query> for $cache {
            fn select(problem: &DecodeProblem, mapped: bool) -> DecodeKernel {
                let size = size_of::<$cache>() as u32;
                let exact = $mapped.iter().find(|(dim, _)| mapped && problem.has_boxes(*dim, size));
                exact.map_or_else(|| DecodeKernel::portable(problem, &$instances), |(_, instance)| DecodeKernel::Mapped(*instance))
            }

            fn decode(
                stream: StreamRef<'_>,
                Plan { kernel, problem }: Plan<DecodeKernel>,
                q: TensorRef<'_, $query, 4>,
                cache: &KvCache<'_, $cache>,
                Results { mut out, mut lse }: Results<'_, $query>,
                (scratch, flags): (&mut Buffer<u8>, &mut Buffer<u32>),
            ) -> Result<()> {
                let KvCache { k, v, places: Places { lengths, table, scales } } = cache;
                let (Some(k), Some(v)) = ($bits(*k), $bits(*v)) else { return Err(no_bytes()) };
                let scales = scales.as_ref();
                let (table, k_scales, v_scales) = (table.as_ref(), scales.map(|[k, _]| k), scales.map(|[_, v]| v));
                // Both kernels have these parameters.
                macro_rules! tensors {
                    ($module:ident) => {
                        $module::kernels::Tensors {
                            q: &q,
                            k: &k,
                            v: &v,
                            lengths,
                            table,
                            k_scales,
                            v_scales,
                            out: &mut out,
                            lse: lse.as_mut(),
                            scratch,
                            flags,
                        }
                    };
                }
                match kernel {
                    DecodeKernel::Portable(instance) => entry::launch(instance, stream, tensors!(kernel), problem),
                    DecodeKernel::Mapped(instance) => {
                        let (k_map, v_map) = (tma::map(stream, &k, problem.k, &problem)?, tma::map(stream, &v, problem.v, &problem)?);
                        let maps = tma::kernels::Maps { k_map: &k_map, v_map: &v_map };
                        // SAFETY: the maps are those of `k` and `v`, which are bound to the stream by the same launch.
                        unsafe { tma_entry::launch(instance, stream, maps, tensors!(tma), problem) }
                    }
                }
            }

            fn append(
                stream: StreamRef<'_>,
                [k, v]: [TensorRef<'_, $query, 4>; 2],
                cache: KvCacheMut<'_, $cache>,
                problem: AppendProblem,
            ) -> Result<()> {
                let KvCacheMut { k: k_cache, v: v_cache, places: Places { lengths, table, scales } } = cache;
                let (Some(mut k_cache), Some(mut v_cache)) = ($bits_mut(k_cache), $bits_mut(v_cache)) else {
                    return Err(no_bytes());
                };
                let scales = scales.as_ref();
                let tensors = append::kernels::Tensors {
                    k: &k,
                    v: &v,
                    lengths: &lengths,
                    table: table.as_ref(),
                    k_scales: scales.map(|[k, _]| k),
                    v_scales: scales.map(|[_, v]| v),
                    k_cache: &mut k_cache,
                    v_cache: &mut v_cache,
                };
                appending::launch($append, stream, tensors, problem)
            }
        }
    )* };
}

/// Instances, each for rows with more elements than the number.
const WIDE: [(u32, entry::Instance); 4] =
    [(0, entry::Instance::d64), (64, entry::Instance::d96), (96, entry::Instance::d128), (128, entry::Instance::d256)];

/// The same for bytes.
const BYTES: [(u32, entry::Instance); 3] =
    [(0, entry::Instance::d64_bytes), (64, entry::Instance::d128_bytes), (128, entry::Instance::d256_bytes)];

/// Instances of the kernel with tensor maps, for rows of so many elements.
const MAPPED: [(u32, tma_entry::Instance); 3] =
    [(64, tma_entry::Instance::d64), (128, tma_entry::Instance::d128), (256, tma_entry::Instance::d256)];

/// The same for bytes.
const MAPPED_BYTES: [(u32, tma_entry::Instance); 2] =
    [(128, tma_entry::Instance::d128_bytes), (256, tma_entry::Instance::d256_bytes)];

cached! {
    bf16: bf16 => Some, Some, WIDE, MAPPED, appending::Instance::same;
    f16: f16 => Some, Some, WIDE, MAPPED, appending::Instance::same;
    bf16: E4m3 => TensorRef::cast::<u8>, TensorMut::cast::<u8>, BYTES, MAPPED_BYTES, appending::Instance::bytes;
    f16: E4m3 => TensorRef::cast::<u8>, TensorMut::cast::<u8>, BYTES, MAPPED_BYTES, appending::Instance::bytes;
}

/// The kernels of decode.
#[derive(Clone, Copy, Debug)]
pub enum DecodeKernel {
    /// With copies by `cp.async`.
    Portable(entry::Instance),
    /// With copies by TMA, on chips of capability 9.0 and on the CPU device: for rows of one of a few lengths.
    Mapped(tma_entry::Instance),
}

impl DecodeKernel {
    /// The smallest portable instance that holds the rows; `instances` are each for rows with more elements than the number.
    fn portable(problem: &DecodeProblem, instances: &[(u32, entry::Instance)]) -> Self {
        let fits = instances.iter().rev().find(|(least, _)| problem.widest() > *least).or(instances.first());
        Self::Portable(fits.map_or(entry::Instance::d256, |(_, instance)| *instance))
    }

    /// The grain of its work.
    fn grain(self) -> Grain {
        macro_rules! grain {
            ($entry:ident, $instance:expr) => {
                $entry::INSTANCES.iter().find(|(name, _)| *name == $instance).map_or(Grain::default(), |(_, config)| {
                    Grain { rows: config.rows(), keys: config.block(), part: config.part(), blocks: 2 }
                })
            };
        }
        match self {
            Self::Portable(instance) => grain!(entry, instance),
            Self::Mapped(instance) => grain!(tma_entry, instance),
        }
    }
}

/// The kernels of latent decode.
#[derive(Clone, Copy, Debug)]
pub enum LatentKernel {
    /// By `mma.sync`.
    Portable,
    /// By `wgmma`, on chips of capability 9.0 and on the CPU device.
    Hopper,
}

impl LatentKernel {
    /// The kernel for a chip of a capability.
    fn select(portable: bool, capability: Option<u16>) -> Self {
        if !portable && matches!(capability, None | Some(90)) { Self::Hopper } else { Self::Portable }
    }

    /// The grain of its work.
    fn grain(self) -> Grain {
        let grain = |rows, keys, part| Grain { rows, keys, part, blocks: 1 };
        match self {
            Self::Portable => latent_entry::INSTANCES.first().map(|(_, c)| grain(c.rows, c.keys, c.part())),
            Self::Hopper => hopper_entry::INSTANCES.first().map(|(_, c)| grain(c.rows(), c.keys(), c.part())),
        }
        .unwrap_or_default()
    }
}

/// Launches of latent decode.
pub trait Latent: Copy + 'static {
    #[doc(hidden)]
    fn decode_latent(
        stream: StreamRef<'_>,
        plan: Plan<LatentKernel>,
        q: TensorRef<'_, Self, 4>,
        cache: &LatentCache<'_, Self>,
        results: Results<'_, Self>,
        memory: (&mut Buffer<u8>, &mut Buffer<u32>),
    ) -> Result<()>;
}

macro_rules! latent {
    ($($ty:ty)*) => { $(
        impl Latent for $ty {
            fn decode_latent(
                stream: StreamRef<'_>,
                Plan { kernel, problem }: Plan<LatentKernel>,
                q: TensorRef<'_, Self, 4>,
                cache: &LatentCache<'_, Self>,
                Results { mut out, mut lse }: Results<'_, Self>,
                (scratch, flags): (&mut Buffer<u8>, &mut Buffer<u32>),
            ) -> Result<()> {
                let LatentCache { rows, places: Places { lengths, table, .. } } = cache;
                // Both kernels have the same parameters.
                macro_rules! launch {
                    ($module:ident, $entry:ident) => {{
                        let tensors = $module::kernels::Tensors {
                            q: &q,
                            cache: rows,
                            lengths,
                            table: table.as_ref(),
                            out: &mut out,
                            lse: lse.as_mut(),
                            scratch,
                            flags,
                        };
                        $entry::launch($entry::Instance::d576, stream, tensors, problem)
                    }};
                }
                match kernel {
                    LatentKernel::Portable => launch!(latent, latent_entry),
                    LatentKernel::Hopper => launch!(hopper, hopper_entry),
                }
            }
        }
    )* };
}
latent! { bf16 f16 }
