//! Collective operations of the GPUs of a node, by kernels that communicate: all-reduce, reduce-scatter, all-gather.
//!
//! Every rank calls the same operations in the same order, each on a stream of its device: from one thread, rank after rank, from a
//! thread for each rank ([`Rank::group`]), or from a process for each rank ([`Rank::join`]). Sums are `f32`, in the order of the ranks, and rounded once: every rank has the same bits.
//!
//! | operation | algorithm | memory |
//! |---|---|---|
//! | [`all_reduce`], small | one shot: each rank sends its data to all others in packets that need no signal, and adds what comes | any |
//! | [`all_reduce`] of two ranks | the same in chunks with a signal for each, through a ring of slots: every byte crosses the link once in each direction | symmetric |
//! | [`all_reduce`], large | each rank adds a share of the data of all ranks, and writes it to all: every byte crosses a link twice | symmetric |
//! | [`reduce_scatter`] | each rank reads its part of all ranks | symmetric input |
//! | [`all_gather`] | each rank writes its part to all ranks | symmetric output |
//!
//! [`products`] has matrix products that communicate while they multiply, [`experts`] dispatch and combine for a mixture of experts.
//! [`choice`] takes the fastest of our kernels, separate ones and NCCL by a table of measured times.
//!
//! A rank that does not come lets the others wait: with [`Rank::set_patience`] they end with an error. Ranks of a
//! [group of processes](ptx_launch::ProcessGroup) have the patience of the group.
//!
//! Sources: NCCL's protocol LL, for packets; Jeaugey, *Massively Scale Your Deep Learning Training with NCCL 2.4*, 2019; ParallelKittens,
//! arXiv 2511.13940.

mod calls;
pub mod choice;
pub mod experts;
mod kernels;
mod peers;
#[cfg(feature = "gemm")]
pub mod products;

use half::{bf16, f16};
use kernels::kernels::{
    BLOCKS, CHUNK, EXCHANGE_BLOCKS, Inbox, Member, Peers, THREADS, TURNS, WARPS, all_gather as gather,
    all_reduce as reduce, all_reduce_packets, exchange, reduce_scatter as scatter,
};
use ptx_launch::{
    AsStream, Buffer, Device, Devices, Element, Error, ErrorKind, IntoTensor, IntoTensorMut, ProcessGroup, Result,
    Symmetric, SymmetricBuffer, TensorMut,
};
use std::time::Duration;

/// Every module of kernels of this operation and its PTX, one entry per target, for tools.
pub const MODULES: &[(&str, &str)] = &[
    ("comm_sm_80", kernels::kernels::TEXTS[0].1),
    ("comm_sm_90", kernels::kernels::TEXTS[1].1),
    ("comm_experts_sm_80", experts::TEXTS[0]),
    ("comm_experts_sm_90", experts::TEXTS[1]),
    #[cfg(feature = "gemm")]
    ("comm_products_sm_90a", products::PTX),
];

/// The most bytes that all-reduce sends in packets; the sum over the other ranks if there are more than two.
const MOST_BY_PACKETS: usize = 1 << 20;
/// The same where two ranks can exchange chunks.
const MOST_BEFORE_EXCHANGE: usize = 3 << 17;
/// The most bytes of all-reduce for memory that is not symmetric.
pub const MOST_ANYWHERE: usize = BLOCKS as usize * TURNS as usize * THREADS as usize * 8;
/// Accesses of a thread below which a grid has fewer blocks.
const ACCESSES: usize = 4;

/// Element types of the collective operations: `f32`, `f16`, `bf16`.
#[diagnostic::on_unimplemented(
    message = "the collective operations have no kernels for elements of `{Self}`",
    label = "expected f32, f16 or bf16"
)]
pub trait Float: Launch {}
impl Float for f32 {}
impl Float for f16 {}
impl Float for bf16 {}

