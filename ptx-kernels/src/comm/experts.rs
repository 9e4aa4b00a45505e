//! Dispatch and combine for a mixture of experts whose experts are shared by the ranks of a node.
//!
//! | operation | result |
//! |---|---|
//! | [`ExpertParallel::dispatch`] | each rank has the rows of all tokens that chose its experts, sorted by expert, with offsets for a [grouped product](crate::grouped_gemm) |
//! | [`ExpertParallel::combine`] | each token has the sum of its experts' results, by its weights |
//!
//! Of `experts` experts and n ranks, rank r has the experts from r · experts / n on. A token that chooses several experts of a rank is sent to each of them. The
//! rows of an expert follow each other in the order of ranks, then tokens, then choices, so that every run has the same bits. Rows move by one launch on each rank,
//! straight to their places: blocks of the same number exchange the counts of all experts, and then know where each of their rows belongs. The host
//! waits for nothing, and calls may be captured in graphs.
//!
//! Sums are `f32`, one `fma` for each of a token's experts in the order of its choices, and rounded once.
//!
//! Every rank calls the same operations in the same order, as those of [`comm`](super), with any number of tokens up to that of its group, none among them. All
//! work of a rank between the two goes to the same stream, or to streams that wait for each other.
//!
//! The kernels have run on CPU ranks under the watcher, and are assembled for sm_80, 90, 100 and 120; on GPUs they have not been measured.
//!
//! Sources: Lepikhin et al., *GShard*, arXiv 2006.16668, for dispatch, combine and capacity; DeepEP, DeepSeek, 2025, for counts that are exchanged first.

mod kernels;

use half::{bf16, f16};
use kernels::Call;
use kernels::kernels::{BLOCKS, CHUNK, Combine, Dispatch, FAULTS, MOST_EXPERTS, NONE, THREADS, combine, dispatch};
use ptx_launch::{
    AsStream, Buffer, Device, Devices, Element, Error, ErrorKind, IntoTensor, IntoTensorMut, ProcessGroup, Result,
    StreamRef, Symmetric, SymmetricBuffer, TensorMut, TensorRef,
};
use std::time::Duration;

/// The modules of kernels, for tools.
pub(super) const TEXTS: [&str; 2] = [kernels::kernels::TEXTS[0].1, kernels::kernels::TEXTS[1].1];

/// In place of an expert's number: a token with fewer than `top_k` experts.
pub const NO_EXPERT: u32 = NONE;

/// Bytes of an access.
const ACCESS: usize = 16;
/// Numbers below which all extents stay.
const MOST: usize = 1 << 31;

/// The extents of a mixture of experts, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Experts of all ranks, up to 1024, in equal parts.
    pub experts: usize,
    /// Experts of a token.
    pub top_k: usize,
    /// Elements of a row, which is a multiple of 16 bytes.
    pub hidden: usize,
    /// The most tokens of a rank in a call.
    pub tokens: usize,
    /// Rows that a rank has room for; `None` for as many as can come, which is `ranks · tokens · top_k`. The last rows that do not fit are not
    /// sent, and add nothing: [`ExpertParallel::check`] counts them.
    pub capacity: Option<usize>,
}

/// Element types of rows: `f32`, `f16`, `bf16`.
#[diagnostic::on_unimplemented(
    message = "the rows of tokens cannot have elements of `{Self}`",
    label = "expected f32, f16 or bf16"
)]
pub trait Float: Launch {}
impl Float for f32 {}
impl Float for f16 {}
impl Float for bf16 {}

/// The launches of the types for which there are kernels.
pub trait Launch: Element {
    #[doc(hidden)]
    fn load(device: &Device) -> Result<()>;

    #[doc(hidden)]
    fn dispatch(
        stream: StreamRef<'_>,
        ep: &mut ExpertParallel<Self>,
        x: &TensorRef<'_, Self, 2>,
        ids: &TensorRef<'_, u32, 2>,
        stride: u32,
    ) -> Result<()>
    where
        Self: Sized;

    #[doc(hidden)]
    fn combine(
        stream: StreamRef<'_>,
        ep: &mut ExpertParallel<Self>,
        weights: &TensorRef<'_, f32, 2>,
        out: &mut TensorMut<'_, Self, 2>,
        stride: u32,
    ) -> Result<()>
    where
        Self: Sized;
}

