//! The plan of a product: the instance that multiplies it, and the division of the work. What is derived here, the launch takes as it is.

use super::access::{Packed, Ways};
use super::instance::{Family, Instance, instances};
use super::params::{self, Problem};
use super::problem::{self, Product};
use crate::workspace::FLAGS;
use ptx_launch::{Error, ErrorKind, Properties, Result};

/// The most batches of one launch: blocks along z.
pub(crate) const BATCHES: usize = 65_535;

/// A product as an instance multiplies it.
pub(crate) struct Operation {
    pub(crate) product: Product,
    pub(crate) ways: Ways,
    /// It is Bᵀ · Aᵀ.
    is_turned: bool,
}

/// The batches of the first launch of a product, as most kernels multiply them and, where that differs, as those with scratch memory do.
pub(crate) struct Operations {
    pub(crate) straight: Operation,
    pub(crate) turned: Option<Operation>,
}

impl Operations {
    /// The operations of a product, from [`Product::oriented`]: TMA writes the rows of C where that computes Cᵀ because C has few columns.
    pub(crate) fn new(product: &Product) -> Operations {
        let product = product.first_batches();
        let straight = Operation { product, ways: Ways::new(&product), is_turned: false };
        let is_turned = !straight.ways.stores_by_tma && product.transposed().has_tma_result();
        let turned = is_turned.then(|| {
            let product = product.transposed();
            Operation { product, ways: Ways::new(&product), is_turned }
        });
        Operations { straight, turned }
    }

    /// The product as an instance multiplies it.
    pub(crate) fn of(&self, instance: &Instance) -> &Operation {
        match &self.turned {
            Some(turned) if instance.family.has_scratch() => turned,
            _ => &self.straight,
        }
    }
}

/// An instance, and the division of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) instance: &'static Instance,
    pub(crate) splits: u32,
    /// Extent of a part of K.
    k_split: u32,
    /// The order of tiles, as `scheduler::Raster` has it.
    pub(crate) raster: [u32; 2],
    /// The instance multiplies Bᵀ by Aᵀ.
    pub(crate) is_turned: bool,
    /// The copies of A and B that are made first.
    pub(crate) packed: [Option<Packed>; 2],
    /// True where the runs that A and B are read in are of 16 bytes.
    wide: [bool; 2],
    /// Bytes of workspace: the copies, then the sums of the parts of K.
    pub(crate) bytes: usize,
}

impl Plan {
    /// The plan with `splits` parts of K, or fewer if it has not so many slices.
    pub(crate) fn new(instance: &'static Instance, operation: &Operation, splits: u32) -> Plan {
        let Operation { product, ways, is_turned } = operation;
        let slices = product.k.div_ceil(instance.depth).max(1);
        let wanted = if instance.family.divides_k() { splits.clamp(1, slices) } else { 1 };
        let each = slices.div_ceil(wanted);
        let (splits, access) = (slices.div_ceil(each), instance.access(ways));
        let has_layout = !matches!(instance.family, Family::Simt | Family::Rows);
        let packed = if has_layout { Packed::of(product, access) } else { [None; 2] };
        let copies = packed.iter().flatten().fold(0, |all: usize, copy| all.saturating_add(copy.bytes()));
        Plan {
            instance,
            splits,
            k_split: each.saturating_mul(instance.depth),
            raster: instance.raster,
            is_turned: *is_turned,
            packed,
            wide: [access[0].wide, access[1].wide],
            bytes: copies.saturating_add(partial_bytes(instance, product, splits)),
        }
    }

    /// The plan with this order of tiles.
    pub(crate) fn with_raster(self, raster: [u32; 2]) -> Plan {
        Plan { raster, ..self }
    }