/// Algorithms of [`all_reduce_by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// One shot, in packets of 8 bytes with the number of the message beside them.
    Packets,
    /// Two ranks: each sends all of its data to the other, in chunks with a signal for each. For multiples of 16 bytes.
    Exchange,
    /// Each rank adds a share and writes it to all ranks.
    Shares,
}

impl Algorithm {
    /// The faster one for so many elements.
    fn of<T>(len: usize, ranks: usize) -> Algorithm {
        let bytes = len * size_of::<T>();
        match bytes * (ranks.max(2) - 1) {
            sent if sent <= MOST_BEFORE_EXCHANGE => Algorithm::Packets,
            _ if can_exchange::<T>(len, ranks) => Algorithm::Exchange,
            sent if sent <= MOST_BY_PACKETS => Algorithm::Packets,
            _ => Algorithm::Shares,
        }
    }
}

/// Returns true if chunks carry so many elements: their accesses are of 16 bytes.
fn can_exchange<T>(len: usize, ranks: usize) -> bool {
    ranks == 2 && (len * size_of::<T>()).is_multiple_of(16)
}

/// A rank of a group: its inbox for packets, its signals, and the numbers of its messages.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_kernels::comm;
/// # fn main() -> ptx_launch::Result<()> {
/// let devices = Devices::cpu(2);
/// let mut ranks = comm::Rank::group(&devices)?;
/// let mut x = SymmetricBuffer::<f32>::zeros(&devices, 3)?;
/// for (device, (rank, x)) in devices.iter().zip(ranks.iter_mut().zip(x.iter_mut())) {
///     x.write(&[1.0, 2.0, 3.0])?;
///     comm::all_reduce(device, rank, x)?;
/// }
/// assert_eq!(x.on(1)?.download()?, [2.0, 4.0, 6.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Rank {
    inbox: Symmetric<u64>,
    /// The slots for chunks; empty unless there are two ranks.
    ring: Symmetric<u8>,
    /// The numbers of the messages of each block: in packets, and at the meetings; and of the chunks of each warp.
    packets: Buffer<u32>,
    meetings: Buffer<u32>,
    chunks: Buffer<u32>,
    patience: u64,
}

impl Rank {
    /// The ranks of a group, one for each device.
    ///
    /// # Errors
    /// Those of [`SymmetricBuffer::zeros`].
    pub fn group(devices: &Devices) -> Result<Vec<Rank>> {
        let [inbox, signals] = Rank::lens(devices.len());
        let inboxes = SymmetricBuffer::with_signals(devices, inbox, signals)?.into_ranks();
        let [slots, signals] = Rank::ring_lens(devices.len());
        let rings = SymmetricBuffer::with_signals(devices, slots, signals)?.into_ranks();
        devices.iter().try_for_each(Rank::load)?;
        devices.iter().zip(inboxes.into_iter().zip(rings)).map(|(device, memory)| Rank::of(device, memory)).collect()
    }

    /// This process's rank of a group of processes. Every process calls it. On a GPU kernels have the patience of the group.
    ///
    /// # Errors
    /// Those of [`SymmetricBuffer::join`].
    pub fn join(group: &ProcessGroup) -> Result<Rank> {
        Rank::load(group.device())?;
        let [inbox, signals] = Rank::lens(group.ranks());
        let inbox = SymmetricBuffer::join_with_signals(group, inbox, signals)?;
        let [slots, signals] = Rank::ring_lens(group.ranks());
        let ring = SymmetricBuffer::join_with_signals(group, slots, signals)?;
        let mut rank = Rank::of(group.device(), (inbox, ring))?;
        rank.patience = Rank::patience_in(group);
        Ok(rank)
    }

    /// Numbers of elements of an inbox, and of signals.
    fn lens(ranks: usize) -> [usize; 2] {
        let blocks = BLOCKS as usize;
        [2 * blocks * ranks * (2 * THREADS as usize * TURNS as usize), blocks * ranks]
    }

