//! The launch of a kernel: the grid of persistent clusters, and the tensor maps of the operands.

use super::super::maps::Mapped;
use super::super::params::{self, Output, Problem};
use super::super::problem::Product;
use ptx_launch::{Config, Result, StreamRef, TensorMap};

/// The tile of a kernel, and the layouts that it reads.
pub(super) struct Tile {
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) cluster: u32,
    /// Of the first operand, and of the second one.
    pub(super) k_major: [bool; 2],
    /// The first operand is B.
    pub(super) swapped: bool,
}

/// The arguments of a launch.
pub(super) struct Work {
    pub(super) config: Config,
    pub(super) maps: [TensorMap; 2],
    pub(super) output: Output,
    pub(super) problem: Problem,
}

impl Work {
    /// The launch of a product with tiles of this kind.
    ///
    /// # Errors
    /// Those of a tensor map.
    pub(super) fn new(stream: StreamRef<'_>, product: &Product, problem: &Problem, tile: Tile) -> Result<Work> {
        let (a, b) = ((product.a, product.m), (product.b, product.n));
        let [first, second] = if tile.swapped { [b, a] } else { [a, b] };
        let [rows, columns] = if tile.swapped { [product.n, product.m] } else { [product.m, product.n] };
        let clusters = rows.div_ceil(tile.rows * tile.cluster) * columns.div_ceil(tile.columns);
        let units = u64::from(clusters) * u64::from(problem.splits) * u64::from(problem.batches);
        let room = u64::from((stream.properties()?.multiprocessors / tile.cluster).max(1));
        let operand = |operand, rows: u32, k_major: bool| Mapped::operand(product, operand, rows, k_major).map(stream);
        let mut problem = *problem;
        let batched = [(params::A_BATCHES, first), (params::B_BATCHES, second)];
        problem.flags |=
            batched.iter().filter(|(_, (operand, _))| operand.batch > 0).fold(0, |all, (flag, _)| all | flag);
        Ok(Work {
            config: Config::grid(units.min(room) * u64::from(tile.cluster)),
            maps: [
                operand(first, tile.rows, tile.k_major[0])?,
                operand(second, tile.columns / tile.cluster, tile.k_major[1])?,
            ],
            output: product.output(),
            problem,
        })
    }
}