    /// The extents of a product, and its division among blocks, with the addresses of the sums of parts and of counters.
    pub(crate) fn problem(&self, product: &Product, [partial, counters]: [u64; 2]) -> Problem {
        let [tile_m, tile_n] = self.instance.tile;
        let flags = [
            (params::A_ALONG_K, product.a.is_along_k(product.m, product.k)),
            (params::B_ALONG_K, product.b.is_along_k(product.n, product.k)),
            (params::A_WIDE, self.wide[0]),
            (params::B_WIDE, self.wide[1]),
        ];
        Problem {
            m: product.m,
            n: product.n,
            k: product.k,
            flags: params::all_of(&flags),
            tiles_m: product.m.div_ceil(tile_m),
            tiles_n: product.n.div_ceil(tile_n),
            splits: self.splits,
            k_split: self.k_split,
            partial,
            counters,
            batches: product.batches as u32,
            pitch: problem::pitch(product.n),
        }
    }
}

/// Bytes of the sums of all parts of K; `usize::MAX` for more tiles than there are counters, or more sums than kernels count.
fn partial_bytes(instance: &Instance, product: &Product, splits: u32) -> usize {
    if splits == 1 {
        return 0;
    }
    let matrix = if instance.family == Family::Generic {
        // Whole tiles of clusters, and a counter for each warp group.
        let [tile_m, tile_n] = instance.tile.map(|extent| extent as usize);
        let rows = (product.m as usize).div_ceil(tile_m).next_multiple_of(2);
        let columns = (product.n as usize).div_ceil(tile_n).next_multiple_of(2);
        let tiles = rows.saturating_mul(columns).saturating_mul(product.batches);
        if tiles > FLAGS / 2 {
            return usize::MAX;
        }
        tiles.saturating_mul(tile_m * tile_n)
    } else {
        let (rows, pitch) = (product.m as usize, problem::pitch(product.n) as usize);
        if rows as u64 * (pitch as u64 / 4) > params::RUNS {
            return usize::MAX;
        }
        rows.saturating_mul(pitch).saturating_mul(product.batches)
    };
    matrix.saturating_mul(4).saturating_mul(splits as usize)
}

/// The plan with this instance, for a product from [`Product::oriented`].
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is no such instance, or if it does not take the operands, the device, or the workspace.
pub(crate) fn named(product: &Product, device: Properties, available: usize, name: &str, splits: u32) -> Result<Plan> {
    let operations = Operations::new(product);
    let takes = |instance: &&'static Instance| instance.is_on(device, true) && instance.takes(operations.of(instance));
    let rows = instances(product.kind);
    match rows.clone().find(|instance| instance.name == name).filter(takes) {
        Some(instance) => match Plan::new(instance, operations.of(instance), splits) {
            plan if plan.bytes <= available => Ok(plan),
            plan => Err(too_large(&plan, available)),
        },
        None => Err(not_possible(name, product, device, rows.filter(takes).map(|instance| instance.name.as_str()))),
    }
}

#[cold]
pub(crate) fn no_instance(product: &Product, device: Properties) -> Error {
    let operation = format!("operands of {} are multiplied on {}", problem::name(product.kind), target(device));
    Error::new(ErrorKind::Unsupported, operation).possible("devices from sm_75 on")
}

#[cold]
fn not_possible<'n>(
    name: &str,
    product: &Product,
    device: Properties,
    fitting: impl Iterator<Item = &'n str>,
) -> Error {
    let operands = problem::name(product.kind);
    let operation = format!("operands of {operands} are multiplied by `{name}` on {}", target(device));
    Error::new(ErrorKind::Unsupported, operation).possible(fitting.collect::<Vec<_>>().join(", "))
}

#[cold]
fn too_large(plan: &Plan, available: usize) -> Error {
    let Plan { instance, splits, bytes, .. } = *plan;
    // Too many tiles for the counters have no number of bytes.
    let bytes = if bytes == usize::MAX { "too many".to_owned() } else { bytes.to_string() };
    let operation = format!("`{}` takes {bytes} bytes of workspace (parts of K: {splits})", instance.name);
    Error::new(ErrorKind::Unsupported, operation)
        .possible(format!("{available} bytes, as there are"))
        .help("fewer parts of K, or a larger workspace (`Gemm::workspace`)")
}

fn target(device: Properties) -> String {
    device.capability.map_or_else(|| "the CPU device".to_owned(), |capability| format!("sm_{capability}"))
}
