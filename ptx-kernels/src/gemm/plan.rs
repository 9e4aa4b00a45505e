//! The choice of a kernel: a table of candidates with what each can do and costs, and the division of K among blocks. Nothing here
//! allocates or launches.

use super::access::{Access, Packed};
use super::params::{self, Problem};
use super::problem::Product;
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
    /// For Hopper alone: operands come by TMA, and the kernel adds parts of K up.
    pub(crate) hopper: bool,
    /// The same operands give the same bits each time.
    pub(crate) deterministic: bool,
    /// True for operands that are K-major, or else MN-major, in aligned runs; nothing if any layout does.
    pub(crate) majors: Option<[bool; 2]>,
    /// A block's tile, and the extent along K of its slices: powers of two.
    pub(crate) block_m: u32,
    pub(crate) block_n: u32,
    pub(crate) depth: u32,
    /// Time of a slice, in picoseconds, on an SM with enough blocks, and for a block at least.
    pub(crate) slice: f64,
    pub(crate) latency: f64,
    /// Time before the first slice of a tile and behind the last one, in picoseconds.
    pub(crate) tile: f64,
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
];

/// Time of another launch, in picoseconds.
const ANOTHER: f64 = 6e6;
/// Time in which an SM brings a byte from memory, in picoseconds.
const BYTE: f64 = 40.0;

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
fn candidates_of(kind: u32) -> impl Iterator<Item = &'static Candidate> {
    let (fast, hopper): (&[_], &[_]) = match kind {
        params::F16 => (mma::f16::CANDIDATES, wgmma::f16::CANDIDATES),
        params::BF16 => (mma::bf16::CANDIDATES, wgmma::bf16::CANDIDATES),
        params::TF32 => (mma::tf32::CANDIDATES, wgmma::tf32::CANDIDATES),
        params::I8 => (mma::i8::CANDIDATES, wgmma::i8::CANDIDATES),
        params::E4M3 => (mma::e4m3::CANDIDATES, wgmma::e4m3::CANDIDATES),
        params::E5M2 => (mma::e5m2::CANDIDATES, wgmma::e5m2::CANDIDATES),
        _ => (&[], &[]),
    };
    fast.iter().chain(hopper).chain(simt::CANDIDATES)
}

impl Candidate {
    /// True if the kernel takes the product. On the CPU device, kernels for Hopper are taken if they are `named`.
    fn runs(&self, product: &Product, device: Properties, access: &[Access; 2], named: bool) -> bool {
        // Exact products of `f32` do for `tf32`.
        let kind = product.kind == self.kind || (product.kind, self.kind) == (params::TF32, params::F32);
        let majors = self.majors.is_none_or(|majors| majors == access.map(|access| access.layout.along_k));
        let bits = self.deterministic || !product.deterministic;
        let target = match device.capability {
            None => named || !self.hopper,
            Some(capability) if self.hopper => capability == self.capability,
            Some(capability) => capability >= self.capability,
        };
        kind && majors && bits && target && (product.k > 0 || !self.hopper)
    }

    /// The division of a product in `splits` parts of K, or fewer if it has not so many slices.
    pub(crate) fn plan(&'static self, product: &Product, access: &[Access; 2], splits: u32) -> Plan {
        let slices = tiles(product.k, self.depth).max(1);
        let each = slices.div_ceil(splits.clamp(1, slices));
        let splits = slices.div_ceil(each);
        let in_runs = self.majors.is_some();
        let packed = access.map(|access| access.packed.filter(|_| in_runs));
        let wide = access.map(|access| access.layout.wide);
        let k_split = each.saturating_mul(self.depth);
        let plan = Plan { candidate: self, splits, k_split, packed, wide, bytes: 0 };
        let copies = plan.packed_bytes();
        Plan { bytes: copies[0].saturating_add(copies[1]).saturating_add(plan.partial_bytes(product)), ..plan }
    }
}

impl Plan {
    /// Bytes of the copies of A and B.
    pub(crate) fn packed_bytes(&self) -> [usize; 2] {
        self.packed.map(|packed| packed.map_or(0, |packed| packed.bytes()))
    }

