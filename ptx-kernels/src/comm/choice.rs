//! The choice between one kernel of ours, separate kernels, and NCCL, by the size of the work.
//!
//! [`MEASURED`] is the table: the times that two H200 with NVLink took, in `bf16`. [`choose`] takes the way with the least time at the nearest size among those that
//! are possible, and [`Choice`] has the way and the reason.
//!
//! | operation | chosen, where all ways are possible |
//! |---|---|
//! | all-reduce, 16 KiB to 64 MiB | ours |
//! | GEMM + reduce-scatter | ours at 4096 × 8192 × 4096, separate kernels at 8192 × 8192 × 14336 |
//! | GEMM + all-reduce, all-gather + GEMM | ours |
//!
//! Other numbers of ranks, types and chips have not been measured: the same table is used for them. Without NCCL, or without a communicator, our kernels do everything
//! that they can.

#[cfg(feature = "gemm")]
use super::{Algorithm, all_reduce_by, products, reduce_scatter};
use super::{Float, MOST_ANYWHERE, Rank, all_reduce as reduce, all_reduce_anywhere, too_large};
#[cfg(feature = "gemm")]
use crate::gemm;
use ptx_launch::{Buffer, Result, Stream, Symmetric};
#[cfg(feature = "gemm")]
use ptx_launch::{IntoTensor, StreamRef, TensorMut, TensorRef};
use std::fmt;

/// NCCL's names, where the feature `nccl` is on.
#[cfg(feature = "nccl")]
mod nccl {
    pub use ptx_launch::{Communicator, NcclElement as Element};
}

/// Types in their place: there is no communicator.
#[cfg(not(feature = "nccl"))]
mod nccl {
    /// A communicator of NCCL: there is none without the feature `nccl`.
    #[derive(Debug)]
    pub enum Communicator {}

    /// Any type.
    pub trait Element {}
    impl<T> Element for T {}
}

pub use nccl::{Communicator, Element};

/// An operation of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`all_reduce`](super::all_reduce)
    AllReduce,
    /// [`products::gemm_reduce_scatter`](super::products)
    GemmReduceScatter,
    /// [`products::gemm_all_reduce`](super::products)
    GemmAllReduce,
    /// [`products::all_gather_gemm`](super::products)
    AllGatherGemm,
}

/// Work on each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// The sum of so many bytes, in place.
    AllReduce {
        /// Bytes of a rank.
        bytes: usize,
        /// In symmetric memory.
        is_symmetric: bool,
    },
    /// A product of M, N and K, whose sum over the ranks is scattered.
    GemmReduceScatter([usize; 3]),
    /// A product of M, N and K, whose sum over the ranks every rank gets.
    GemmAllReduce([usize; 3]),
    /// A product of M, N and K with the rows of all ranks.
    AllGatherGemm([usize; 3]),
}

/// The means of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Means {
    /// Number of ranks.
    pub ranks: usize,
    /// There is a communicator of NCCL.
    pub has_nccl: bool,
    /// The kernels of [`products`] run on the devices: Hopper, and the CPU device.
    pub has_products: bool,
}

/// A way to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// One kernel of ours.
    Ours,
    /// Our product and our collective operation, one after the other.
    Separate,
    /// NCCL; for a product, behind ours or before it.
    Nccl,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// The operation.
    pub operation: Operation,
    /// Its size for people: bytes, or M × N × K.
    pub name: &'static str,
    /// Bytes of a rank, or M · N · K.
    pub size: u64,
    /// Microseconds of [`Way::Ours`], [`Way::Separate`] and [`Way::Nccl`]; infinite where there is no such way.
    pub times: [f64; 3],
}

/// A way, and the reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// The row of the table that decided; `None` if no other way was possible.
    pub measured: Option<&'static Measurement>,
}

const NONE: f64 = f64::INFINITY;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SMALL: (&str, u64) = ("4096 × 8192 × 4096", 4096 * 8192 * 4096);
const LARGE: (&str, u64) = ("8192 × 8192 × 14336", 8192 * 8192 * 14336);

