//! Matrix products over the ranks of a node that communicate while they multiply: in the persistent loop of one kernel, for Hopper
//! (`sm_90a`) and the CPU device. Operands and results are `bf16` or `f16`, sums `f32`.
//!
//! | product | result |
//! |---|---|
//! | [`gemm_reduce_scatter`] | each rank has its rows of the sum of all ranks' products |
//! | [`gemm_all_reduce`] | every rank has the whole sum, with the same bits |
//! | [`all_gather_gemm`] | each rank multiplies the rows of all ranks |
//!
//! Each rank multiplies what others wait for first. Sums travel in the type of the result, in tiles as shared memory has them, and their owner adds them
//! to its own in `f32`: its own first, then those of the ranks behind it, in a ring. Rows travel while a rank multiplies its own.
//!
//! A is M × K with dense rows, B is K × N along K (a transposed tensor of N × K), and C has dense rows. M is a multiple of the number of ranks, K and N
//! are multiples of 8. Up to 8 ranks.
//!
//! Sources: Chang et al., FLUX, arXiv 2406.06858; Zheng et al., TileLink, arXiv 2503.20313, for tiles as the unit of communication, and the order of tiles.
#![allow(unsafe_code, reason = "kernels take addresses of symmetric memory, whose extents are checked here")]

mod gathered;
mod kernels;
mod reduced;

use super::Rank as Collective;
use crate::gemm::ClusterIds;
use half::{bf16, f16};
use kernels::kernels::{self as device, BLOCK_M, CLUSTER_M, MEETINGS, product_gathered, product_reduced};
use ptx_launch::{
    AsStream, Buffer, Device, Devices, Error, ErrorKind, IntoTensor, IntoTensorMut, KernelParam, ProcessGroup,
    Promotion, Result, StreamRef, Swizzle, Symmetric, SymmetricBuffer, TensorElement, TensorMap, TensorRef, WriteSlice,
    ptx_contract,
};
use std::time::Duration;

/// The PTX of the kernels, for tools.
pub(super) const PTX: &str = kernels::kernels::PTX;

/// The most ranks.
pub const MOST_RANKS: usize = 8;

/// Columns of a block's tile.
const BLOCK_N: u32 = 256;
/// The order of a part's tiles: bands of so many clusters along M, in runs of so many along N. Bands of 4 in runs of 8 took 1 to 2 % longer at
/// 8192 × 8192 × 14336 on two H200, and as long at 4096 × 8192 × 4096.
const RASTER: [u32; 2] = [16, 4];
/// Bytes that a thread has on a link at a time, powers of two: of sums, and of rows. More fill the queue in which the loads of operands stand, too.
const CHUNKS: [u32; 2] = [1024, 2048];
/// Bytes of a tile of a cluster, as it travels.
const TILE: usize = (CLUSTER_M * BLOCK_N * 2) as usize;

/// The division of a product.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Shape {
    /// Rows of a part.
    rows: u32,
    n: u32,
    k: u32,
    band: u32,
    run: u32,
    rank: u32,
    ranks: u32,
    /// The outputs that get the own part.
    copies: u32,
    /// Bytes that a thread has on a link at a time.
    chunk: u32,
    /// The same at the end, when no loads wait behind the stores.
    last_chunk: u32,
    /// Bytes of half an inbox.
    half: u64,
    patience: u64,
}

/// The conditions of launches, and the memory that they take.
#[ptx_contract]
impl Shape {
    /// Runs of 16 bytes of a part of A.
    pub(crate) fn runs(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.k / 8)
    }

    /// The slots of one part's tiles, for each warp group of both blocks.
    pub(crate) fn slots(&self, block_n: u32) -> u64 {
        u64::from(self.rows.div_ceil(256)) * u64::from(self.n.div_ceil(block_n)) * 4
    }

    /// Returns true if there are tiles, which kernels count in 32 bits, and copies are runs of 16 bytes.
    pub(crate) fn is_divided(&self, block_n: u32) -> bool {
        self.rank < self.ranks
            && self.ranks <= 8
            && self.rows >= 1
            && self.n >= 1
            && self.k.is_multiple_of(8)
            && [self.band, self.run].iter().all(|extent| *extent >= 1 && *extent <= 512)
            && self.rows <= 1 << 30
            && self.n <= 1 << 30
            && self.k <= 1 << 30
            && self.slots(block_n) * u64::from(self.ranks) <= 1 << 30
            && self.runs() * u64::from(self.ranks) <= 1 << 42
            && self.chunk >= 16
            && self.chunk <= 32768
            && self.chunk.is_multiple_of(16)
    }

    /// Returns true if half an inbox has room for the sums of all other ranks, so many bytes in each slot.
    pub(crate) fn has_inbox(&self, block_n: u32, bytes: u32) -> bool {
        self.half.is_multiple_of(16)
            && self.half <= 1 << 45
            && self.half >= self.slots(block_n) * u64::from(self.ranks - 1) * u64::from(bytes)
    }
}

