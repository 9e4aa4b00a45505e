//! The choice of a kernel: a table of candidates with what each can do and costs, and the division of K among blocks. Nothing here
//! allocates or launches.

use super::params::{self, Problem};
use super::problem::Product;
use super::{problem, simt};
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
    /// A block's tile, and the extent along K of its slices.
    pub(crate) block_m: u32,
    pub(crate) block_n: u32,
    pub(crate) depth: u32,
    /// Time of a slice, in picoseconds on an SM that is busy.
    pub(crate) slice: u64,
    pub(crate) launch: Launch,
}

/// A kernel, and the division of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) candidate: &'static Candidate,
    pub(crate) splits: u32,
    /// Extent of a part of K.
    pub(crate) k_split: u32,
    /// Bytes of workspace.
    pub(crate) bytes: usize,
}

/// All kernels.
const TABLES: &[&[Candidate]] = &[simt::CANDIDATES];

/// Time before the first slice of a tile and behind the last one, in picoseconds.
const TILE: u64 = 3_000_000;
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
    fn runs(&self, product: &Product, device: Properties) -> bool {
        // Exact products of `f32` do for `tf32`.
        let kind = product.kind == self.kind || (product.kind, self.kind) == (params::TF32, params::F32);
        kind && device.capability.is_none_or(|capability| capability >= self.capability)
    }

    /// The division of a product in `splits` parts of K, or fewer if it has not so many slices.
    fn plan(&'static self, product: &Product, splits: u32) -> Plan {
        let slices = product.k.div_ceil(self.depth).max(1);
        let each = slices.div_ceil(splits.clamp(1, slices));
        let splits = slices.div_ceil(each);
        let plan = Plan { candidate: self, splits, k_split: each * self.depth, bytes: 0 };
        Plan { bytes: plan.partial_bytes(product), ..plan }
    }
}

impl Plan {
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
        let product_time = blocks.div_ceil(sms).saturating_mul(slices * self.candidate.slice + TILE);
        let sums = if self.splits > 1 { ANOTHER + 2 * self.bytes as u64 * 1_000_000 / (sms * BYTES_PER_US) } else { 0 };
        product_time + sums
    }
}

/// The plan that takes the least time by the model, among those that need at most `available` bytes.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if no kernel multiplies such operands on the device.
pub(crate) fn pick(product: &Product, device: Properties, available: usize) -> Result<Plan> {
    let mut best: Option<(u64, Plan)> = None;
    for candidate in candidates().filter(|candidate| candidate.runs(product, device)) {
        let mut splits = 1;
        while splits <= SPLITS {
            let plan = candidate.plan(product, splits);
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
    let found = candidates().find(|candidate| candidate.name == name && candidate.runs(product, device));
    let plan = found.map(|candidate| candidate.plan(product, splits));
    plan.filter(|plan| plan.bytes <= available).ok_or_else(|| not_possible(name, product, device))
}

#[cold]
fn no_kernel(product: &Product, device: Properties) -> Error {
    let asked = format!("operands of {} are multiplied on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked).possible("devices from sm_75 on")
}

#[cold]
fn not_possible(name: &str, product: &Product, device: Properties) -> Error {
    let fitting: Vec<_> =
        candidates().filter(|candidate| candidate.runs(product, device)).map(|candidate| candidate.name).collect();
    let asked = format!("operands of {} are multiplied by `{name}` on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked)
        .possible(fitting.join(", "))
        .help("or a larger workspace, for K in several parts")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
