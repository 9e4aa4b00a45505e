//! The choice of a kernel: a table of candidates with what each can do and costs, and the division of K among blocks. Nothing here
//! allocates or launches.

use super::access::{Access, Packed};
use super::model::{Extents, Table};
use super::params::{self, Problem};
use super::problem::Product;
use super::tuning::{Costs, shipped};
use super::{mma, problem, simt, tuned, wgmma};
use crate::workspace::FLAGS;
use ptx_launch::{Error, ErrorKind, Properties, Result, StreamRef};

/// Submits one launch of a kernel: the product, and its division among blocks.
pub(crate) type Launch = fn(StreamRef<'_>, &Product, Problem) -> Result<()>;

/// A kernel, and all that the choice depends on.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    /// Element type of A and B.
    pub(crate) kind: u32,
    /// The least compute capability.
    pub(crate) capability: u16,
    /// For Hopper alone, the blocks of a cluster along M and N: operands come by TMA, persistent clusters take tiles, and the kernel adds parts
    /// of K up.
    pub(crate) cluster: Option<[u32; 2]>,
    /// The same operands give the same bits each time.
    pub(crate) deterministic: bool,
    /// True for operands that are K-major, or else MN-major, in aligned runs; nothing if any layout does.
    pub(crate) majors: Option<[bool; 2]>,
    /// True for B whose neighbors along K are the nearest in memory, false for other ones; nothing if any B does.
    pub(crate) near: Option<bool>,
    /// A block's tile, and the extent along K of its slices, a power of two.
    pub(crate) block_m: u32,
    pub(crate) block_n: u32,
    pub(crate) depth: u32,
    /// The kind of tile, by which its times are found in [`Costs`].
    pub(crate) cost: usize,
    pub(crate) launch: Launch,
}

/// A kernel, and the division of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) candidate: &'static Candidate,
    pub(crate) splits: u32,
    /// Extent of a part of K.
    pub(crate) k_split: u32,
    /// The copies of A and B that are made first.
    pub(crate) packed: [Option<Packed>; 2],
    /// The runs that A and B are read in are of 16 bytes.
    pub(crate) wide: [bool; 2],
    /// Bytes of workspace: the copies, then the sums of the parts of K.
    pub(crate) bytes: usize,
}

/// All kernels.
const TABLES: &[&[Candidate]] = &[
    mma::f16::CANDIDATES,
    mma::bf16::CANDIDATES,
    mma::tf32::CANDIDATES,
    mma::i8::CANDIDATES,
    mma::e4m3::CANDIDATES,
    mma::e5m2::CANDIDATES,
    wgmma::f16::CANDIDATES,
    wgmma::bf16::CANDIDATES,
    wgmma::tf32::CANDIDATES,
    wgmma::i8::CANDIDATES,
    wgmma::e4m3::CANDIDATES,
    wgmma::e5m2::CANDIDATES,
    simt::CANDIDATES,
    simt::FEW_ROWS,
];

/// Room for the kernels that take a product, whatever its type and its layouts.
pub(crate) const MOST: usize = 20;
const _: () = {
    let mut layouts = 0;
    while layouts < 8 {
        let [a, b, near] = [layouts & 1 > 0, layouts & 2 > 0, layouts & 4 > 0];
        let kinds = [params::F32, params::TF32, params::F16, params::BF16, params::I8, params::E4M3, params::E5M2];
        let mut at = 0;
        while at < kinds.len() {
            assert!(count(kinds[at], [a, b], near) <= MOST);
            at += 1;
        }
        layouts += 1;
    }
};

/// The kernels for a type and for layouts of A and B.
const fn count(kind: u32, [a, b]: [bool; 2], near: bool) -> usize {
    let (mut count, mut table) = (0, 0);
    while table < TABLES.len() {
        let mut at = 0;
        while at < TABLES[table].len() {
            let candidate = &TABLES[table][at];
            let is_kind = candidate.takes(kind);
            let majors = if let Some([of_a, of_b]) = candidate.majors { of_a == a && of_b == b } else { true };
            let is_near = if let Some(of_b) = candidate.near { of_b == near } else { true };
            count += (is_kind && majors && is_near) as usize;
            at += 1;
        }
        table += 1;
    }
    count
}