impl<T: Element> Launch for T
where
    dispatch::Types<T>: dispatch::Exists,
    combine::Types<T>: combine::Exists,
{
    fn load(device: &Device) -> Result<()> {
        let sends = <dispatch::Types<T> as dispatch::Exists>::kernels().iter().map(|(_, kernel)| *kernel);
        let sums = <combine::Types<T> as combine::Exists>::kernels().iter().map(|(_, kernel)| *kernel);
        sends.chain(sums).try_for_each(|kernel| kernel.load(device))
    }

    fn dispatch(
        stream: StreamRef<'_>,
        ep: &mut ExpertParallel<T>,
        x: &TensorRef<'_, T, 2>,
        ids: &TensorRef<'_, u32, 2>,
        stride: u32,
    ) -> Result<()> {
        let call = ep.call(x.shape()[0], stride, stream.is_cpu());
        let (rows, counts) = (ep.rows.parts_mut(), ep.counts.parts_mut());
        let memory = Dispatch {
            x,
            ids,
            rows: rows.data,
            offsets: &mut ep.offsets,
            places: &mut ep.places,
            faults: &mut ep.faults,
            counts: counts.data,
            table: rows.table,
            meeting: counts.table,
            counters: &mut ep.counters,
        };
        match size_of::<T>() {
            4 => dispatch::launch(dispatch::Instance::by_4, stream, memory, call),
            _ => dispatch::launch(dispatch::Instance::by_8, stream, memory, call),
        }
    }

    fn combine(
        stream: StreamRef<'_>,
        ep: &mut ExpertParallel<T>,
        weights: &TensorRef<'_, f32, 2>,
        out: &mut TensorMut<'_, T, 2>,
        stride: u32,
    ) -> Result<()> {
        let call = ep.call(out.shape()[0], stride, false);
        let (results, counts) = (ep.results.parts_mut(), ep.counts.parts_mut());
        let memory = Combine {
            weights,
            places: &ep.places,
            results: &*results.data,
            out,
            table: results.table,
            meeting: counts.table,
            counters: &mut ep.counters,
        };
        match size_of::<T>() {
            4 => combine::launch(combine::Instance::by_4, stream, memory, call),
            _ => combine::launch(combine::Instance::by_8, stream, memory, call),
        }
    }
}

/// A rank of a group whose ranks share the experts, with its symmetric memory: rows that were sent to it, and its experts' results.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_kernels::comm::experts::{ExpertParallel, Extents};
/// # fn main() -> ptx_launch::Result<()> {
/// let devices = Devices::cpu(2);
/// // Experts 0 and 1 are those of rank 0, experts 2 and 3 those of rank 1. Each rank has one token of up to three.
/// let extents = Extents { experts: 4, top_k: 2, hidden: 8, tokens: 3, capacity: None };
/// let mut ranks = ExpertParallel::<f32>::group(&devices, extents)?;
/// let x: Vec<_> = devices.iter().zip([1.0f32, 2.0]).map(|(device, x)| device.upload(&[x; 8])).collect::<Result<_, _>>()?;
/// let ids: Vec<_> = devices.iter().map(|device| device.upload(&[3u32, 0])).collect::<Result<_, _>>()?;
/// let weights: Vec<_> = devices.iter().map(|device| device.upload(&[0.25f32, 0.5])).collect::<Result<_, _>>()?;
/// let mut out = vec![devices[0].zeros::<f32>(8)?, devices[1].zeros::<f32>(8)?];
/// for (at, rank) in ranks.iter_mut().enumerate() {
///     rank.dispatch(&devices[at], x[at].tile([1, 8])?, ids[at].tile([1, 2])?)?;
/// }
/// for (at, rank) in ranks.iter_mut().enumerate() {
///     let parts = rank.parts_mut();
///     // Every expert returns its rows as they are; `grouped_gemm` takes the same rows and offsets.
///     devices[at].stream().copy(parts.rows, parts.results)?;
///     rank.combine(&devices[at], weights[at].tile([1, 2])?, out[at].tile_mut([1, 8])?)?;
/// }
/// assert_eq!(out[1].download()?, [1.5; 8]);
/// assert_eq!(ranks[1].parts_mut().offsets.download()?, [0, 0, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExpertParallel<T: Element> {
    rows: Symmetric<T>,
    results: Symmetric<T>,
    /// The counts of each block and rank; and the signals.
    counts: Symmetric<u32>,
    offsets: Buffer<u32>,
    /// The rank and the row of each pair of a token and a choice.
    places: Buffer<u32>,
    faults: Buffer<u32>,
    counters: Buffer<u32>,
    extents: Extents,
    capacity: usize,
    blocks: u32,
    /// Tokens of the last dispatch.
    tokens: usize,
    patience: u64,
}

