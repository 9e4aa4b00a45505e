//! The launch of a kernel: the grid of persistent clusters, and the tensor maps of the operands and of C.

use super::super::maps::{BOX, Mapped};
use super::super::params::Source;
use super::super::problem::Product;
use super::kernels::{Config, gemm};
use ptx_launch::{KernelParam, Result, StreamRef};

/// The tiles of all clusters, as the kernels take them.
#[derive(Clone, Copy, Debug, KernelParam)]
#[repr(C)]
pub(crate) struct Grid {
    /// Tiles of clusters along the rows and the columns, and of all batches.
    pub(crate) rows: u32,
    pub(crate) columns: u32,
    pub(crate) tiles: u32,
    /// 2³¹ / rows, rounded up, by which tiles are divided; zero if they are too many for that.
    pub(crate) per_row: u32,
    pub(crate) k: u32,
    /// 1 if there is a matrix for each batch.
    pub(crate) a_batches: u32,
    pub(crate) b_batches: u32,
}

impl Grid {
    /// The tiles of a product by a kernel.
    fn new(product: &Product, config: &Config) -> Grid {
        let Product { m, n, k, batches, ref a, ref b, .. } = *product;
        let ([rows, columns], [a, b]) = if config.swapped == 1 { ([n, m], [b, a]) } else { ([m, n], [a, b]) };
        let rows = rows.div_ceil(config.block_m * config.cluster_m);
        let columns = columns.div_ceil(config.block_n * config.cluster_n);
        // The model takes no product of more.
        let tiles = rows * columns * batches as u32;
        let is_short = u64::from(tiles) * u64::from(rows) < 1 << 31;
        let per_row = if is_short { (1u32 << 31).div_ceil(rows) } else { 0 };
        let [a_batches, b_batches] = [a, b].map(|operand| u32::from(operand.batch > 0));
        Grid { rows, columns, tiles, per_row, k, a_batches, b_batches }
    }
}

/// Submits a product of elements of `T` to a kernel.
///
/// # Errors
/// Those of a tensor map, and of a launch.
pub(super) fn launch<T>(
    instance: gemm::Instance,
    config: &Config,
    stream: StreamRef<'_>,
    product: &Product,
) -> Result<()>
where
    T: KernelParam,
    gemm::Types<T>: gemm::Exists,
{
    let Product { kind, m, n, batches, c, .. } = *product;
    let (a, b) = ((product.a, m), (product.b, n));
    let [first, second] = if config.swapped == 1 { [b, a] } else { [a, b] };
    let operand = |operand, rows: u32, major: u32| Mapped::operand(product, operand, rows, major == 0).map(stream);
    let result = Source { at: c.at, line: c.row, k: c.column, batch: c.batch };
    let rows = if config.swapped == 1 { config.subtile() } else { BOX };
    let result = Mapped { source: result, kind, lines: m, k: n, batches, rows, k_major: true }.map(stream)?;
    let first = operand(first, config.block_m / config.cluster_n, config.major_a)?;
    let second = operand(second, config.block_n / config.cluster_m, config.major_b)?;
    let grid = Grid::new(product, config);
    let room = (stream.properties()?.multiprocessors / config.cluster()).max(1);
    let blocks = ptx_launch::Config::grid(grid.tiles.min(room) * config.cluster());
    // SAFETY: the maps describe memory that is bound to the stream.
    unsafe { gemm::launch::<T>(instance, stream, blocks, &first, &second, &result, grid) }
}