const fn row(operation: Operation, (name, size): (&'static str, u64), times: [f64; 3]) -> Measurement {
    Measurement { operation, name, size, times }
}

/// Times on two H200 with NVLink: `benches/results/all-reduce.json` and `benches/results/products.json`.
#[rustfmt::skip]
pub const MEASURED: [Measurement; 16] = {
    use Operation::{AllGatherGemm, AllReduce, GemmAllReduce, GemmReduceScatter};
    [
        row(AllReduce, ("16 KiB", 16 * KIB), [2.56, NONE, 6.78]),
        row(AllReduce, ("64 KiB", 64 * KIB), [2.82, NONE, 7.24]),
        row(AllReduce, ("128 KiB", 128 * KIB), [3.26, NONE, 7.34]),
        row(AllReduce, ("256 KiB", 256 * KIB), [4.01, NONE, 8.45]),
        row(AllReduce, ("512 KiB", 512 * KIB), [5.32, NONE, 10.02]),
        row(AllReduce, ("1 MiB", MIB), [8.09, NONE, 13.74]),
        row(AllReduce, ("2 MiB", 2 * MIB), [11.63, NONE, 27.25]),
        row(AllReduce, ("4 MiB", 4 * MIB), [17.30, NONE, 32.64]),
        row(AllReduce, ("16 MiB", 16 * MIB), [52.41, NONE, 74.14]),
        row(AllReduce, ("64 MiB", 64 * MIB), [195.4, NONE, 247.6]),
        row(GemmReduceScatter, SMALL, [415.7, 517.5, 579.8]),
        row(GemmReduceScatter, LARGE, [2884.9, 2887.5, 2940.7]),
        row(GemmAllReduce, SMALL, [445.0, 603.0, 640.7]),
        row(GemmAllReduce, LARGE, [2941.7, 2976.3, 3028.3]),
        row(AllGatherGemm, SMALL, [392.9, 449.1, 463.3]),
        row(AllGatherGemm, LARGE, [2860.1, 2947.9, 3037.8]),
    ]
};

impl Work {
    /// The operation.
    pub fn operation(self) -> Operation {
        match self {
            Work::AllReduce { .. } => Operation::AllReduce,
            Work::GemmReduceScatter(_) => Operation::GemmReduceScatter,
            Work::GemmAllReduce(_) => Operation::GemmAllReduce,
            Work::AllGatherGemm(_) => Operation::AllGatherGemm,
        }
    }

    /// The size as the table has it.
    fn size(self) -> u64 {
        match self {
            Work::AllReduce { bytes, .. } => bytes as u64,
            Work::GemmReduceScatter(extents) | Work::GemmAllReduce(extents) | Work::AllGatherGemm(extents) => {
                extents.iter().fold(1, |size: u64, extent| size.saturating_mul(*extent as u64))
            }
        }
    }

    /// Returns true if this is a way for it.
    fn can(self, way: Way, means: Means) -> bool {
        match (self, way) {
            (_, Way::Nccl) => means.has_nccl,
            (Work::AllReduce { bytes, is_symmetric }, Way::Ours) => is_symmetric || bytes <= MOST_ANYWHERE,
            (Work::AllReduce { .. }, Way::Separate) => false,
            (Work::GemmReduceScatter(mnk) | Work::GemmAllReduce(mnk) | Work::AllGatherGemm(mnk), Way::Ours) => {
                means.has_products && product_fits(mnk, means.ranks)
            }
            (_, Way::Separate) => true,
        }
    }
}

/// Returns true if the products that communicate take these M, N and K: M in equal parts, K and N multiples of 8, up to 8 ranks.
pub(super) fn product_fits([m, n, k]: [usize; 3], ranks: usize) -> bool {
    let is_small = [m, n, k].iter().all(|extent| *extent < 1 << 31);
    (1..=8).contains(&ranks)
        && is_small
        && m.is_multiple_of(ranks)
        && n.is_multiple_of(8)
        && k.is_multiple_of(8)
        && k > 0
}

/// The fastest of the possible ways at the nearest size of the table. `None` if no way is possible: an all-reduce of more than [`MOST_ANYWHERE`] bytes that are not
/// in symmetric memory, without NCCL.
///
/// ```
/// use ptx_kernels::comm::choice::{Means, Way, Work, choose};
/// let means = Means { ranks: 2, has_nccl: true, has_products: true };
/// let product = choose(Work::GemmReduceScatter([4096, 8192, 4096]), means).unwrap();
/// assert_eq!(product.way, Way::Ours);
/// assert_eq!(product.to_string(), "one kernel of ours, with 415.7 µs the fastest at 4096 × 8192 × 4096 (separate kernels 517.5, NCCL 579.8)");
/// ```
pub fn choose(work: Work, means: Means) -> Option<Choice> {
    let possible = [Way::Ours, Way::Separate, Way::Nccl].into_iter().filter(|way| work.can(*way, means));
    let size = work.size().max(1) as f64;
    let distance = |row: &Measurement| (size / row.size as f64).ln().abs();
    let rows = MEASURED.iter().filter(|row| row.operation == work.operation());
    let row = rows.min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
    let time = |way: Way| row.times[way as usize];
    let way = possible.clone().min_by(|one, other| time(*one).total_cmp(&time(*other)))?;
    Some(Choice { way, measured: (possible.count() > 1).then_some(row) })
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Ours => "one kernel of ours",
            Way::Separate => "separate kernels",
            Way::Nccl => "NCCL",
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(row) = self.measured else { return write!(f, "{}, the only way", self.way) };
        write!(f, "{}, with {} µs the fastest at {}", self.way, row.times[self.way as usize], row.name)?;
        let others = [Way::Ours, Way::Separate, Way::Nccl].into_iter().filter(|way| *way != self.way);
        let others = others.map(|way| (way, row.times[way as usize])).filter(|(_, time)| time.is_finite());
        let others: Vec<String> = others.map(|(way, time)| format!("{way} {time}")).collect();
        write!(f, " ({})", others.join(", "))
    }
}

