//! The choice of a kernel: a table of candidates with what each can do and costs, and the division of K among blocks. Nothing here
//! allocates or launches.

use super::access::{Access, Packed};
use super::params::{self, Problem};
use super::problem::Product;
use super::tuning::{self, Cost, Costs};
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

/// The most parts of K, and the most rounds of units of K in parts.
const SPLITS: u32 = 32;
const ROUNDS: usize = 4;

/// Rows of the lowest tiles. Higher ones are tried if a product fills more than a quarter of them.
const LOW: u32 = 16;

/// The most rows of C for the kernels that load operands without tiles.
const FEW_ROWS: u32 = 8;

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

/// The kernels for one element type, and a few for others, but for those of a few rows. The smallest tiles are first: they leave others
/// out of the search.
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
    hopper.iter().rev().chain(fast).chain(simt::CANDIDATES)
}

impl Candidate {
    /// True if the kernel takes the product. On the CPU device, kernels for Hopper are taken if they are `named`.
    fn runs(&self, product: &Product, device: Properties, access: &[Access; 2], named: bool) -> bool {
        // Exact products of `f32` do for `tf32`.
        let kind = product.kind == self.kind || (product.kind, self.kind) == (params::TF32, params::F32);
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
        near && target && (self.cluster.is_none() || self.is_persistent_size(product))
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
        let (each, splits) = divide_slices(slices, splits.clamp(1, slices));
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
        let candidate = candidates_of(product.kind).chain(simt::FEW_ROWS).find(|candidate| candidate.name == name)?;
        Some(Way { candidate, splits })
    }

    /// Its time, in picoseconds, beside that of any launch.
    pub(crate) fn time(&self, product: &Product, sms: u32, costs: &Costs) -> f64 {
        let access = Access::both(product, self.candidate.cluster.is_some());
        let work = Work::new(self.candidate, product, packing(&access, costs), sms, costs);
        work.time(self.splits.clamp(1, work.slices))
    }
}

/// A product for a candidate on a device: all that its time depends on but the parts of K. Counts are floating-point numbers, which divide
/// in less time than integers.
struct Work {
    cost: Cost,
    slices: u32,
    /// Tiles of clusters, of all batches, and the clusters that run at the same time.
    tiles: f64,
    room: f64,
    /// The kernel is persistent, and adds parts of K up.
    is_persistent: bool,
    /// The time of copies, of a part of K that is added up, and of doing that at all.
    packs: f64,
    part: f64,
    reduce: f64,
}

impl Work {
    /// The copies of operands take `packs`.
    fn new(candidate: &Candidate, product: &Product, packs: f64, sms: u32, costs: &Costs) -> Work {
        let cost = costs.tiles[candidate.cost];
        let [cluster_m, cluster_n] = candidate.cluster.unwrap_or([1; 2]);
        let [block_m, block_n] = [candidate.block_m * cluster_m, candidate.block_n * cluster_n];
        let batches = product.batches as f64;
        let tiles = f64::from(product.m.div_ceil(block_m)) * f64::from(product.n.div_ceil(block_n)) * batches;
        let is_persistent = candidate.cluster.is_some();
        let sums = if is_persistent {
            tiles * f64::from(block_m * block_n)
        } else {
            f64::from(product.m) * f64::from(problem::pitch(product.n)) * batches
        };
        let packs = if candidate.majors.is_some() { packs } else { 0.0 };
        Work {
            cost,
            slices: ((product.k + (candidate.depth - 1)) >> candidate.depth.trailing_zeros()).max(1),
            tiles,
            room: if cluster_m * cluster_n > 1 { f64::from(sms / 2).max(1.0) } else { f64::from(sms) },
            is_persistent,
            packs,
            part: cost.part + sums * 4.0 * costs.part_byte,
            reduce: if is_persistent { costs.reduce_inside } else { costs.reduce },
        }
    }

    /// No division takes less time.
    fn least(&self) -> f64 {
        self.packs + self.cost.tile + self.tiles * f64::from(self.slices) / self.room * self.cost.slice
    }