/// A rank of a group whose products communicate: its inbox for tiles, its signals, and the numbers of its calls. Products of all kinds may take turns.
///
/// ```no_run
/// # use ptx_launch::prelude::*;
/// use ptx_kernels::comm::products;
/// use ptx_launch::TensorRef;
/// # fn main() -> ptx_launch::Result<()> {
/// let devices = Devices::all()?;
/// let (m, n, k) = (4096, 8192, 4096);
/// let mut ranks = products::Rank::group(&devices, [m, n])?;
/// for (device, rank) in devices.iter().zip(&mut ranks) {
///     let (a, b) = (device.zeros::<bf16>(m * k)?, device.zeros::<bf16>(n * k)?);
///     let part = m / devices.len();
///     let mut c = device.zeros::<bf16>(part * n)?;
///     let b = TensorRef::strided(&b, [k, n], [1, k])?;
///     products::gemm_reduce_scatter(device, rank, a.tile([m, k])?, b, c.tile_mut([part, n])?)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Rank {
    inbox: Symmetric<u8>,
    /// The signals of products of gathered rows, whose calls have numbers of their own.
    progress: Symmetric<u8>,
    /// For each block: calls of two threads; and calls with the rows of tiles that were sent.
    reduced: Buffer<u32>,
    gathered: Buffer<u32>,
    ids: ClusterIds,
    most: [usize; 2],
    chunks: [u32; 2],
    raster: [u32; 2],
    patience: u64,
}

impl Rank {
    /// The ranks of a group, one for each device, for products whose C has up to `most` rows and columns, or as many tiles of 256 by 256. The inbox
    /// of a rank has room for twice the tiles that others send: with two ranks as many bytes as C.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for more than 8 devices; those of [`SymmetricBuffer::zeros`], and of loading the kernels.
    pub fn group(devices: &Devices, most: [usize; 2]) -> Result<Vec<Rank>> {
        let ranks = devices.len();
        let ids = devices.iter().map(ClusterIds::new).collect::<Result<Vec<_>>>()?;
        let num_blocks = ids.iter().map(|ids| ids.num_blocks).min().unwrap_or(0);
        let sizes = Sizes::of(ranks, most, num_blocks)?;
        let inboxes = SymmetricBuffer::with_signals(devices, sizes.inbox, sizes.tile_signals)?;
        let progress = SymmetricBuffer::with_signals(devices, 1, sizes.row_signals)?;
        for device in devices.iter() {
            bf16::load(device).and_then(|()| f16::load(device))?;
        }
        let symmetric = inboxes.into_ranks().into_iter().zip(progress.into_ranks());
        let rank = |((device, ids), symmetric): ((&Device, ClusterIds), _)| sizes.rank(device, ids, symmetric);
        devices.iter().zip(ids).zip(symmetric).map(rank).collect()
    }

    /// This process's rank of a group of processes. Every process calls it with the same `most`. Kernels have the patience of the group.
    ///
    /// # Errors
    /// As [`group`](Rank::group), and those of [`SymmetricBuffer::join`].
    pub fn join(group: &ProcessGroup, most: [usize; 2]) -> Result<Rank> {
        let device = group.device();
        let ids = ClusterIds::new(device)?;
        bf16::load(device).and_then(|()| f16::load(device))?;
        let all = group.gather(&ids.num_blocks.to_le_bytes())?;
        let counts = all.iter().map(|bytes| <[u8; 4]>::try_from(bytes.as_slice()).map_or(0, u32::from_le_bytes));
        let sizes = Sizes::of(group.ranks(), most, counts.min().unwrap_or(0))?;
        let inbox = SymmetricBuffer::join_with_signals(group, sizes.inbox, sizes.tile_signals)?;
        let progress = SymmetricBuffer::join_with_signals(group, 1, sizes.row_signals)?;
        let mut rank = sizes.rank(device, ids, (inbox, progress))?;
        rank.patience = Collective::patience_in(group);
        Ok(rank)
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.inbox.rank()
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.inbox.ranks()
    }