/// The memory between a dispatch and a combination.
#[derive(Debug)]
pub struct Parts<'a, T> {
    /// The rows that were sent to this rank, sorted by expert: `[capacity, hidden]`, dense.
    pub rows: &'a Buffer<T>,
    /// Expert e of this rank has the rows `offsets[e]` to `offsets[e + 1]`.
    pub offsets: &'a Buffer<u32>,
    /// For the results: row r is that of row r. `[capacity, hidden]`, dense.
    pub results: &'a mut Buffer<T>,
    /// Rows that there is room for.
    pub capacity: usize,
    /// Experts of this rank.
    pub experts: usize,
}

impl<T: Float> ExpertParallel<T> {
    /// The ranks of a group, one for each device. Each has `2 · capacity` rows of symmetric memory.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] for extents that are zero or too large, experts that ranks cannot share equally, or rows that are no multiple of 16
    /// bytes; those of [`SymmetricBuffer::zeros`], and of loading the kernels.
    pub fn group(devices: &Devices, extents: Extents) -> Result<Vec<ExpertParallel<T>>> {
        let ranks = devices.len();
        let sizes = Sizes::of::<T>(extents, ranks)?;
        let rows = SymmetricBuffer::with_signals(devices, sizes.rows, 0)?.into_ranks();
        let results = SymmetricBuffer::with_signals(devices, sizes.rows, 0)?.into_ranks();
        let counts = SymmetricBuffer::with_signals(devices, sizes.counts, sizes.blocks * ranks)?.into_ranks();
        // A kernel that is loaded while another rank waits for it could wait for that rank, because memory is mapped into all.
        devices.iter().try_for_each(T::load)?;
        let rank = |(device, ((rows, results), counts)): (&Device, _)| sizes.rank(device, [rows, results], counts);
        devices.iter().zip(rows.into_iter().zip(results).zip(counts)).map(rank).collect()
    }

    /// This process's rank of a group of processes. Every process calls it with the same extents.
    ///
    /// # Errors
    /// As [`group`](ExpertParallel::group), and those of [`SymmetricBuffer::join`].
    pub fn join(group: &ProcessGroup, extents: Extents) -> Result<ExpertParallel<T>> {
        let (device, ranks) = (group.device(), group.ranks());
        let sizes = Sizes::of::<T>(extents, ranks)?;
        T::load(device)?;
        let rows = || SymmetricBuffer::join_with_signals(group, sizes.rows, 0);
        let rows = [rows()?, rows()?];
        let counts = SymmetricBuffer::join_with_signals(group, sizes.counts, sizes.blocks * ranks)?;
        let mut rank = sizes.rank(device, rows, counts)?;
        rank.patience = super::Rank::patience_in(group);
        Ok(rank)
    }