    /// Bytes of the sums of all parts of K.
    fn partial_bytes(&self, product: &Product) -> usize {
        if self.splits == 1 {
            return 0;
        }
        let matrix = if self.candidate.hopper {
            // Whole tiles of clusters, and a counter for each warp group.
            let tiles = self.tiles(product).map(|tiles| (tiles as usize).next_multiple_of(2));
            let area = self.candidate.block_m as usize * self.candidate.block_n as usize;
            let tiles = tiles[0].saturating_mul(tiles[1]).saturating_mul(product.batches);
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
    pub(crate) fn tiles(&self, product: &Product) -> [u32; 2] {
        [tiles(product.m, self.candidate.block_m), tiles(product.n, self.candidate.block_n)]
    }

    /// The time that it takes on a device with so many tiles in all batches, about, in picoseconds; `per_sm` is 1 / SMs.
    fn time(&self, tiles: f64, slices: f64, per_sm: f64) -> f64 {
        let rounds = ((tiles * f64::from(self.splits) - 0.5) * per_sm).ceil();
        let others = self.packed.iter().flatten().count() + usize::from(self.splits > 1 && !self.candidate.hopper);
        // What is copied, and sums of parts, is written and read.
        let traffic = 2.0 * self.bytes as f64 * BYTE * per_sm;
        let each = (rounds * self.candidate.slice).max(self.candidate.latency);
        slices * each + self.candidate.tile + others as f64 * ANOTHER + traffic
    }
}

/// Tiles of a power of two that cover an extent.
const fn tiles(extent: u32, block: u32) -> u32 {
    (extent + block - 1) >> block.trailing_zeros()
}

/// The plan that takes the least time by the model, and that time, in picoseconds: among those that need at most `available` bytes. K is left whole, or divided so that
/// there is a block for each SM, or two.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if no kernel multiplies such operands on the device.
pub(crate) fn pick(
    product: &Product,
    ways: &[[Access; 2]; 2],
    device: Properties,
    available: usize,
) -> Result<(f64, Plan)> {
    let sms = device.multiprocessors.max(1);
    let per_sm = 1.0 / f64::from(sms);
    let mut best: Option<(f64, Plan)> = None;
    for candidate in candidates_of(product.kind) {
        let access = &ways[usize::from(candidate.hopper)];
        if !candidate.runs(product, device, access, false) {
            continue;
        }
        let [tiles_m, tiles_n] = [tiles(product.m, candidate.block_m), tiles(product.n, candidate.block_n)];
        let tiles = f64::from(tiles_m) * f64::from(tiles_n) * product.batches as f64;
        let fill = (f64::from(sms) / tiles) as u32;
        for splits in [1, fill, 2 * fill] {
            if splits == 0 {
                break;
            }
            let plan = candidate.plan(product, access, splits);
            let slices = f64::from(plan.k_split >> candidate.depth.trailing_zeros());
            let time = plan.time(tiles, slices, per_sm);
            if plan.bytes <= available && best.is_none_or(|(least, _)| time < least) {
                best = Some((time, plan));
            }
        }
    }
    best.ok_or_else(|| no_kernel(product, device))
}

/// The plan with this kernel.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is no such kernel, or if it does not take the operands, the device, or the workspace.
pub(crate) fn named(product: &Product, device: Properties, available: usize, name: &str, splits: u32) -> Result<Plan> {
    let found = candidates_of(product.kind).find(|candidate| candidate.name == name);
    let plan = found.and_then(|candidate| {
        let access = Access::both(product, candidate.hopper);
        candidate.runs(product, device, &access, true).then(|| candidate.plan(product, &access, splits))
    });
    plan.filter(|plan| plan.bytes <= available).ok_or_else(|| not_possible(name, product, device))
}

#[cold]
fn no_kernel(product: &Product, device: Properties) -> Error {
    let asked = format!("operands of {} are multiplied on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked).possible("devices from sm_75 on")
}

#[cold]
fn not_possible(name: &str, product: &Product, device: Properties) -> Error {
    let fitting = candidates_of(product.kind)
        .filter(|candidate| candidate.runs(product, device, &Access::both(product, candidate.hopper), true));
    let fitting: Vec<_> = fitting.map(|candidate| candidate.name).collect();
    let asked = format!("operands of {} are multiplied by `{name}` on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked)
        .possible(fitting.join(", "))
        .help("or a larger workspace, for K in several parts")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