/// Memory of a rank, symmetric or not.
#[derive(Debug)]
pub enum Memory<'a, T: ptx_launch::Element> {
    /// A rank's part of symmetric memory.
    Symmetric(&'a mut Symmetric<T>),
    /// Any other.
    Plain(&'a mut Buffer<T>),
}

impl<'a, T: ptx_launch::Element> From<&'a mut Symmetric<T>> for Memory<'a, T> {
    fn from(x: &'a mut Symmetric<T>) -> Self {
        Memory::Symmetric(x)
    }
}

impl<'a, T: ptx_launch::Element> From<&'a mut Buffer<T>> for Memory<'a, T> {
    fn from(x: &'a mut Buffer<T>) -> Self {
        Memory::Plain(x)
    }
}

/// `x` = the sum of `x` over all ranks, by the way that [`choose`] takes; with `communicator` it may be NCCL. Every rank passes memory of the same kind and length,
/// and all of them a communicator or none.
///
/// # Errors
/// As [`comm::all_reduce`](super::all_reduce), [`all_reduce_anywhere`], and NCCL's; [`ErrorKind::Unsupported`](ptx_launch::ErrorKind::Unsupported) where no way is possible.
pub fn all_reduce<'x, T: Float + Element>(
    stream: &Stream,
    rank: &mut Rank,
    x: impl Into<Memory<'x, T>>,
    communicator: Option<&Communicator>,
) -> Result<Choice> {
    let x = x.into();
    let (len, is_symmetric) = match &x {
        Memory::Symmetric(x) => (x.len(), true),
        Memory::Plain(x) => (x.len(), false),
    };
    let means = Means { ranks: rank.ranks(), has_nccl: communicator.is_some(), has_products: false };
    let choice = choose(Work::AllReduce { bytes: len * size_of::<T>(), is_symmetric }, means);
    let choice = choice.ok_or_else(|| too_large(len, size_of::<T>()))?;
    match (communicator.filter(|_| choice.way == Way::Nccl), x) {
        (Some(communicator), Memory::Symmetric(x)) => by_nccl(communicator, stream, x)?,
        (Some(communicator), Memory::Plain(x)) => by_nccl(communicator, stream, x)?,
        (None, Memory::Symmetric(x)) => reduce(stream, rank, x)?,
        (None, Memory::Plain(x)) => all_reduce_anywhere(stream, rank, x.tile_mut([len])?)?,
    }
    Ok(choice)
}

#[cfg(feature = "nccl")]
fn by_nccl<T: Float + Element>(by: &Communicator, stream: &Stream, x: &mut Buffer<T>) -> Result<()> {
    by.all_reduce(stream, x, ptx_launch::Reduction::Sum)
}

