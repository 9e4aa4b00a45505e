//! The table of compiled kernels: a row for each instance and type of operands, with all that a choice and a launch need.
//!
//! A row comes from a kernel's `instances`. Its name is that of the instance with a word for its family:
//! `m{M}n{N}k{K}_{cluster}_{majors}_{family}`. M and N are the tile of C that a block makes, K is the extent of a stage, the cluster has its blocks along M and
//! along N, and the majors are the dimensions of neighbors in memory of A (`k`, `m`) and of B (`k`, `n`), or `x` for any.

use super::access::{Access, Ways};
use super::cost::Divisor;
use super::launch::Call;
use super::plan::Operation;
use super::problem::Product;
use super::tuning::shipped;
use super::{mma, params, problem, simt, sm90, sm100};
use ptx_launch::{Properties, Result};
use std::fmt;
use std::sync::LazyLock;

/// Kernels that differ in their axes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// The ordinary units, and operands of any layout.
    Simt,
    /// Few rows of C, by elements.
    Rows,
    /// Few rows of C, by runs of 16 bytes.
    Runs,
    /// `mma.sync`.
    Mma,
    /// The sm_90 kernels, with the generic epilogue.
    Generic,
    /// With the TMA epilogue, by scheduler.
    Static,
    Claimed,
    StreamK,
    /// `tcgen05`.
    Tcgen05,
}

/// The loads of a kernel: elements at any address, aligned runs, or TMA, whose kernels are persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loads {
    Elements,
    Runs,
    Tma,
}

/// The launch of an instance.
pub(crate) type Submit = Box<dyn Fn(&Instance, Call<'_>) -> Result<()> + Send + Sync>;

/// A compiled kernel for operands of one type.
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) family: Family,
    /// The least compute capability, and the only one of the families for one chip.
    pub(crate) capability: u16,
    /// Element type of A and B, and of C with the TMA epilogue; other kernels store any type.
    pub(crate) kind: u32,
    pub(crate) output: Option<u32>,
    /// Rows and columns of C in a block's tile, and the extent of a stage along K.
    pub(crate) tile: [u32; 2],
    pub(crate) depth: u32,
    /// Blocks of a cluster along M and N.
    pub(crate) cluster: [u32; 2],
    /// The order of tiles, as `scheduler::Raster` has it.
    pub(crate) raster: [u32; 2],
    /// For A and B true if K is the dimension of neighbors in memory, false for M and N; nothing if any layout does.
    pub(crate) majors: [Option<bool>; 2],
    /// The rows and columns of a cluster's tile, and the extent of a stage along K.
    pub(crate) divisors: [Divisor; 3],
    /// The row of [`Costs`](super::tuning::Costs) with its times.
    pub(crate) cost: usize,
    submit: Submit,
}

/// The axes of a kernel, as its module has them.
pub(crate) struct Axes {
    pub(crate) tile: [u32; 2],
    pub(crate) depth: u32,
    pub(crate) cluster: [u32; 2],
    pub(crate) raster: [u32; 2],
    pub(crate) majors: [Option<bool>; 2],
}

/// The rows of a kernel: for each list of types, with their codes, one for each instance with these types. A function makes it of the instance, the codes, the
/// axes and the launch, which computes some arguments and passes all of them to the kernel.
macro_rules! rows {
    ($kernel:ident: $([$($ty:ident),+] $codes:expr),+; $row:ident $start:tt $arguments:tt) => {
        std::iter::empty()$(.chain(rows!(@ $kernel [$($ty),+] $codes, $row $start $arguments)))+
    };
    (@ $kernel:ident [$($ty:ident),+] $codes:expr, $row:ident
        { |$this:pat_param, $call:ident, $config:pat_param| $($start:tt)* } ($($argument:expr),+)) => {
        $crate::gemm::instance::of_types($kernel::INSTANCES, <$kernel::Types<$($ty),+> as $kernel::Exists>::kernels())
            .map(|(instance, config)| {
                $row(&instance, $codes, &config, Box::new(move |$this, $call| {
                    let $config = config;
                    $($start)*
                    // SAFETY: the memory of a call is bound to its stream. Operands and results have elements for all extents of the product, maps describe
                    // them in the layouts of the instance, and the workspace and the scratch memory have the bytes that `Plan` and `Scratch` count.
                    unsafe { $kernel::launch::<$($ty),+>(instance, $($argument),+) }
                }))
            })
    };
}
pub(crate) use rows;