    /// As [`comm::Rank::set_patience`](super::Rank::set_patience).
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience = super::Rank::nanoseconds(patience);
    }

    /// Rows, offsets and the place of the results, for the experts' work.
    pub fn parts_mut(&mut self) -> Parts<'_, T> {
        Parts {
            rows: &self.rows,
            offsets: &self.offsets,
            results: &mut self.results,
            capacity: self.capacity,
            experts: self.extents.experts / self.rows.ranks(),
        }
    }

    /// Sends row t of `x` to the experts `ids[t]`: `x` is `[tokens, hidden]`, `ids` `[tokens, top_k]`. One launch.
    ///
    /// A number that names no expert ends the launch with an error on a CPU device; on a GPU nothing is sent for it, and [`check`](Self::check) returns the error.
    /// [`NO_EXPERT`] stands for none.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if the shapes do not fit the group's extents, the elements of a row do not lie side by side, or rows do not begin at multiples of
    /// 16 bytes; those of the launch.
    pub fn dispatch<'t>(
        &mut self,
        stream: impl AsStream,
        x: impl IntoTensor<'t, T, 2>,
        ids: impl IntoTensor<'t, u32, 2>,
    ) -> Result<()> {
        let (x, ids) = (x.into(), ids.into());
        let tokens = x.shape()[0];
        if tokens > self.extents.tokens {
            return Err(too_many(tokens, self.extents.tokens));
        }
        let stride = self.stride("x", x.shape(), x.strides(), x.address())?;
        self.check_choices("ids", ids.shape(), ids.is_contiguous(), tokens)?;
        self.tokens = tokens;
        T::dispatch(stream.as_stream(), self, &x, &ids, stride)
    }

    /// Row t of `out` = the sum of the results for token t of the last dispatch, each by its weight: `weights` is `[tokens, top_k]`, `out`
    /// `[tokens, hidden]`. A token without experts gets zeros. One launch.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch), and for another number of tokens than that of the dispatch.
    pub fn combine<'t>(
        &mut self,
        stream: impl AsStream,
        weights: impl IntoTensor<'t, f32, 2>,
        out: impl IntoTensorMut<'t, T, 2>,
    ) -> Result<()> {
        let (weights, mut out) = (weights.into(), out.into());
        let tokens = out.shape()[0];
        if tokens != self.tokens {
            return Err(other_tokens(tokens, self.tokens));
        }
        let stride = self.stride("out", out.shape(), out.strides(), out.address())?;
        self.check_choices("weights", weights.shape(), weights.is_contiguous(), tokens)?;
        T::combine(stream.as_stream(), self, &weights, &mut out, stride)
    }

    /// Waits for this rank's work, and returns an error if since the last call a token of it named an expert that there is not, or rows of it found no
    /// room.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] with the number of such rows; that of a kernel that failed.
    pub fn check(&mut self) -> Result<()> {
        let faults = self.faults.download()?;
        self.faults.clear()?;
        match faults[..] {
            [0, _, 0] => Ok(()),
            [0, _, full] => Err(no_capacity(self.rank(), full, self.capacity)),
            [wrong, last, _] => Err(no_experts(self, wrong, last.saturating_sub(1) as usize)),
            _ => Ok(()),
        }
    }
}

impl<T: Element> ExpertParallel<T> {
    /// Its number.
    pub fn rank(&self) -> usize {
        self.rows.rank()
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.rows.ranks()
    }

    /// The extents of its group.
    pub fn extents(&self) -> Extents {
        self.extents
    }

    /// A launch's numbers.
    fn call(&self, tokens: usize, stride: u32, is_strict: bool) -> Call {
        let Extents { experts, top_k, hidden, .. } = self.extents;
        Call {
            experts: experts as u32,
            top_k: top_k as u32,
            tokens: tokens as u32,
            accesses: (hidden * size_of::<T>() / ACCESS) as u32,
            stride,
            capacity: self.capacity as u32,
            rank: self.rank() as u32,
            ranks: self.ranks() as u32,
            blocks: self.blocks,
            strict: is_strict.into(),
            patience: self.patience,
        }
    }

    /// The accesses from row to row of a matrix of this rank.
    fn stride(&self, name: &str, shape: [usize; 2], strides: [usize; 2], address: u64) -> Result<u32> {
        let ([tokens, columns], [stride, column_stride]) = (shape, strides);
        if columns != self.extents.hidden {
            let asked = format!("`{name}` has the shape {shape:?}");
            return Err(Error::new(ErrorKind::Condition, asked)
                .possible(format!("[tokens, {}], the `hidden` of the group", self.extents.hidden)));
        }
        let stride = if tokens > 1 { stride } else { columns } * size_of::<T>();
        let is_aligned = address.is_multiple_of(ACCESS as u64) && stride.is_multiple_of(ACCESS);
        if column_stride != 1 || tokens > 0 && !is_aligned || stride >= MOST {
            return Err(apart(name, shape, strides));
        }
        Ok((stride / ACCESS) as u32)
    }

    fn check_choices(&self, name: &str, shape: [usize; 2], is_dense: bool, tokens: usize) -> Result<()> {
        let want = [tokens, self.extents.top_k];
        if shape == want && is_dense {
            return Ok(());
        }
        let gaps = if is_dense { "" } else { ", with gaps" };
        Err(Error::new(ErrorKind::Condition, format!("`{name}` has the shape {shape:?}{gaps}"))
            .possible(format!("{want:?}, a dense row of `top_k` for each token")))
    }
}

/// The sizes of the memory of a rank.
struct Sizes {
    extents: Extents,
    ranks: usize,
    capacity: usize,
    /// Elements of the rows, and numbers of counts and blocks.
    rows: usize,
    counts: usize,
    blocks: usize,
}

