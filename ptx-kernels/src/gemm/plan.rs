//! The choice of a kernel: tables of candidates with what each can do and costs, and the division of K among blocks. Nothing here
//! allocates or launches, except that errors are texts.

use super::access::{Access, Packed};
use super::lanes::LANES;
use super::model::{self, Extents, FEW_ROWS, Group, Kernels, LOW};
use super::params::{self, Problem};
use super::problem::Product;
use super::tuning::{Costs, shipped};
use super::{mma, problem, simt, tile, tuned, wgmma};
use crate::workspace::FLAGS;
use ptx_launch::{Error, ErrorKind, Properties, Result, StreamRef};

/// Bytes of B along N up to which kernels for few rows read it along K: their loads meet in the lines of L1. Beyond, and if TMA would read a copy, up to
/// more bytes, because there is no launch for a copy.
const NEAR: u64 = 128 << 10;
const NEAR_COPIED: u64 = 2 << 20;

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
    /// True for operands that are K-major, or else MN-major, in aligned runs; nothing if any layout does.
    pub(crate) majors: Option<[bool; 2]>,
    /// For few rows alone: true for B whose neighbors along K are the nearest in memory, false for other ones.
    pub(crate) near: Option<bool>,
    /// Only for products without options, whose rows of C are such that TMA writes them.
    pub(crate) is_plain: bool,
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
    /// The ways to read A and B.
    access: [Access; 2],
    /// Bytes of workspace: the copies, then the sums of the parts of K.
    pub(crate) bytes: usize,
}

/// The kernels for one type: of `tile`, `wgmma` and `mma` for every pair of layouts of A and B, of `simt` for B along N and along K, and for few
/// rows whose operands both lie along K in aligned runs.
struct Table {
    candidates: [&'static [Candidate]; 3],
    tile: [Family<4>; 4],
    wgmma: [Family<4>; 4],
    mma: [Family<1>; 4],
    simt: [Family<1>; 3],
}

/// The kernels of a family that take operands in the same layout.
#[derive(Clone, Copy)]
struct Family<const GROUPS: usize> {
    groups: [Group; GROUPS],
    count: usize,
}

/// The kernels for each type.
static TABLES: [Table; 7] = {
    let mut tables = [const { Table::new(params::F32, [&[], &[], &[]]) }; 7];
    tables[params::F16 as usize] =
        Table::new(params::F16, [tile::OF_F16, wgmma::f16::CANDIDATES, mma::f16::CANDIDATES]);
    tables[params::BF16 as usize] =
        Table::new(params::BF16, [tile::OF_BF16, wgmma::bf16::CANDIDATES, mma::bf16::CANDIDATES]);
    tables[params::TF32 as usize] = Table::new(params::TF32, [&[], wgmma::tf32::CANDIDATES, mma::tf32::CANDIDATES]);
    tables[params::I8 as usize] = Table::new(params::I8, [&[], wgmma::i8::CANDIDATES, mma::i8::CANDIDATES]);
    tables[params::E4M3 as usize] = Table::new(params::E4M3, [&[], wgmma::e4m3::CANDIDATES, mma::e4m3::CANDIDATES]);
    tables[params::E5M2 as usize] = Table::new(params::E5M2, [&[], wgmma::e5m2::CANDIDATES, mma::e5m2::CANDIDATES]);
    tables
};

/// The operands that the kernels of a family can read.
#[derive(Clone, Copy)]
enum Operands {
    /// A and B in aligned runs, along K (true) or along the other dimension.
    Runs([bool; 2]),
    /// Any, element by element. Kernels for few rows want B's neighbors along K to be the nearest in memory, or not.
    Elements { near: bool },
    /// Few rows of A, and B, both along K in aligned runs; by elements, too.
    FewRuns,
}

impl Table {
    const fn new(kind: u32, candidates: [&'static [Candidate]; 3]) -> Table {
        let [tile, wgmma, mma] = candidates;
        Table {
            candidates,
            tile: Family::for_layouts(tile, kind),
            wgmma: Family::for_layouts(wgmma, kind),
            mma: Family::for_layouts(mma, kind),
            simt: [
                Family::new(simt::CANDIDATES, kind, Operands::Elements { near: false }),
                Family::new(simt::CANDIDATES, kind, Operands::Elements { near: true }),
                Family::new(simt::CANDIDATES, kind, Operands::FewRuns),
            ],
        }
    }
}

impl<const GROUPS: usize> Family<GROUPS> {
    /// The kernels of a list for operands of a type in aligned runs: a family for each layout of A and B.
    const fn for_layouts(candidates: &'static [Candidate], kind: u32) -> [Self; 4] {
        [
            Family::new(candidates, kind, Operands::Runs([false, false])),
            Family::new(candidates, kind, Operands::Runs([false, true])),
            Family::new(candidates, kind, Operands::Runs([true, false])),
            Family::new(candidates, kind, Operands::Runs([true, true])),
        ]
    }