    /// Bytes of the slots for chunks, and signals of warps.
    fn ring_lens(ranks: usize) -> [usize; 2] {
        let warps = if ranks == 2 { (EXCHANGE_BLOCKS * WARPS) as usize } else { 0 };
        [warps * 2 * CHUNK as usize, warps]
    }

    /// A kernel that is loaded while another rank waits for it could wait for that rank, because memory is mapped into all.
    fn load(device: &Device) -> Result<()> {
        f32::load(device).and_then(|()| f16::load(device)).and_then(|()| bf16::load(device))
    }

    fn of(device: &Device, (inbox, ring): (Symmetric<u64>, Symmetric<u8>)) -> Result<Rank> {
        let counters = || device.zeros(BLOCKS as usize);
        let chunks = device.zeros((EXCHANGE_BLOCKS * WARPS) as usize)?;
        Ok(Rank { inbox, ring, packets: counters()?, meetings: counters()?, chunks, patience: 0 })
    }

    /// The patience of kernels in a group of processes. The CPU device ends waits itself.
    fn patience_in(group: &ProcessGroup) -> u64 {
        Rank::nanoseconds(group.device().is_cuda().then(|| group.patience()))
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.inbox.rank()
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.inbox.ranks()
    }

    /// A kernel that waits so long for another rank ends, and its stream has an error; `None`, the default, waits for ever. After such an
    /// error the driver ends all work of the GPU's context. The CPU device finds waits for ever without it.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = Rank::nanoseconds(patience);
    }

    /// The patience as kernels take it: 0 is for ever.
    fn nanoseconds(patience: Option<Duration>) -> u64 {
        patience.map_or(0, |patience| u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX).max(1))
    }
}

/// The launches of the types for which there are kernels.
pub trait Launch: Element {
    #[doc(hidden)]
    fn load(device: &Device) -> Result<()>;

    #[doc(hidden)]
    fn packets(stream: impl AsStream, rank: &mut Rank, x: &mut TensorMut<'_, Self, 1>, len: u32) -> Result<()>;

    #[doc(hidden)]
    fn exchange(stream: impl AsStream, rank: &mut Rank, x: &mut Symmetric<Self>, len: u32) -> Result<()>;

    #[doc(hidden)]
    fn shares(stream: impl AsStream, rank: &mut Rank, x: &mut Symmetric<Self>, len: u32) -> Result<()>;

    #[doc(hidden)]
    fn scatter(
        stream: impl AsStream,
        rank: &mut Rank,
        x: &mut Symmetric<Self>,
        out: &mut TensorMut<'_, Self, 1>,
    ) -> Result<()>;

    #[doc(hidden)]
    fn gather<'x>(
        stream: impl AsStream,
        rank: &mut Rank,
        x: impl IntoTensor<'x, Self, 1>,
        out: &mut Symmetric<Self>,
    ) -> Result<()>;
}

/// The instance for accesses of 16 bytes, or of one element.
macro_rules! pick {
    ($kernel:ident, $T:ty, $wide:expr) => {
        match ($wide, size_of::<$T>()) {
            (false, _) => $kernel::Instance::by_1,
            (true, 4) => $kernel::Instance::by_4,
            (true, _) => $kernel::Instance::by_8,
        }
    };
}

