//! The choice of a kernel: a table of candidates with what each can do and costs, and the division of K among blocks. Nothing here
//! allocates or launches.

use super::access::{Access, Packed};
use super::params::{self, Problem};
use super::problem::Product;
use super::{mma, problem, simt};
use ptx_launch::{Config, Error, ErrorKind, Properties, Result, StreamRef};

/// Submits one launch of a kernel: the grid, the product, and its division among blocks.
pub(crate) type Launch = fn(StreamRef<'_>, Config, &Product, Problem) -> Result<()>;

/// A kernel, and all that the choice depends on.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    /// Element type of A and B.
    pub(crate) kind: u32,
    /// The least compute capability.
    pub(crate) capability: u16,
    /// The same operands give the same bits each time.
    pub(crate) deterministic: bool,
    /// True for operands that are K-major, or else MN-major, in aligned runs; nothing if any layout does.
    pub(crate) majors: Option<[bool; 2]>,
    /// A block's tile, and the extent along K of its slices.
    pub(crate) block_m: u32,
    pub(crate) block_n: u32,
    pub(crate) depth: u32,
    /// Time of a slice, in picoseconds on an SM that is busy.
    pub(crate) slice: u64,
    /// Time before the first slice of a tile and behind the last one, in picoseconds.
    pub(crate) tile: u64,
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
    simt::CANDIDATES,
];

/// Time of another launch, in picoseconds.
const ANOTHER: u64 = 3_000_000;
/// Bytes that an SM brings from memory in a microsecond.
const BYTES_PER_US: u64 = 25_000;
/// The most parts of K.
const SPLITS: u32 = 64;

/// The names of all kernels, for [`Gemm::algorithm`](super::Gemm::algorithm).
///
/// ```
/// assert!(ptx_kernels::gemm::algorithms().any(|name| name == "simt_f32_large"));
/// ```
pub fn algorithms() -> impl Iterator<Item = &'static str> {
    candidates().map(|candidate| candidate.name)
}

fn candidates() -> impl Iterator<Item = &'static Candidate> {
    TABLES.iter().copied().flatten()
}

impl Candidate {
    fn runs(&self, product: &Product, device: Properties, access: &[Access; 2]) -> bool {
        // Exact products of `f32` do for `tf32`.
        let kind = product.kind == self.kind || (product.kind, self.kind) == (params::TF32, params::F32);
        let majors = self.majors.is_none_or(|majors| majors == access.map(|access| access.layout.along_k));
        let bits = self.deterministic || !product.deterministic;
        kind && majors && bits && device.capability.is_none_or(|capability| capability >= self.capability)
    }

    /// The division of a product in `splits` parts of K, or fewer if it has not so many slices.
    fn plan(&'static self, product: &Product, access: &[Access; 2], splits: u32) -> Plan {
        let slices = product.k.div_ceil(self.depth).max(1);
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
        let matrix = product.m as usize * problem::pitch(product.n) as usize * 4;
        let all = matrix.checked_mul(product.batches).and_then(|bytes| bytes.checked_mul(self.splits as usize));
        if self.splits == 1 { 0 } else { all.unwrap_or(usize::MAX) }
    }

    /// Tiles along M and N.
    pub(crate) fn tiles(&self, product: &Product) -> [u32; 2] {
        [product.m.div_ceil(self.candidate.block_m), product.n.div_ceil(self.candidate.block_n)]
    }

    /// The time that it takes on a device, about, in picoseconds.
    fn time(&self, product: &Product, device: Properties) -> u64 {
        let [tiles_m, tiles_n] = self.tiles(product).map(u64::from);
        let sms = u64::from(device.multiprocessors.max(1));
        let blocks = (tiles_m * tiles_n * u64::from(self.splits)).saturating_mul(product.batches as u64);
        let slices = u64::from(self.k_split / self.candidate.depth);
        let each = slices.saturating_mul(self.candidate.slice) + self.candidate.tile;
        let others = self.packed.iter().flatten().count() as u64 + u64::from(self.splits > 1);
        // What is copied, and sums of parts, is read and written.
        let traffic = (2 * self.bytes as u64).saturating_mul(1_000_000) / (sms * BYTES_PER_US);
        blocks.div_ceil(sms).saturating_mul(each).saturating_add(others * ANOTHER).saturating_add(traffic)
    }
}

/// The plan that takes the least time by the model, among those that need at most `available` bytes.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if no kernel multiplies such operands on the device.
pub(crate) fn pick(product: &Product, device: Properties, available: usize) -> Result<Plan> {
    let access = Access::both(product);
    let mut best: Option<(u64, Plan)> = None;
    for candidate in candidates().filter(|candidate| candidate.runs(product, device, &access)) {
        let mut splits = 1;
        while splits <= SPLITS {
            let plan = candidate.plan(product, &access, splits);
            let time = plan.time(product, device);
            if plan.bytes <= available && best.is_none_or(|(least, _)| time < least) {
                best = Some((time, plan));
            }
            // More parts help only where SMs have nothing to do.
            let [tiles_m, tiles_n] = plan.tiles(product).map(u64::from);
            let blocks = tiles_m * tiles_n * u64::from(splits) * product.batches as u64;
            if plan.splits < splits || blocks >= 2 * u64::from(device.multiprocessors) {
                break;
            }
            splits *= 2;
        }
    }
    best.map(|(_, plan)| plan).ok_or_else(|| no_kernel(product, device))
}

/// The plan with this kernel.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is no such kernel, or if it does not take the operands, the device, or the workspace.
pub(crate) fn named(product: &Product, device: Properties, available: usize, name: &str, splits: u32) -> Result<Plan> {
    let access = Access::both(product);
    let found = candidates().find(|candidate| candidate.name == name && candidate.runs(product, device, &access));
    let plan = found.map(|candidate| candidate.plan(product, &access, splits));
    plan.filter(|plan| plan.bytes <= available).ok_or_else(|| not_possible(name, product, device))
}

#[cold]
fn no_kernel(product: &Product, device: Properties) -> Error {
    let asked = format!("operands of {} are multiplied on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked).possible("devices from sm_75 on")
}

#[cold]
fn not_possible(name: &str, product: &Product, device: Properties) -> Error {
    let access = Access::both(product);
    let fitting = candidates().filter(|candidate| candidate.runs(product, device, &access));
    let fitting: Vec<_> = fitting.map(|candidate| candidate.name).collect();
    let asked = format!("operands of {} are multiplied by `{name}` on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked)
        .possible(fitting.join(", "))
        .help("or a larger workspace, for K in several parts")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