    /// The kernels of a list for operands of a type.
    const fn new(candidates: &'static [Candidate], kind: u32, operands: Operands) -> Self {
        let (mut groups, mut count, mut at) = ([Group::EMPTY; GROUPS], 0, 0);
        while at < candidates.len() {
            if candidates[at].takes(kind) && candidates[at].reads(operands) {
                groups[count / LANES].set(count % LANES, &candidates[at], shipped(kind));
                count += 1;
            }
            at += 1;
        }
        Family { groups, count: count.div_ceil(LANES) }
    }

    /// The kernels, if the device has them.
    #[inline]
    fn on(&'static self, device: Properties) -> &'static [Group] {
        match self.groups[0].first() {
            Some(first) if first.is_on(device, false) => &self.groups[..self.count],
            _ => &[],
        }
    }
}

/// The kernels that a choice for a product compares, of those for its type that take its layouts on the device.
#[inline]
pub(crate) fn kernels_for(product: &Product, device: Properties, ways: &[[Access; 2]; 2]) -> Kernels {
    let table = &TABLES[product.kind as usize];
    let layouts = |[a, b]: &[Access; 2]| usize::from(a.along_k) << 1 | usize::from(b.along_k);
    let wgmma = table.wgmma[layouts(&ways[1])].on(device);
    let tile = if product.is_plain() { table.tile[layouts(&ways[1])].on(device) } else { &[] };
    // Where kernels of `wgmma` take operands as they lie, high tiles of others are never the fastest.
    let by_tma = !wgmma.is_empty() && ways[1].iter().all(|access| !access.is_copied);
    let limit = if ways[1][1].is_copied { NEAR_COPIED } else { NEAR };
    let near = product.b.is_along_k(product.n, product.k)
        || u64::from(product.n) * u64::from(product.k) * problem::size(product.kind) <= limit;
    let in_runs = product.m <= FEW_ROWS && ways[0].iter().all(|access| access.along_k && !access.is_copied);
    let few = if near && in_runs { 2 } else { usize::from(near) };
    let simt = if by_tma && product.m > FEW_ROWS { &[] } else { table.simt[few].on(device) };
    let highest = if by_tma { LOW as f32 } else { f32::INFINITY };
    Kernels { families: [tile, wgmma, table.mma[layouts(&ways[0])].on(device), simt], highest }
}

/// The names of all kernels, for [`Gemm::algorithm`](super::Gemm::algorithm).
///
/// ```
/// assert!(ptx_kernels::gemm::algorithms().any(|name| name == "simt_f32_large"));
/// ```
pub fn algorithms() -> impl Iterator<Item = &'static str> {
    let candidates = TABLES.iter().flat_map(|table| table.candidates).flatten().chain(simt::CANDIDATES);
    candidates.map(|candidate| candidate.name).chain([tuned::NAME])
}

/// The kernels for one element type, and a few for others.
pub(crate) fn candidates_of(kind: u32) -> impl Iterator<Item = &'static Candidate> {
    TABLES[kind as usize].candidates.into_iter().flatten().chain(simt::CANDIDATES)
}

impl Candidate {
    /// True for operands of a type. Exact products of `f32` do for `tf32`.
    const fn takes(&self, kind: u32) -> bool {
        kind == self.kind || kind == params::TF32 && self.kind == params::F32
    }

    /// True for such operands.
    const fn reads(&self, operands: Operands) -> bool {
        match (operands, self.majors, self.near) {
            (Operands::Runs([a, b]), Some(majors), _) => majors[0] == a && majors[1] == b,
            (Operands::Runs(_), None, _) | (Operands::Elements { .. }, None, None) => true,
            (Operands::Elements { near }, None, Some(this)) => this == near,
            (Operands::Elements { .. }, Some(_), _) => false,
            (Operands::FewRuns, _, near) => matches!(near, Some(true)),
        }
    }