impl<T: Element> Launch for T
where
    all_reduce_packets::Types<T>: all_reduce_packets::Exists,
    exchange::Types<T>: exchange::Exists,
    reduce::Types<T>: reduce::Exists,
    scatter::Types<T>: scatter::Exists,
    gather::Types<T>: gather::Exists,
{
    fn load(device: &Device) -> Result<()> {
        let packets = <all_reduce_packets::Types<T> as all_reduce_packets::Exists>::kernels().iter().map(|(_, k)| *k);
        let exchange = <exchange::Types<T> as exchange::Exists>::kernels().iter().map(|(_, k)| *k);
        let reduce = <reduce::Types<T> as reduce::Exists>::kernels().iter().map(|(_, k)| *k);
        let scatter = <scatter::Types<T> as scatter::Exists>::kernels().iter().map(|(_, k)| *k);
        let gather = <gather::Types<T> as gather::Exists>::kernels().iter().map(|(_, k)| *k);
        packets.chain(exchange).chain(reduce).chain(scatter).chain(gather).try_for_each(|kernel| kernel.load(device))
    }

    fn packets(stream: impl AsStream, rank: &mut Rank, x: &mut TensorMut<'_, T, 1>, len: u32) -> Result<()> {
        let (inbox, patience) = (rank.inbox.parts_mut(), rank.patience);
        let member = Member { rank: inbox.rank, ranks: inbox.ranks, patience };
        let inbox = Inbox { table: inbox.table, counters: &mut rank.packets };
        // Short messages take one turn on as many blocks as they fill.
        let each = THREADS as usize * 8 / size_of::<T>();
        let turns = (len as usize).div_ceil(each * BLOCKS as usize) as u32;
        let instance = match size_of::<T>() {
            4 => all_reduce_packets::Instance::of_2,
            _ => all_reduce_packets::Instance::of_4,
        };
        all_reduce_packets::launch(instance, stream, x, inbox, len, turns, member)
    }

    fn exchange(stream: impl AsStream, rank: &mut Rank, x: &mut Symmetric<T>, len: u32) -> Result<()> {
        let (ring, patience) = (rank.ring.parts_mut(), rank.patience);
        let member = Member { rank: ring.rank, ranks: ring.ranks, patience };
        let ring = Inbox { table: ring.table, counters: &mut rank.chunks };
        let chunks = (len as usize * size_of::<T>()).div_ceil(CHUNK as usize);
        let blocks = chunks.clamp(1, EXCHANGE_BLOCKS as usize) as u32;
        let instance = if size_of::<T>() == 4 { exchange::Instance::by_4 } else { exchange::Instance::by_8 };
        exchange::launch(instance, stream, x.parts_mut().data, ring, len, blocks, member)
    }

    fn shares(stream: impl AsStream, rank: &mut Rank, x: &mut Symmetric<T>, len: u32) -> Result<()> {
        let (meeting, patience) = (rank.inbox.parts_mut(), rank.patience);
        let (ranks, x) = (meeting.ranks, x.parts_mut());
        let member = Member { rank: meeting.rank, ranks, patience };
        let peers = Peers { table: x.table, meeting: meeting.table, counters: &mut rank.meetings };
        let bytes = len as usize * size_of::<T>();
        let wide = bytes.is_multiple_of(16);
        let (instance, blocks) = (pick!(reduce, T, wide), blocks(if wide { bytes / 16 } else { len as usize }, ranks));
        reduce::launch(instance, stream, x.data, peers, len, blocks, member)
    }

    fn scatter(
        stream: impl AsStream,
        rank: &mut Rank,
        x: &mut Symmetric<T>,
        out: &mut TensorMut<'_, T, 1>,
    ) -> Result<()> {
        let (meeting, patience) = (rank.inbox.parts_mut(), rank.patience);
        let part = Part::new::<T>(x.len(), meeting.ranks, ("out", out.shape(), out.strides(), out.address()))?;
        let x = x.parts_mut();
        let member = Member { rank: meeting.rank, ranks: meeting.ranks, patience };
        let peers = Peers { table: x.table, meeting: meeting.table, counters: &mut rank.meetings };
        scatter::launch(pick!(scatter, T, part.wide), stream, out, &*x.data, peers, part.len, part.blocks, member)
    }

    fn gather<'x>(
        stream: impl AsStream,
        rank: &mut Rank,
        x: impl IntoTensor<'x, T, 1>,
        out: &mut Symmetric<T>,
    ) -> Result<()> {
        let (meeting, patience, x) = (rank.inbox.parts_mut(), rank.patience, x.into());
        let part = Part::new::<T>(out.len(), meeting.ranks, ("x", x.shape(), x.strides(), x.address()))?;
        let out = out.parts_mut();
        let member = Member { rank: meeting.rank, ranks: meeting.ranks, patience };
        let peers = Peers { table: out.table, meeting: meeting.table, counters: &mut rank.meetings };
        gather::launch(pick!(gather, T, part.wide), stream, &x, out.data, peers, part.len, part.blocks, member)
    }
}