/// The names of all kernels, for [`Gemm::algorithm`](super::Gemm::algorithm).
///
/// ```
/// assert!(ptx_kernels::gemm::algorithms().any(|name| name == "simt_f32_large"));
/// ```
pub fn algorithms() -> impl Iterator<Item = &'static str> {
    candidates().map(|candidate| candidate.name).chain([tuned::NAME])
}

fn candidates() -> impl Iterator<Item = &'static Candidate> {
    TABLES.iter().copied().flatten()
}

/// The kernels for one element type, and a few for others.
pub(crate) fn candidates_of(kind: u32) -> impl Iterator<Item = &'static Candidate> {
    let (fast, hopper): (&[_], &[_]) = match kind {
        params::F16 => (mma::f16::CANDIDATES, wgmma::f16::CANDIDATES),
        params::BF16 => (mma::bf16::CANDIDATES, wgmma::bf16::CANDIDATES),
        params::TF32 => (mma::tf32::CANDIDATES, wgmma::tf32::CANDIDATES),
        params::I8 => (mma::i8::CANDIDATES, wgmma::i8::CANDIDATES),
        params::E4M3 => (mma::e4m3::CANDIDATES, wgmma::e4m3::CANDIDATES),
        params::E5M2 => (mma::e5m2::CANDIDATES, wgmma::e5m2::CANDIDATES),
        _ => (&[], &[]),
    };
    hopper.iter().chain(fast).chain(simt::CANDIDATES).chain(simt::FEW_ROWS)
}

impl Candidate {
    /// True for operands of a type. Exact products of `f32` do for `tf32`.
    const fn takes(&self, kind: u32) -> bool {
        kind == self.kind || kind == params::TF32 && self.kind == params::F32
    }

    /// True if the kernel takes products with such operands on the device, but for its size. On the CPU device, kernels for Hopper are taken
    /// if they are `named`.
    pub(crate) fn runs(&self, product: &Product, device: Properties, access: &[Access; 2], named: bool) -> bool {
        let kind = self.takes(product.kind);
        let majors = self.majors.is_none_or(|majors| majors == access.map(|access| access.layout.along_k));
        if !kind || !majors || product.deterministic && !self.deterministic {
            return false;
        }
        let near = named || self.near.is_none_or(|near| near == product.b.is_along_k(product.n, product.k));
        let target = match device.capability {
            None => named || self.cluster.is_none(),
            Some(capability) if self.cluster.is_some() => capability == self.capability,
            Some(capability) => capability >= self.capability,
        };
        near && target
    }

    /// The division of a product in `splits` parts of K, or fewer if it has not so many slices.
    #[inline]
    pub(crate) fn plan(&'static self, product: &Product, access: &[Access; 2], splits: u32) -> Plan {
        let slices = (product.k.div_ceil(self.depth)).max(1);
        let (each, splits) = divide_slices(slices, splits.clamp(1, slices));
        let packed = |access: &Access| if self.majors.is_some() { access.packed } else { None };
        let (packed, wide) = ([packed(&access[0]), packed(&access[1])], [access[0].layout.wide, access[1].layout.wide]);
        let k_split = each.saturating_mul(self.depth);
        let plan = Plan { candidate: self, splits, k_split, packed, wide, bytes: 0 };
        let copies = plan.packed_bytes();
        Plan { bytes: copies[0].saturating_add(copies[1]).saturating_add(plan.partial_bytes(product)), ..plan }
    }
}

impl Plan {
    /// Bytes of the copies of A and B.
    #[inline]
    pub(crate) fn packed_bytes(&self) -> [usize; 2] {
        let bytes = |packed: &Option<Packed>| packed.as_ref().map_or(0, Packed::bytes);
        [bytes(&self.packed[0]), bytes(&self.packed[1])]
    }