#[cfg(not(feature = "nccl"))]
fn by_nccl<T: Float + Element>(by: &Communicator, _: &Stream, _: &mut Buffer<T>) -> Result<()> {
    match *by {}
}

/// A rank of products that communicate, and of separate operations.
#[cfg(feature = "gemm")]
#[derive(Debug)]
pub struct Both<'a> {
    /// For one kernel.
    pub product: &'a mut products::Rank,
    /// For separate kernels.
    pub collective: &'a mut Rank,
}

/// [`products::gemm_reduce_scatter`], or [`gemm`](crate::gemm::gemm) into `whole` and [`reduce_scatter`], as [`choose`] takes. `whole` has M × N elements, `c` those of M /
/// ranks rows of N.
///
/// # Errors
/// Those of the operations that are chosen.
#[cfg(feature = "gemm")]
pub fn gemm_reduce_scatter<'t, T>(
    stream: &Stream,
    ranks: Both<'_>,
    a: impl IntoTensor<'t, T, 2>,
    b: impl IntoTensor<'t, T, 2>,
    whole: &mut Symmetric<T>,
    c: &mut Buffer<T>,
) -> Result<Choice>
where
    T: products::Half + Float + gemm::Operand + gemm::Output<T>,
{
    let (a, b) = (a.into(), b.into());
    let [m, n, _] = extents(&a, &b);
    let choice = of_product(stream, Work::GemmReduceScatter(extents(&a, &b)), ranks.product)?;
    match choice.way {
        Way::Ours => {
            let c = TensorMut::strided(c, [m / ranks.product.ranks(), n], [n, 1])?;
            products::gemm_reduce_scatter(stream, ranks.product, a, b, c)?;
        }
        _ => {
            gemm::gemm(stream, a, b, TensorMut::strided(&mut **whole, [m, n], [n, 1])?)?;
            let len = c.len();
            reduce_scatter(stream, ranks.collective, whole, c.tile_mut([len])?)?;
        }
    }
    Ok(choice)
}

/// [`products::gemm_all_reduce`], or [`gemm`](crate::gemm::gemm) and an all-reduce, as [`choose`] takes. `c` has M × N elements from its first one on.
///
/// # Errors
/// Those of the operations that are chosen.
#[cfg(feature = "gemm")]
pub fn gemm_all_reduce<'t, T>(
    stream: &Stream,
    ranks: Both<'_>,
    a: impl IntoTensor<'t, T, 2>,
    b: impl IntoTensor<'t, T, 2>,
    c: &mut Symmetric<T>,
) -> Result<Choice>
where
    T: products::Half + Float + gemm::Operand + gemm::Output<T>,
{
    let (a, b) = (a.into(), b.into());
    let [m, n, _] = extents(&a, &b);
    let choice = of_product(stream, Work::GemmAllReduce(extents(&a, &b)), ranks.product)?;
    match choice.way {
        Way::Ours => products::gemm_all_reduce(stream, ranks.product, a, b, c)?,
        _ => {
            gemm::gemm(stream, a, b, TensorMut::strided(&mut **c, [m, n], [n, 1])?)?;
            all_reduce_by(Algorithm::of::<T>(m * n, ranks.collective.ranks()), stream, ranks.collective, c, m * n)?;
        }
    }
    Ok(choice)
}

#[cfg(feature = "gemm")]
fn extents<T>(a: &TensorRef<'_, T, 2>, b: &TensorRef<'_, T, 2>) -> [usize; 3] {
    [a.shape()[0], b.shape()[1], a.shape()[1]]
}

/// The choice for a product, without NCCL, which is nowhere the fastest.
#[cfg(feature = "gemm")]
fn of_product(stream: &Stream, work: Work, rank: &products::Rank) -> Result<Choice> {
    let on: StreamRef<'_> = ptx_launch::AsStream::as_stream(&stream);
    let has_products = on.properties()?.capability.is_none_or(|capability| (90..100).contains(&capability));
    let means = Means { ranks: rank.ranks(), has_nccl: false, has_products };
    // Separate kernels are always possible.
    Ok(choose(work, means).unwrap_or(Choice { way: Way::Separate, measured: None }))
}