    /// As [`comm::Rank::set_patience`](Collective::set_patience).
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = Collective::nanoseconds(patience);
    }

    /// Bytes that a thread has on a link at a time: a power of two from 512 to 32768, for measurements.
    #[doc(hidden)]
    pub fn set_chunk(&mut self, chunk: u32) {
        self.chunks = [chunk.clamp(512, 32_768).next_power_of_two(); 2];
    }

    /// The order of tiles: clusters along M in a band, and along N in a run; for measurements.
    #[doc(hidden)]
    pub fn set_raster(&mut self, raster: [u32; 2]) {
        self.raster = raster.map(|extent| extent.max(1));
    }

    /// The division of a product of `m` rows.
    fn shape(&self, [m, n, k]: [usize; 3], copies: usize) -> Result<Shape> {
        let ranks = self.ranks();
        if !super::choice::product_fits([m, n, k], ranks) {
            return Err(not_possible([m, n, k], ranks));
        }
        Ok(Shape {
            rows: (m / ranks) as u32,
            n: n as u32,
            k: k as u32,
            band: self.raster[0],
            run: self.raster[1],
            rank: self.rank() as u32,
            ranks: ranks as u32,
            copies: copies as u32,
            chunk: self.chunks[0],
            last_chunk: BLOCK_N * 128,
            half: (self.inbox.len() / 2) as u64,
            patience: self.patience,
        })
    }
}

/// The sizes of the memory of a rank.
struct Sizes {
    most: [usize; 2],
    num_blocks: u32,
    /// Bytes of the inbox, and its signals.
    inbox: usize,
    tile_signals: usize,
    /// Signals of products of gathered rows.
    row_signals: usize,
}

impl Sizes {
    /// Of a rank whose C has up to `most` rows and columns. Every rank has as many blocks, because a block of one meets that of the same number
    /// of another.
    fn of(ranks: usize, most: [usize; 2], num_blocks: u32) -> Result<Sizes> {
        if ranks > MOST_RANKS {
            return Err(too_many(ranks));
        }
        let num_blocks = num_blocks / 2 * 2;
        let tiles = tiles_of(most[0].div_ceil(ranks.max(1)), most[1]);
        let blocks = num_blocks as usize;
        let meetings = MEETINGS as usize * blocks * ranks;
        let inbox = 2 * tiles * TILE * ranks.saturating_sub(1).max(1);
        let (tile_signals, row_signals) = (meetings + tiles * 4 * ranks, meetings + blocks * ranks);
        Ok(Sizes { most, num_blocks, inbox, tile_signals, row_signals })
    }

    fn rank(
        &self,
        device: &Device,
        ids: ClusterIds,
        (inbox, progress): (Symmetric<u8>, Symmetric<u8>),
    ) -> Result<Rank> {
        let counters = || device.zeros(2 * self.num_blocks as usize);
        let (reduced, gathered) = (counters()?, counters()?);
        Ok(Rank {
            inbox,
            progress,
            reduced,
            gathered,
            ids,
            most: self.most,
            chunks: CHUNKS,
            raster: RASTER,
            patience: 0,
        })
    }
}

/// The types for which there are kernels: `bf16` and `f16`.
pub trait Half: Launch {}
impl Half for bf16 {}
impl Half for f16 {}

/// The launches of the types for which there are kernels.
pub trait Launch: TensorElement {
    #[doc(hidden)]
    fn load(device: &Device) -> Result<()>;