/// A rank's part of symmetric memory, and how a grid moves it.
struct Part {
    len: u32,
    /// In accesses of 16 bytes.
    wide: bool,
    blocks: u32,
}

impl Part {
    /// The part of `all` elements that a vector has: its name, shape, strides and address.
    fn new<T>(
        all: usize,
        ranks: u32,
        (name, shape, strides, address): (&str, [usize; 1], [usize; 1], u64),
    ) -> Result<Part> {
        let len = part_of(all, ranks, (name, shape, strides))?;
        let bytes = len as usize * size_of::<T>();
        let wide = bytes.is_multiple_of(16) && address.is_multiple_of(16);
        Ok(Part { len, wide, blocks: blocks(if wide { bytes / 16 } else { len as usize }, 1) })
    }
}

/// Blocks for so many accesses, shared by so many ranks.
fn blocks(accesses: usize, ranks: u32) -> u32 {
    let share = accesses.div_ceil(ranks as usize);
    share.div_ceil(ACCESSES * THREADS as usize).clamp(1, BLOCKS as usize) as u32
}

/// `x` = the sum of `x` over all ranks, each element rounded once, with the same bits on every rank. One launch, or none without elements.
///
/// # Errors
/// [`ErrorKind::Condition`] if `x` belongs to other devices than `rank`; those of the launch.
pub fn all_reduce<T: Float>(stream: impl AsStream, rank: &mut Rank, x: &mut Symmetric<T>) -> Result<()> {
    let len = x.len();
    all_reduce_by(Algorithm::of::<T>(len, rank.ranks()), stream, rank, x, len)
}

/// The same for the first `len` elements, by an algorithm of the caller's choice.
///
/// # Errors
/// As [`all_reduce`]; [`ErrorKind::Condition`] if `x` has fewer elements, [`ErrorKind::Unsupported`] for more than [`MOST_ANYWHERE`] bytes in
/// packets, and for an exchange of other than two ranks or of bytes that are no multiple of 16.
pub fn all_reduce_by<T: Float>(
    algorithm: Algorithm,
    stream: impl AsStream,
    rank: &mut Rank,
    x: &mut Symmetric<T>,
    len: usize,
) -> Result<()> {
    same_group(rank, x)?;
    let count = u32::try_from(len).ok().filter(|len| *len as usize <= x.len() && *len < 1 << 31);
    match (count.ok_or_else(|| too_long(len, x.len()))?, algorithm) {
        (0, _) => Ok(()),
        (len, Algorithm::Shares) => T::shares(stream, rank, x, len),
        (_, Algorithm::Exchange) if !can_exchange::<T>(len, rank.ranks()) => Err(no_exchange::<T>(len, rank.ranks())),
        (len, Algorithm::Exchange) => T::exchange(stream, rank, x, len),
        (_, Algorithm::Packets) => all_reduce_anywhere(stream, rank, x.slice_mut(..len)?.tile_mut([len])?),
    }
}

/// `x` = the sum of `x` over all ranks, for memory that need not be symmetric, of up to [`MOST_ANYWHERE`] bytes, in packets.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for more bytes, [`ErrorKind::Condition`] if the elements do not lie side by side from a multiple of 8 bytes on;
/// those of the launch.
pub fn all_reduce_anywhere<'x, T: Float>(
    stream: impl AsStream,
    rank: &mut Rank,
    x: impl IntoTensorMut<'x, T, 1>,
) -> Result<()> {
    let mut x = x.into();
    let ([len], [stride]) = (x.shape(), x.strides());
    if len * size_of::<T>() > MOST_ANYWHERE {
        return Err(too_large(len, size_of::<T>()));
    }
    if stride != 1 && len > 1 || !x.address().is_multiple_of(8) {
        return Err(not_a_line("x", len, stride));
    }
    if len == 0 { Ok(()) } else { T::packets(stream, rank, &mut x, len as u32) }
}