/// The instances of a kernel for some types, with their axes.
pub(crate) fn of_types<I: Copy + PartialEq, C: Copy, K>(
    all: &'static [(I, C)],
    existing: &'static [(I, K)],
) -> impl Iterator<Item = (I, C)> {
    all.iter().filter(|(instance, _)| existing.iter().any(|(known, _)| known == instance)).copied()
}

impl Family {
    /// The last word of the instances' names.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Family::Simt => "simt",
            Family::Rows => "rows",
            Family::Runs => "runs",
            Family::Mma => "mma",
            Family::Generic => "generic",
            Family::Static => "static",
            Family::Claimed => "claimed",
            Family::StreamK => "streamk",
            Family::Tcgen05 => "tcgen05",
        }
    }

    pub(crate) const fn loads(self) -> Loads {
        match self {
            Family::Simt | Family::Rows => Loads::Elements,
            Family::Runs | Family::Mma => Loads::Runs,
            _ => Loads::Tma,
        }
    }

    /// True if the host divides K among blocks.
    pub(crate) const fn divides_k(self) -> bool {
        matches!(self, Family::Simt | Family::Rows | Family::Runs | Family::Mma | Family::Generic)
    }

    /// True for kernels that share memory between launches ([`Scratch`](sm90::Scratch)), and whose order of sums depends on the placement of blocks.
    pub(crate) const fn has_scratch(self) -> bool {
        matches!(self, Family::Claimed | Family::StreamK)
    }

    /// True for kernels of one matrix each.
    pub(crate) const fn is_unbatched(self) -> bool {
        self.has_scratch() || matches!(self, Family::Tcgen05)
    }
}

impl Instance {
    /// A row of the table: the instance `ident` of a kernel for operands of this type.
    pub(crate) fn new(
        ident: &dyn fmt::Debug,
        (family, capability): (Family, u16),
        (kind, output): (u32, Option<u32>),
        axes: Axes,
        submit: Submit,
    ) -> Instance {
        let name = format!("{ident:?}_{}", family.word());
        let Axes { tile, depth, cluster, raster, majors } = axes;
        let cost = shipped(kind).find(&name);
        let divisors = [tile[0] * cluster[0], tile[1] * cluster[1], depth].map(Divisor::new);
        Instance {
            name,
            family,
            capability,
            kind,
            output,
            tile,
            depth,
            cluster,
            raster,
            majors,
            divisors,
            cost,
            submit,
        }
    }

    /// Blocks of a cluster.
    pub(crate) fn blocks(&self) -> u32 {
        self.cluster[0] * self.cluster[1]
    }

    /// Tiles of clusters along M and N.
    pub(crate) fn cluster_tiles(&self, m: u32, n: u32) -> [u32; 2] {
        [m.div_ceil(self.tile[0] * self.cluster[0]), n.div_ceil(self.tile[1] * self.cluster[1])]
    }