    #[doc(hidden)]
    fn reduced(stream: StreamRef<'_>, rank: &mut Rank, maps: &Reduced, shape: Division) -> Result<()>;

    #[doc(hidden)]
    fn gathered(
        stream: StreamRef<'_>,
        rank: &mut Rank,
        maps: &[TensorMap; 3],
        a: &Buffer<u64>,
        shape: Division,
    ) -> Result<()>;
}

/// The extents of a product.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Division(Shape);

/// The maps of a product whose sums are added: its operands, and the places of its part on all ranks.
#[doc(hidden)]
#[derive(Debug)]
pub struct Reduced {
    operands: [TensorMap; 2],
    outputs: [TensorMap; MOST_RANKS],
}

impl<T: TensorElement + KernelParam> Launch for T
where
    product_reduced::Types<T>: product_reduced::Exists,
    product_gathered::Types<T>: product_gathered::Exists,
{
    fn load(device: &Device) -> Result<()> {
        let reduced = <product_reduced::Types<T> as product_reduced::Exists>::kernels().iter().map(|(_, k)| *k);
        let gathered = <product_gathered::Types<T> as product_gathered::Exists>::kernels().iter().map(|(_, k)| *k);
        reduced.chain(gathered).try_for_each(|kernel| kernel.load(device))
    }

    fn reduced(stream: StreamRef<'_>, rank: &mut Rank, maps: &Reduced, shape: Division) -> Result<()> {
        let Reduced { operands: [a, b], outputs: [c0, c1, c2, c3, c4, c5, c6, c7] } = maps;
        let (operands, outputs) = (device::Operands { a, b }, device::Outputs { c0, c1, c2, c3, c4, c5, c6, c7 });
        let inbox = device::Inbox { table: rank.inbox.parts_mut().table, counters: &mut rank.reduced };
        let ClusterIds { gpcs, counters, .. } = &mut rank.ids;
        let ids = device::ClusterIds { gpcs: &*gpcs, counters };
        let instance = product_reduced::Instance::m128n256;
        // SAFETY: the maps describe memory that is bound to the stream, and parts of symmetric memory, in the layouts of the kernel; inbox and signals have
        // room for the tiles of the shape, all counters for all blocks.
        unsafe { product_reduced::launch::<T>(instance, stream, operands, outputs, inbox, ids, shape.0) }
    }

    fn gathered(
        stream: StreamRef<'_>,
        rank: &mut Rank,
        maps: &[TensorMap; 3],
        table: &Buffer<u64>,
        shape: Division,
    ) -> Result<()> {
        let [a, b, c] = maps;
        let meeting = rank.progress.parts_mut().table;
        let (operands, peers) =
            (device::Operands { a, b }, device::Peers { table, meeting, counters: &mut rank.gathered });
        let ClusterIds { gpcs, counters, .. } = &mut rank.ids;
        let ids = device::ClusterIds { gpcs: &*gpcs, counters };
        let instance = product_gathered::Instance::m128n256;
        // SAFETY: as above; A has a part of these rows for each rank.
        unsafe { product_gathered::launch::<T>(instance, stream, operands, c, peers, ids, shape.0) }
    }
}

/// `c` = this rank's rows of the sum of `a` · `b` over all ranks. `a` is M × K, `b` K × N, `c` M / ranks × N. One launch.
///
/// # Errors
/// [`ErrorKind::Condition`] if the shapes or strides do not fit, or C is larger than the group was made for; [`ErrorKind::Unsupported`] for other
/// extents than the [module](self) names; [`ErrorKind::NoVariant`] on other devices than Hopper's; those of the launch.
pub fn gemm_reduce_scatter<'t, T: Half>(
    stream: impl AsStream,
    rank: &mut Rank,
    a: impl IntoTensor<'t, T, 2>,
    b: impl IntoTensor<'t, T, 2>,
    c: impl IntoTensorMut<'t, T, 2>,
) -> Result<()> {
    let (stream, a, b, mut c) = (stream.as_stream(), a.into(), b.into(), c.into());
    let [m, n, k] = extents(&a, &b)?;
    let shape = rank.shape([m, n, k], 1)?;
    if c.shape() != [m / rank.ranks(), n] || c.strides()[1] != 1 && n > 1 {
        return Err(other_result([m / rank.ranks(), n], c.shape(), c.strides()));
    }
    if c.shape().contains(&0) {
        return Ok(());
    }
    rank.check_capacity(&shape)?;
    let pitch = c.strides()[0];
    let (left, right, to) = (a.bind_to(stream)?, b.bind_to(stream)?, c.bind_to(stream)?);
    let operands =
        maps_of_operands::<T>(stream, &shape, (left.address(), a.strides()[0]), (right.address(), b.strides()[1]))?;
    let output = map_of_result::<T>(stream, to.address(), &shape, pitch)?;
    T::reduced(stream, rank, &Reduced { operands, outputs: [output; MOST_RANKS] }, Division(shape))
}