    /// Numbers of parts of K that may be the best one: those that fill one round of units, or a few, up to the number with which all
    /// parts take as long to add up as the slices of one take.
    fn splits(&self) -> [u32; 1 + ROUNDS] {
        let mut all = [1; 1 + ROUNDS];
        let each = self.room / self.tiles;
        if each * ROUNDS as f64 >= 2.0 {
            let slice = self.cost.latency.max(self.cost.slice);
            let balance = (f64::from(self.slices) * slice / self.part.max(1.0)).sqrt();
            let most = (balance as u32 + 1).min(self.slices).min(SPLITS);
            for (round, splits) in (1u32..).zip(&mut all[1..]) {
                *splits = ((f64::from(round) * each) as u32).clamp(1, most);
            }
        }
        all
    }

    /// The time with K in so many parts, in picoseconds, beside that of any launch.
    fn time(&self, splits: u32) -> f64 {
        let Cost { slice, latency, tile, .. } = self.cost;
        let (each, parts) = if splits > 1 { divide_slices(self.slices, splits) } else { (self.slices, 1) };
        let units = self.tiles * f64::from(parts);
        let busy = units / self.room;
        // The next integer: less than a unit is missing in no round.
        let rounds = f64::from((busy - 0.5 / self.room) as u32 + 1);
        let slices = f64::from(each);
        let kernel = if self.is_persistent {
            rounds * (slices * latency.max(slice * busy.min(1.0)) + tile)
        } else {
            slices * (rounds * slice).max(latency) + tile * f64::midpoint(rounds, 1.0)
        };
        let sum = if parts > 1 { self.reduce + self.part * f64::from(parts) } else { 0.0 };
        self.packs + kernel + sum
    }
}

/// The slices of each of about so many parts of K, and the number of parts.
const fn divide_slices(slices: u32, splits: u32) -> (u32, u32) {
    let each = slices.div_ceil(splits);
    (each, slices.div_ceil(each))
}

/// The time of the copies of operands.
fn packing(access: &[Access; 2], costs: &Costs) -> f64 {
    let packed = access.iter().filter_map(|access| access.packed);
    let bytes = packed.map(|packed| packed.bytes() as f64).sum::<f64>();
    if bytes > 0.0 { costs.pack + bytes * costs.copied_byte } else { 0.0 }
}

/// The plan that takes the least time by the model, and that time, in picoseconds: among those that need at most `available` bytes.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if no kernel multiplies such operands on the device.
pub(crate) fn pick(
    product: &Product,
    ways: &[[Access; 2]; 2],
    device: Properties,
    available: usize,
) -> Result<(f64, Plan)> {
    let packs = [0, 1].map(|way: usize| packing(&ways[way], &tuning::SHIPPED));
    let mut best: Option<(f64, &'static Candidate, u32)> = None;
    let few_rows = if product.m <= FEW_ROWS { simt::FEW_ROWS } else { &[] };
    for candidate in candidates_of(product.kind).chain(few_rows) {
        let way = usize::from(candidate.cluster.is_some());
        // Every type has kernels for any layout: they stay.
        let is_high = candidate.majors.is_some() && candidate.block_m > LOW && candidate.block_m / 4 >= product.m;
        if is_high || !candidate.runs(product, device, &ways[way], false) {
            continue;
        }
        let work = Work::new(candidate, product, packs[way], device.multiprocessors, &tuning::SHIPPED);
        if best.is_some_and(|(least, ..)| work.least() > least) {
            continue;
        }
        let mut last = 0;
        for splits in work.splits() {
            if splits <= last {
                continue;
            }
            last = splits;
            let time = work.time(splits);
            let is_better = best.is_none_or(|(least, ..)| time < least);
            if is_better
                && (splits == 1 && work.packs == 0.0 || candidate.plan(product, &ways[way], splits).bytes <= available)
            {
                best = Some((time, candidate, splits));
            }
        }
    }
    let plan = |(time, candidate, splits): (f64, &'static Candidate, u32)| {
        (time, candidate.plan(product, &ways[usize::from(candidate.cluster.is_some())], splits))
    };
    best.map(plan).ok_or_else(|| no_kernel(product, device))
}

/// The plan with this kernel.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is no such kernel, or if it does not take the operands, the device, or the workspace.
pub(crate) fn named(product: &Product, device: Properties, available: usize, name: &str, splits: u32) -> Result<Plan> {
    let found = candidates_of(product.kind).chain(simt::FEW_ROWS).find(|candidate| candidate.name == name);
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
        .chain(simt::FEW_ROWS)
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