impl Sizes {
    fn of<T>(extents: Extents, ranks: usize) -> Result<Sizes>
    where
        T: Element,
    {
        let capacity = extents.check::<T>(ranks)?;
        let Extents { experts, top_k, hidden, tokens, .. } = extents;
        let chunks = (hidden * size_of::<T>() / ACCESS).div_ceil(CHUNK as usize);
        let blocks = (tokens * top_k * chunks).div_ceil(THREADS as usize / 32).clamp(1, BLOCKS as usize);
        Ok(Sizes { extents, ranks, capacity, rows: capacity * hidden, counts: blocks * ranks * experts, blocks })
    }

    /// A rank with this symmetric memory.
    fn rank<T: Float>(
        &self,
        device: &Device,
        [rows, results]: [Symmetric<T>; 2],
        counts: Symmetric<u32>,
    ) -> Result<ExpertParallel<T>> {
        let Extents { experts, top_k, tokens, .. } = self.extents;
        Ok(ExpertParallel {
            rows,
            results,
            counts,
            offsets: device.zeros(experts / self.ranks + 1)?,
            places: device.zeros(2 * tokens * top_k)?,
            faults: device.zeros(FAULTS as usize)?,
            counters: device.zeros(BLOCKS as usize)?,
            extents: self.extents,
            capacity: self.capacity,
            blocks: self.blocks as u32,
            tokens: 0,
            patience: 0,
        })
    }
}

impl Extents {
    /// Returns the capacity.
    fn check<T>(&self, ranks: usize) -> Result<usize> {
        let Extents { experts, top_k, hidden, tokens, capacity } = *self;
        if [experts, top_k, hidden, tokens, capacity.unwrap_or(1), ranks].contains(&0) {
            return Err(not_possible(self, ranks, "extents that are not zero"));
        }
        if !experts.is_multiple_of(ranks) || experts > MOST_EXPERTS as usize {
            let possible = format!("up to {MOST_EXPERTS} experts, a multiple of the number of ranks");
            return Err(not_possible(self, ranks, &possible));
        }
        let bytes = hidden.saturating_mul(size_of::<T>());
        if !bytes.is_multiple_of(ACCESS) || bytes >= MOST || ranks > THREADS as usize {
            return Err(not_possible(self, ranks, "rows of a multiple of 16 bytes, up to 256 ranks"));
        }
        let most = [ranks, tokens, top_k].iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
        let most = most.filter(|most| most.saturating_mul(2) < MOST);
        let most = most.ok_or_else(|| not_possible(self, ranks, "ranks · tokens · top_k below 2^30"))?;
        Ok(capacity.unwrap_or(most).min(most))
    }
}

#[cold]
fn not_possible(extents: &Extents, ranks: usize, possible: &str) -> Error {
    Error::new(ErrorKind::Condition, format!("{ranks} ranks share {extents:?}")).possible(possible)
}

#[cold]
fn too_many(tokens: usize, most: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("`x` has {tokens} tokens"))
        .possible(format!("up to {most}, the `tokens` of the group"))
        .help("make the group for the most tokens that a rank has in a call")
}

#[cold]
fn other_tokens(tokens: usize, sent: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("`out` has {tokens} tokens"))
        .possible(format!("{sent}, as many as the last `dispatch` of this rank"))
}

#[cold]
fn apart(name: &str, shape: [usize; 2], strides: [usize; 2]) -> Error {
    let asked = format!("`{name}` of shape {shape:?} has strides of {strides:?} elements");
    Error::new(ErrorKind::Condition, asked)
        .possible("elements side by side, rows that begin at multiples of 16 bytes")
        .help("copy it into a buffer of its own first")
}

#[cold]
fn no_experts<T: Element>(ep: &ExpertParallel<T>, wrong: u32, pair: usize) -> Error {
    let (rank, top_k) = (ep.rank(), ep.extents.top_k);
    let asked = format!(
        "{wrong} of the `ids` of rank {rank} are no experts, the last one that of token {}, choice {}",
        pair / top_k,
        pair % top_k
    );
    Error::new(ErrorKind::Condition, asked).possible(format!("0 to {}, or `NO_EXPERT`", ep.extents.experts - 1))
}

#[cold]
fn no_capacity(rank: usize, full: u32, capacity: usize) -> Error {
    Error::new(
        ErrorKind::Condition,
        format!("{full} rows of rank {rank} exceed the capacity of the ranks of their experts"),
    )
    .possible(format!("{capacity} rows on each rank, the group's capacity"))
    .help("make the group with a larger `capacity`, or with `None`, for all rows")
}