    /// True if the device has the kernel. On the CPU device, kernels for Hopper are taken if they are `named`.
    #[inline]
    fn is_on(&self, device: Properties, named: bool) -> bool {
        match device.capability {
            None => named || self.cluster.is_none(),
            Some(capability) if self.cluster.is_some() => capability == self.capability,
            Some(capability) => capability >= self.capability,
        }
    }

    /// The division of a product in `splits` parts of K, or fewer if it has not so many slices.
    #[inline]
    pub(crate) fn plan(&'static self, product: &Product, access: &[Access; 2], splits: u32) -> Plan {
        let slices = (product.k.div_ceil(self.depth)).max(1);
        let (each, splits) = divide_slices(slices, if self.is_plain { 1 } else { splits.clamp(1, slices) });
        let of = |access: Access| Access { is_copied: access.is_copied && self.majors.is_some(), ..access };
        let access = [of(access[0]), of(access[1])];
        let k_split = each.saturating_mul(self.depth);
        let plan = Plan { candidate: self, splits, k_split, access, bytes: 0 };
        let copies = plan.packed(product).iter().flatten().fold(0, |all: usize, copy| all.saturating_add(copy.bytes()));
        Plan { bytes: copies.saturating_add(plan.partial_bytes(product)), ..plan }
    }
}

impl Plan {
    /// The copies of A and B that are made first.
    pub(crate) fn packed(&self, product: &Product) -> [Option<Packed>; 2] {
        Packed::of(product, &self.access)
    }

    /// True where the runs that A and B are read in are of 16 bytes.
    pub(crate) fn wide(&self) -> [bool; 2] {
        [self.access[0].wide, self.access[1].wide]
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

    /// The kind of its tile.
    pub(crate) fn tile(&self) -> usize {
        self.candidate.cost
    }

    /// Its time, in picoseconds, beside that of any launch.
    pub(crate) fn time(&self, product: &Product, sms: u32, costs: &Costs) -> f32 {
        let ways = Access::ways(product);
        Group::alone(self.candidate, costs).time(&Extents::new(product, &ways, sms, costs), self.splits)
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
    let ways = Access::ways(product);
    let costs = shipped(product.kind);
    let extents = Extents::new(product, &ways, device.multiprocessors, costs);
    let takes = |candidate: &&'static Candidate| {
        let layouts = ways[usize::from(candidate.cluster.is_some())].map(|access| access.along_k);
        candidate.takes(product.kind)
            && candidate.majors.is_none_or(|majors| majors == layouts)
            && candidate.is_on(device, true)
            && (!candidate.is_plain || product.is_plain())
            && model::counts(candidate, &extents, costs)
    };
    let plan = candidates_of(product.kind)
        .find(|candidate| candidate.name == name)
        .filter(takes)
        .map(|candidate| candidate.plan(product, &ways[usize::from(candidate.cluster.is_some())], splits));
    match plan {
        Some(plan) if plan.bytes <= available => Ok(plan),
        Some(plan) => Err(too_large(&plan, available)),
        None => {
            let fitting: Vec<_> = candidates_of(product.kind).filter(takes).map(|candidate| candidate.name).collect();
            Err(not_possible(name, product, device, &fitting))
        }
    }
}

#[cold]
pub(crate) fn no_kernel(product: &Product, device: Properties) -> Error {
    let asked = format!("operands of {} are multiplied on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked).possible("devices from sm_75 on")
}

#[cold]
fn not_possible(name: &str, product: &Product, device: Properties, fitting: &[&str]) -> Error {
    let asked = format!("operands of {} are multiplied by `{name}` on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked).possible(fitting.join(", "))
}

#[cold]
fn too_large(plan: &Plan, available: usize) -> Error {
    let Plan { candidate, splits, bytes, .. } = *plan;
    // Too many tiles for the counters have no number of bytes.
    let bytes = if bytes == usize::MAX { "too many".to_owned() } else { bytes.to_string() };
    let asked = format!("`{}` takes {bytes} bytes of workspace (parts of K: {splits})", candidate.name);
    Error::new(ErrorKind::Unsupported, asked)
        .possible(format!("{available} bytes, as there are"))
        .help("fewer parts of K, or a larger workspace (`Gemm::workspace`)")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