    /// Bytes of the sums of all parts of K.
    #[inline]
    fn partial_bytes(&self, product: &Product) -> usize {
        if self.splits == 1 {
            return 0;
        }
        let matrix = if self.candidate.cluster.is_some() {
            // Whole tiles of clusters, and a counter for each warp group.
            let [rows, columns] = self.tiles(product);
            let (rows, columns) = ((rows as usize).next_multiple_of(2), (columns as usize).next_multiple_of(2));
            let area = self.candidate.block_m as usize * self.candidate.block_n as usize;
            let tiles = rows.saturating_mul(columns).saturating_mul(product.batches);
            if tiles > FLAGS / 2 {
                return usize::MAX;
            }
            tiles.saturating_mul(area)
        } else {
            (product.m as usize).saturating_mul(problem::pitch(product.n) as usize).saturating_mul(product.batches)
        };
        matrix.saturating_mul(4).saturating_mul(self.splits as usize)
    }

    /// Tiles along M and N.
    #[inline]
    pub(crate) fn tiles(&self, product: &Product) -> [u32; 2] {
        [product.m.div_ceil(self.candidate.block_m), product.n.div_ceil(self.candidate.block_n)]
    }
}

/// A kernel, and a number of parts of K.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    candidate: &'static Candidate,
    splits: u32,
}

impl Way {
    /// The kernel of this name, if it takes the product on `sm_90`.
    pub(crate) fn named(product: &Product, name: &str, splits: u32) -> Option<Way> {
        let candidate = candidates_of(product.kind).find(|candidate| candidate.name == name)?;
        Some(Way { candidate, splits })
    }

    /// Its time, in picoseconds, beside that of any launch.
    pub(crate) fn time(&self, product: &Product, sms: u32, costs: &Costs) -> f32 {
        let ways = [false, true].map(|tma| Access::both(product, tma));
        let table = Table::<1>::new([self.candidate].into_iter(), sms, costs);
        table.time(&Extents::new(product, &ways, costs), self.splits)
    }
}

/// The slices of each of about so many parts of K, and the number of parts.
#[inline]
pub(super) const fn divide_slices(slices: u32, splits: u32) -> (u32, u32) {
    let each = slices.div_ceil(splits);
    (each, slices.div_ceil(each))
}

/// The plan with this kernel.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is no such kernel, or if it does not take the operands, the device, or the workspace.
pub(crate) fn named(product: &Product, device: Properties, available: usize, name: &str, splits: u32) -> Result<Plan> {
    let ways = [false, true].map(|tma| Access::both(product, tma));
    let extents = Extents::new(product, &ways, shipped(product.kind));
    let takes = |candidate: &&Candidate| {
        let access = &ways[usize::from(candidate.cluster.is_some())];
        candidate.runs(product, device, access, true) && candidate.counts(&extents)
    };
    let plan = candidates_of(product.kind)
        .find(|candidate| candidate.name == name)
        .filter(takes)
        .map(|candidate| candidate.plan(product, &ways[usize::from(candidate.cluster.is_some())], splits));
    plan.filter(|plan| plan.bytes <= available).ok_or_else(|| {
        let fitting: Vec<_> = candidates_of(product.kind).filter(takes).map(|candidate| candidate.name).collect();
        not_possible(name, product, device, &fitting)
    })
}

#[cold]
pub(crate) fn no_kernel(product: &Product, device: Properties) -> Error {
    let asked = format!("operands of {} are multiplied on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked).possible("devices from sm_75 on")
}

#[cold]
fn not_possible(name: &str, product: &Product, device: Properties, fitting: &[&str]) -> Error {
    let asked = format!("operands of {} are multiplied by `{name}` on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked)
        .possible(fitting.join(", "))
        .help("or a larger workspace, for K in several parts")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