/// `out` = part `rank` of the sum of `x` over all ranks; `x` has as many parts as there are ranks, each as long as `out`.
///
/// # Errors
/// [`ErrorKind::Condition`] if the lengths do not fit, or `x` belongs to other devices than `rank`; those of the launch.
pub fn reduce_scatter<'o, T: Float>(
    stream: impl AsStream,
    rank: &mut Rank,
    x: &mut Symmetric<T>,
    out: impl IntoTensorMut<'o, T, 1>,
) -> Result<()> {
    same_group(rank, x)?;
    if x.is_empty() { Ok(()) } else { T::scatter(stream, rank, x, &mut out.into()) }
}

/// Part r of `out`, on every rank, = `x` of rank r; `out` has as many parts as there are ranks, each as long as `x`.
///
/// # Errors
/// As [`reduce_scatter`].
pub fn all_gather<'x, T: Float>(
    stream: impl AsStream,
    rank: &mut Rank,
    x: impl IntoTensor<'x, T, 1>,
    out: &mut Symmetric<T>,
) -> Result<()> {
    same_group(rank, out)?;
    if out.is_empty() { Ok(()) } else { T::gather(stream, rank, x, out) }
}

fn same_group<T: Element>(rank: &Rank, x: &Symmetric<T>) -> Result<()> {
    same_ranks(&rank.inbox, x)
}

/// Checks that two belong to the same rank of the same devices, or of the same group of processes.
fn same_ranks<I: Element, T: Element>(inbox: &Symmetric<I>, x: &Symmetric<T>) -> Result<()> {
    if inbox.has_ranks_of(x) { Ok(()) } else { Err(other_group(inbox.rank(), x)) }
}

/// The elements of a part of symmetric memory, if a vector has as many.
fn part_of(all: usize, ranks: u32, (name, [len], [stride]): (&str, [usize; 1], [usize; 1])) -> Result<u32> {
    if len.checked_mul(ranks as usize) != Some(all) {
        return Err(Error::new(
            ErrorKind::Condition,
            format!("`{name}` has {len} elements, and the symmetric memory of {ranks} ranks {all}"),
        )
        .possible("a part for each rank, as long as the vector"));
    }
    if stride != 1 && len > 1 {
        return Err(not_a_line(name, len, stride));
    }
    u32::try_from(all).ok().filter(|all| *all < 1 << 31).ok_or_else(|| too_long(all, 1 << 31)).map(|_| len as u32)
}

#[cold]
fn other_group<T: Element>(rank: usize, x: &Symmetric<T>) -> Error {
    let asked = format!("memory of rank {} is used with rank {rank} of a group", x.rank());
    Error::new(ErrorKind::Condition, asked)
        .possible("symmetric memory of the same rank, on the devices of the group")
        .help("make both from the same `Devices` or `ProcessGroup`, and pass the part of the same rank")
}

#[cold]
fn too_long(len: usize, has: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("{len} elements of symmetric memory are asked for"))
        .possible(format!("up to {has}, and fewer than 2^31"))
}

#[cold]
fn too_large(len: usize, size: usize) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{len} elements of {size} bytes are reduced in packets"))
        .possible(format!("up to {MOST_ANYWHERE} bytes"))
        .help("make the memory symmetric (`SymmetricBuffer`), and call `all_reduce`")
}

#[cold]
fn no_exchange<T>(len: usize, ranks: usize) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{ranks} ranks exchange {len} elements of {} bytes", size_of::<T>()))
        .possible("two ranks, and a multiple of 16 bytes")
        .help("`all_reduce` takes an algorithm that is possible")
}

#[cold]
fn not_a_line(name: &str, len: usize, stride: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("`{name}` has {len} elements with a stride of {stride}"))
        .possible("elements side by side, from a multiple of 8 bytes on")
}