/// `c` = the sum of `a` · `b` over all ranks, on every rank, with the same bits. `a` is M × K, `b` K × N, and `c` has M × N elements from its first one
/// on. One launch.
///
/// # Errors
/// As [`gemm_reduce_scatter`].
pub fn gemm_all_reduce<'t, T: Half>(
    stream: impl AsStream,
    rank: &mut Rank,
    a: impl IntoTensor<'t, T, 2>,
    b: impl IntoTensor<'t, T, 2>,
    c: &mut Symmetric<T>,
) -> Result<()> {
    let (stream, a, b) = (stream.as_stream(), a.into(), b.into());
    super::same_ranks(&rank.inbox, c)?;
    let [m, n, k] = extents(&a, &b)?;
    let shape = rank.shape([m, n, k], rank.ranks())?;
    if m.checked_mul(n).is_none_or(|len| len > c.len()) {
        return Err(other_result([m, n], [c.len(), 1], [1, 1]));
    }
    if m * n == 0 {
        return Ok(());
    }
    rank.check_capacity(&shape)?;
    let (left, right) = (a.bind_to(stream)?, b.bind_to(stream)?);
    let operands =
        maps_of_operands::<T>(stream, &shape, (left.address(), a.strides()[0]), (right.address(), b.strides()[1]))?;
    let first = m / rank.ranks() * rank.rank() * n * size_of::<T>();
    let addresses = c.addresses().to_vec();
    let mut data = c.parts_mut().data;
    let _to = data.bind(stream)?;
    let mut outputs = [map_of_result::<T>(stream, addresses[0] + first as u64, &shape, n)?; MOST_RANKS];
    for (output, address) in outputs.iter_mut().zip(&addresses).skip(1) {
        *output = map_of_result::<T>(stream, address + first as u64, &shape, n)?;
    }
    T::reduced(stream, rank, &Reduced { operands, outputs }, Division(shape))
}

/// `c` = the rows of all ranks times `b`. The first M × K elements of `a` have a part of M / ranks rows for each rank: this rank's own at its place, and
/// afterwards those of all ranks. `b` is K × N, `c` M × N. One launch.
///
/// # Errors
/// As [`gemm_reduce_scatter`].
pub fn all_gather_gemm<'t, T: Half>(
    stream: impl AsStream,
    rank: &mut Rank,
    a: &mut Symmetric<T>,
    b: impl IntoTensor<'t, T, 2>,
    c: impl IntoTensorMut<'t, T, 2>,
) -> Result<()> {
    let (stream, b, mut c) = (stream.as_stream(), b.into(), c.into());
    super::same_ranks(&rank.inbox, a)?;
    let ([m, columns], [k, n]) = (c.shape(), b.shape());
    if m.checked_mul(k).is_none_or(|len| len > a.len()) {
        return Err(Error::new(ErrorKind::Condition, format!("A of {m} x {k} is in {} elements", a.len()))
            .possible("symmetric memory for the rows of all ranks"));
    }
    along_k("b", b.strides()[0], [k, n])?;
    let shape = Shape { chunk: rank.chunks[1], ..rank.shape([m, n, k], 1)? };
    if columns != n || c.strides()[1] != 1 && n > 1 {
        return Err(other_result([m, n], c.shape(), c.strides()));
    }
    if m * n == 0 {
        return Ok(());
    }
    let (pitch, part) = (c.strides()[0], shape.rows as usize * c.strides()[0]);
    let (right, to, parts) = (b.bind_to(stream)?, c.bind_to(stream)?, a.parts_mut());
    let (table, mut data) = (parts.table, parts.data);
    let rows = data.bind(stream)?;
    let [left, right] = maps_of_operands::<T>(stream, &shape, (rows.address(), k), (right.address(), b.strides()[1]))?;
    let maps = [
        left,
        right,
        TensorMap::of_address(stream, T::TYPE, to.address(), &[shape.ranks as usize, shape.rows as usize, n])
            .strides(&[part, pitch, 1])
            .tile(&[1, 64, 64])
            .swizzle(Swizzle::B128)
            .build()?,
    ];
    T::gathered(stream, rank, &maps, table, Division(shape))
}

