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
    /// For Hopper alone, the blocks of a cluster along M and N: operands come by TMA, persistent clusters take tiles, and the kernel adds parts
    /// of K up.
    pub(crate) cluster: Option<[u32; 2]>,
    /// The same operands give the same bits each time.
    pub(crate) deterministic: bool,
    /// True for operands that are K-major, or else MN-major, in aligned runs; nothing if any layout does.
    pub(crate) majors: Option<[bool; 2]>,
    /// A block's tile, and the extent along K of its slices, a power of two.
    pub(crate) block_m: u32,
    pub(crate) block_n: u32,
    pub(crate) depth: u32,
    pub(crate) cost: Cost,
    pub(crate) launch: Launch,
}

/// The times of a kernel, in picoseconds, as they are fitted to measurements on an H200 (`bench --filter "gemm choice"`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Of a slice on a busy SM, and for a block at least.
    pub(crate) slice: f64,
    pub(crate) latency: f64,
    /// Before the first slice of a tile and behind the last one.
    pub(crate) tile: f64,
    /// For each part of K that is added up.
    pub(crate) part: f64,
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

/// Time of the copy of an operand, of the sum of the parts of K in a launch of its own or in the kernel, in picoseconds.
const PACK: f64 = 3.2e6;
const REDUCE: f64 = 2e6;
const REDUCE_INSIDE: f64 = 0.9e6;
/// Time in which the device copies a byte, and in which it writes and reads a byte of a part of K, in picoseconds.
const COPIED_BYTE: f64 = 1.01;
const PART_BYTE: f64 = 0.48;

/// Parts of K that are tried, and the most tiles of all parts for each block or cluster that runs at the same time.
const SPLITS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const ROUNDS: f64 = 4.0;

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
            None => named || self.cluster.is_none(),
            Some(capability) if self.cluster.is_some() => capability == self.capability,
            Some(capability) => capability >= self.capability,
        };
        kind && majors && bits && target && (self.cluster.is_none() || self.is_persistent_size(product))
    }

    /// True if a kernel of persistent clusters counts all tiles of a product, which has some.
    fn is_persistent_size(&self, product: &Product) -> bool {
        let tiles_m = u64::from(product.m.div_ceil(self.block_m));
        let tiles_n = u64::from(product.n.div_ceil(self.block_n));
        product.k > 0 && tiles_m * tiles_n < 1 << 24 && tiles_m * tiles_n * (product.batches as u64) < 1 << 26
    }

    /// The division of a product in `splits` parts of K, or fewer if it has not so many slices.
    pub(crate) fn plan(&'static self, product: &Product, access: &[Access; 2], splits: u32) -> Plan {
        let slices = (product.k.div_ceil(self.depth)).max(1);
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
        let matrix = if self.candidate.cluster.is_some() {
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
        [product.m.div_ceil(self.candidate.block_m), product.n.div_ceil(self.candidate.block_n)]
    }

    /// The time that it takes on a device with so many SMs, about, in picoseconds, beside that of any launch.
    fn time(&self, tiles: f64, sms: f64) -> f64 {
        let Candidate { cost, depth, cluster, .. } = self.candidate;
        let slices = f64::from(self.k_split >> depth.trailing_zeros());
        let units = tiles * f64::from(self.splits);
        let kernel = match cluster {
            Some(cluster) => {
                let room = (sms / f64::from(cluster[0] * cluster[1])).floor().max(1.0);
                let rounds = ((units - 0.5) / room).ceil();
                rounds * (slices * cost.latency.max(cost.slice * (units / room).min(1.0)) + cost.tile)
            }
            None => {
                let rounds = ((units - 0.5) / sms).ceil();
                slices * (rounds * cost.slice).max(cost.latency) + cost.tile * f64::midpoint(rounds, 1.0)
            }
        };
        let packs = self.packed.iter().flatten().map(|packed| PACK + packed.bytes() as f64 * COPIED_BYTE);
        packs.sum::<f64>() + kernel + self.reduction()
    }

    /// The time in which parts of K are added up, about.
    fn reduction(&self) -> f64 {
        if self.splits == 1 {
            return 0.0;
        }
        let launch = if self.candidate.cluster.is_some() { REDUCE_INSIDE } else { REDUCE };
        let parts = self.bytes - self.packed_bytes().iter().sum::<usize>();
        launch + self.candidate.cost.part * f64::from(self.splits) + parts as f64 * PART_BYTE
    }
}

/// The plan that takes the least time by the model, and that time, in picoseconds: among those that need at most `available` bytes. K is left whole, or divided in
/// some parts.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if no kernel multiplies such operands on the device.
pub(crate) fn pick(
    product: &Product,
    ways: &[[Access; 2]; 2],
    device: Properties,
    available: usize,
) -> Result<(f64, Plan)> {
    let sms = f64::from(device.multiprocessors.max(1));
    let mut best: Option<(f64, Plan)> = None;
    for candidate in candidates_of(product.kind) {
        let access = &ways[usize::from(candidate.cluster.is_some())];
        if !candidate.runs(product, device, access, false) {
            continue;
        }
        let [cluster_m, cluster_n] = candidate.cluster.unwrap_or([1; 2]);
        let along = |extent: u32, block: u32, blocks: u32| f64::from(extent.div_ceil(block).div_ceil(blocks));
        let tiles = along(product.m, candidate.block_m, cluster_m) * along(product.n, candidate.block_n, cluster_n);
        let tiles = tiles * product.batches as f64;
        for splits in SPLITS {
            let plan = candidate.plan(product, access, splits);
            let units = tiles * f64::from(splits * cluster_m * cluster_n);
            if splits > 1 && (plan.splits < splits || units > ROUNDS * sms) {
                break;
            }
            let time = product.at_least(plan.time(tiles, sms));
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
        let access = Access::both(product, candidate.cluster.is_some());
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
        .filter(|candidate| candidate.runs(product, device, &Access::both(product, candidate.cluster.is_some()), true));
    let fitting: Vec<_> = fitting.map(|candidate| candidate.name).collect();
    let asked = format!("operands of {} are multiplied by `{name}` on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, asked)
        .possible(fitting.join(", "))
        .help("or a larger workspace, for K in several parts")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