    /// The way in which it reads A and B.
    pub(crate) fn access<'w>(&self, ways: &'w Ways) -> &'w [Access; 2] {
        if self.family.loads() == Loads::Tma { &ways.by_tma } else { &ways.by_runs }
    }

    /// True if the device has the kernel. The CPU device takes kernels for one chip if they are `named`.
    pub(crate) fn is_on(&self, device: Properties, named: bool) -> bool {
        let of_one_chip = self.family.loads() == Loads::Tma;
        match device.capability {
            None => named || !of_one_chip,
            Some(capability) if of_one_chip => capability == self.capability,
            Some(capability) => capability >= self.capability,
        }
    }

    /// True if the kernel multiplies the product.
    pub(crate) fn takes(&self, operation: &Operation) -> bool {
        self.stores(operation) && self.reads(operation) && self.counts(&operation.product)
    }

    /// True if the kernel writes the result, and in an order of sums that the product allows: the same for all instances of a family.
    pub(crate) fn stores(&self, Operation { product, ways, .. }: &Operation) -> bool {
        let Some(output) = self.output else { return true };
        let is_one = !self.family.is_unbatched() || product.batches == 1 && ways.loads_by_tma();
        let is_ordered = !(self.family.has_scratch() && product.deterministic);
        output == product.epilogue.kind && ways.stores_by_tma && is_one && is_ordered
    }

    /// True if the kernel reads the operands.
    pub(crate) fn reads(&self, Operation { ways, .. }: &Operation) -> bool {
        let access = self.access(ways);
        let reads = |operand: usize| self.majors[operand].is_none_or(|along_k| along_k == access[operand].along_k);
        self.family == Family::Rows || reads(0) && reads(1)
    }

    /// True if a persistent kernel counts all tiles of the product, and has some to make.
    pub(crate) fn counts(&self, product: &Product) -> bool {
        if self.family.loads() != Loads::Tma {
            return true;
        }
        let (m, n, batches) = (u64::from(product.m), u64::from(product.n), product.batches as u64);
        // No tile is smaller. Nearly all products have so few.
        if product.k > 0 && m * n > 0 && (m / LEAST + 1) * (n / LEAST + 1) * batches < TILES {
            return true;
        }
        let [rows, columns] = self.cluster_tiles(product.m, product.n).map(u64::from);
        let tiles = rows * columns;
        product.k > 0 && (1..TILES).contains(&tiles) && tiles * (product.batches as u64) < ALL_TILES
    }

    /// Submits one launch.
    ///
    /// # Errors
    /// Those of a tensor map, and of a launch.
    pub(crate) fn submit(&self, call: Call<'_>) -> Result<()> {
        (self.submit)(self, call)
    }
}

/// The least rows and columns of a tile.
const LEAST: u64 = 16;

/// Tiles of clusters in a matrix that persistent kernels count, and of all batches.
const TILES: u64 = 1 << 23;
const ALL_TILES: u64 = 1 << 25;

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The instances for each type of operands, by families.
static TABLE: LazyLock<[Vec<Vec<Instance>>; params::KINDS]> = LazyLock::new(|| {
    let mut table = [const { Vec::new() }; params::KINDS];
    let rows = sm90::instances().chain(sm100::instances()).chain(mma::instances()).chain(simt::instances());
    rows.for_each(|row: Instance| {
        let families: &mut Vec<Vec<Instance>> = &mut table[row.kind as usize];
        match families.iter_mut().find(|known| known.iter().any(|other| other.family == row.family)) {
            Some(known) => known.push(row),
            None => families.push(vec![row]),
        }
    });
    table
});

/// The families of instances for operands of a type, in the order in which a choice prefers them among equals. None is empty.
pub(crate) fn families(kind: u32) -> &'static [Vec<Instance>] {
    TABLE.get(kind as usize).map_or(&[], Vec::as_slice)
}

/// The instances for operands of a type.
pub(crate) fn instances(kind: u32) -> impl Iterator<Item = &'static Instance> + Clone {
    families(kind).iter().flatten()
}

/// The names of the instances for operands of a type (`f32`, `tf32`, `f16`, `bf16`, `e4m3`, `e5m2`, `i8`), for
/// [`Gemm::algorithm`](super::Gemm::algorithm).
///
/// ```
/// assert!(ptx_kernels::gemm::algorithms("f32").any(|name| name == "m128n128k16_1x1_xx_simt"));
/// ```
pub fn algorithms(kind: &str) -> impl Iterator<Item = &'static str> {
    problem::kind_of(kind).into_iter().flat_map(instances).map(|instance| instance.name.as_str())
}