impl Rank {
    /// Checks that the tiles of a product have room.
    fn check_capacity(&self, shape: &Shape) -> Result<()> {
        let tiles = tiles_of(shape.rows as usize, shape.n as usize);
        if (2 * tiles * TILE).saturating_mul(self.ranks() - 1) <= self.inbox.len() {
            return Ok(());
        }
        let (m, [rows, columns]) = (shape.rows as usize * self.ranks(), self.most);
        Err(Error::new(ErrorKind::Condition, format!("C of {m} x {} is larger than the group was made for", shape.n))
            .possible(format!("up to {rows} x {columns}, or as many tiles of 256 x 256 in each part"))
            .help("pass the largest C to `products::Rank::group`"))
    }
}

/// Tiles of clusters of a part.
fn tiles_of(rows: usize, n: usize) -> usize {
    rows.div_ceil(CLUSTER_M as usize) * n.div_ceil(BLOCK_N as usize)
}

/// M, N and K of a product.
fn extents<T>(a: &TensorRef<'_, T, 2>, b: &TensorRef<'_, T, 2>) -> Result<[usize; 3]> {
    let ([m, k], [of_k, n]) = (a.shape(), b.shape());
    if k != of_k {
        return Err(Error::new(ErrorKind::Condition, format!("`a` has the shape [{m}, {k}], and `b` [{of_k}, {n}]"))
            .possible("`a` of [m, k], `b` of [k, n]"));
    }
    along_k("a", a.strides()[1], [m, k])?;
    along_k("b", b.strides()[0], [k, n])?;
    Ok([m, n, k])
}

/// Checks that neighbors along K are neighbors in memory.
fn along_k(name: &str, stride: usize, shape: [usize; 2]) -> Result<()> {
    if stride == 1 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Condition,
        format!("`{name}` of shape {shape:?} has a stride of {stride} elements along K"),
    )
    .possible("operands whose neighbors along K are neighbors in memory")
    .help("pass `b` as a view of an N x K matrix: `TensorRef::strided(&b, [k, n], [1, k])?`"))
}

/// The maps of A and B, by their addresses and pitches: A has its parts, their rows, and K; B has one matrix, its columns, and K. Each block of a
/// cluster loads half of a tile's columns.
fn maps_of_operands<T: TensorElement>(
    stream: StreamRef<'_>,
    shape: &Shape,
    a: (u64, usize),
    b: (u64, usize),
) -> Result<[TensorMap; 2]> {
    let map = |(address, pitch): (u64, usize), parts: usize, rows: usize, tile: u32| {
        let map = TensorMap::of_address(stream, T::TYPE, address, &[parts, rows, shape.k as usize]);
        let map = map.strides(&[rows * pitch, pitch, 1]).tile(&[1, tile as usize, 64]);
        map.swizzle(Swizzle::B128).promotion(Promotion::B128).build()
    };
    Ok([map(a, shape.ranks as usize, shape.rows as usize, BLOCK_M)?, map(b, 1, shape.n as usize, BLOCK_N / 2)?])
}

/// The map of a part of C, in boxes of 2 KiB.
fn map_of_result<T: TensorElement>(
    stream: StreamRef<'_>,
    address: u64,
    shape: &Shape,
    pitch: usize,
) -> Result<TensorMap> {
    let (rows, n) = (shape.rows as usize, shape.n as usize);
    let map = TensorMap::of_address(stream, T::TYPE, address, &[rows, n]).strides(&[pitch, 1]);
    map.tile(&[16, 64]).swizzle(Swizzle::B128).build()
}

#[cold]
fn too_many(ranks: usize) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a group of {ranks} ranks multiplies"))
        .possible(format!("up to {MOST_RANKS} ranks"))
}

#[cold]
fn not_possible([m, n, k]: [usize; 3], ranks: usize) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a product of M = {m}, N = {n} and K = {k} over {ranks} ranks"))
        .possible("M in equal parts, one for each rank, K and N multiples of 8, K not zero, all below 2^31")
        .help("`gemm::gemm`, and then `comm::reduce_scatter` or `comm::all_reduce`, take other extents")
}

#[cold]
fn other_result(want: [usize; 2], shape: [usize; 2], strides: [usize; 2]) -> Error {
    Error::new(ErrorKind::Condition, format!("C has the shape {shape:?} and strides of {strides:?} elements"))
        .possible(format!("{want:?} with dense rows"))
}
