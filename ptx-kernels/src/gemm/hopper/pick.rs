//! The choice of a variant for a shape.

use super::scratch::Scratch;
use super::variant::{Layout, Operand, Order, Sharing, Variant, variants};
use crate::gemm::lanes::{ceil, larger, smaller};
use crate::gemm::model::lines_of_row;
use crate::gemm::tuning::{Costs, SHIPPED, SHIPPED_OF_OTHERS};

/// A tile of the kernels.
#[derive(Debug)]
struct Tile {
    block: [u32; 2],
    cluster: [u32; 2],
    sharing: Sharing,
    /// The time of a column of 128 rows beside that of [`WIDE`].
    column: f32,
    order: Order,
    /// There are instances for B along N, and for A along M; and none but for elements of 16 bits.
    b_along_n: bool,
    a_along_m: bool,
    of_16_bits: bool,
    /// Tiles of clusters in a row and in a column of C, and teams in a block: of the clusters that work on a tile together.
    per_row: f32,
    per_column: f32,
    per_block: f32,
    /// Rows of A and of B that a block loads in each step, those that its cluster shares counted once, beside the columns of the tile.
    rows_a: f32,
    rows_b: f32,
}

impl Tile {
    /// A tile of this extent for clusters of this one, without the rest of its properties.
    const fn new([block_m, block_n]: [u32; 2], [cluster_m, cluster_n]: [u32; 2], sharing: Sharing) -> Tile {
        let splits = if let Sharing::Depth(splits) = sharing { splits } else { 1 };
        Tile {
            block: [block_m, block_n],
            cluster: [cluster_m, cluster_n],
            sharing,
            column: 1.0,
            order: Order { band: 4, run: 8 },
            b_along_n: false,
            a_along_m: false,
            of_16_bits: false,
            per_row: 1.0 / (block_m * cluster_m) as f32,
            per_column: 1.0 / (block_n * cluster_n) as f32,
            per_block: 1.0 / (cluster_m * cluster_n * splits) as f32,
            rows_a: 128.0 / (block_n * cluster_n) as f32,
            rows_b: 128.0 / (block_m * cluster_m) as f32,
        }
    }
}

static WIDE: Tile = Tile { b_along_n: true, a_along_m: true, ..Tile::new([128, 256], [2, 1], Sharing::Whole) };

/// All tiles but [`WIDE`], with their costs and their orders.
///
/// A GPC has up to nine clusters, whose numbers are neighbors, and their simultaneous requests for the same lines reach the L2 cache once;
/// but not those by multicast, of A in clusters of 1 × 2 and of B in clusters of 2 × 1. So the former take tiles one below the other, and
/// the latter tiles side by side.
static TILES: [Tile; 6] = [
    Tile {
        column: 1.013,
        order: Order { band: 8, run: 1 },
        b_along_n: true,
        of_16_bits: true,
        ..Tile::new([128, 256], [1, 2], Sharing::Whole)
    },
    Tile {
        column: 1.28,
        order: Order { band: 16, run: 1 },
        of_16_bits: true,
        ..Tile::new([64, 128], [1, 2], Sharing::Whole)
    },
    Tile { column: 1.025, of_16_bits: true, ..Tile::new([128, 128], [2, 1], Sharing::Whole) },
    Tile { column: 0.97, order: Order { band: 4, run: 4 }, ..Tile::new([128, 320], [2, 1], Sharing::Whole) },
    Tile {
        column: 0.935,
        order: Order { band: 9, run: 1 },
        b_along_n: true,
        ..Tile::new([256, 192], [1, 2], Sharing::LastRound)
    },
    Tile { column: 1.25, ..Tile::new([128, 256], [2, 1], Sharing::Depth(4)) },
];

/// The time of a cache line on its way to an SM, where all of them load, beside that of a column.
const LINE: f32 = 0.45;

/// The part of the time of a last round that its idle clusters save, because they leave their power to the others.
const POWER: f32 = 0.25;

/// Picoseconds from which a product is a long one, which [`Costs::saved`] shortens.
const LONG: f32 = 150e6;

/// A choice of a variant: a kind of tile. Made by [`Gemm`](crate::gemm::Gemm).
#[derive(Clone, Copy, Debug)]
pub struct Pick(&'static Tile);

impl Pick {
    /// The variant with such tiles for operands in this layout, and the order of its tiles; `None` without one.
    pub(crate) fn variant<T: Operand>(self, layout: Layout) -> Option<(Variant<T>, Order)> {
        let Tile { block, cluster, sharing, order, .. } = *self.0;
        let is_picked = |variant: &Variant<T>| {
            variant.block() == block
                && variant.cluster() == cluster
                && variant.sharing() == sharing
                && variant.layout() == layout
        };
        variants::<T>().find(is_picked).map(|variant| (variant, order))
    }
}

/// The fastest variant for a product of this shape (M, N, K) by `estimate`, and the order of its tiles; `None` without one for the layout.
pub fn pick<T: Operand>(scratch: &Scratch, shape: [usize; 3], layout: Layout) -> Option<(Variant<T>, Order)> {
    let shape = shape.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX));
    let costs = if size_of::<T>() == 2 { &SHIPPED } else { &SHIPPED_OF_OTHERS };
    estimate(scratch.num_blocks(), shape, size_of::<T>() as u64, layout, costs).1.variant(layout)
}

/// The fastest variant for a product of this shape (M, N, K) with operands of `size` bytes on a device with `num_blocks` SMs, and its time
/// in picoseconds beside that of any launch. The estimate: rounds of tiles, times the columns of a tile, times the cost of a column in such
/// a tile; beside that of memory, as in the model of the other kernels.
pub(crate) fn estimate(num_blocks: u32, shape: [u32; 3], size: u64, layout: Layout, costs: &Costs) -> (f32, Pick) {
    let fits = |tile: &Tile| {
        (layout.b_k_major || tile.b_along_n) && (layout.a_k_major || tile.a_along_m) && (size == 2 || !tile.of_16_bits)
    };
    let [m, n, k] = shape;
    let row = |k_major: bool, extent: u32| LINE * lines_of_row(u64::from(if k_major { k } else { extent }) * size);
    let rows = [row(layout.a_k_major, m), row(layout.b_k_major, n)];
    let (blocks, shape) = (num_blocks as f32, [m as f32, n as f32, k as f32]);
    let (mut cost, mut tile) = (WIDE.cost(blocks, shape, rows), &WIDE);
    for this in &TILES {
        let of = if fits(this) { this.cost(blocks, shape, rows) } else { f32::INFINITY };
        (cost, tile) = if of < cost { (of, this) } else { (cost, tile) };
    }
    let memory = costs.memory(shape, size as f32, 2.0);
    let [m, n, k] = shape;
    let slices = ceil(k * size as f32 / 128.0);
    let columns = ceil(tile.tiles(m, n) / tile.teams(blocks)) * tile.columns();
    let parts = if let Sharing::Depth(splits) = tile.sharing { splits as f32 } else { 1.0 };
    let time = larger(cost * costs.column * slices, columns * costs.column_latency * slices / parts);
    // The power limit slows long products down, and these kernels need less power than the others.
    let saved = 1.0 - costs.saved * smaller(time / LONG, 1.0);
    let tiles = time * saved + columns * costs.column_round;
    ((tiles * tiles + memory * memory).sqrt() + costs.hopper, Pick(tile))
}

impl<T> Variant<T> {
    /// The order of tiles that was fastest with large products.
    pub fn order(&self) -> Order {
        self.tile().order
    }

    /// Its tile.
    fn tile(&self) -> &'static Tile {
        let (block, cluster, sharing) = (self.block(), self.cluster(), self.sharing());
        let is_own = |tile: &&Tile| tile.block == block && tile.cluster == cluster && tile.sharing == sharing;
        TILES.iter().find(is_own).unwrap_or(&WIDE)
    }
}

impl Tile {
    /// Columns of 128 rows.
    #[inline(always)]
    fn columns(&self) -> f32 {
        (self.block[0] * self.block[1]) as f32 / 128.0
    }

    /// Tiles of clusters.
    #[inline(always)]
    fn tiles(&self, m: f32, n: f32) -> f32 {
        ceil(m * self.per_row) * ceil(n * self.per_column)
    }

    /// Clusters, or groups of clusters, that run at the same time.
    #[inline(always)]
    fn teams(&self, blocks: f32) -> f32 {
        larger((blocks * self.per_block) as u32 as f32, 1.0)
    }

    /// The time of a product, in columns of 128 rows: of multiplying, or of loading. `rows` are the times of a row of A and of B.
    #[inline(always)]
    fn cost(&self, blocks: f32, [m, n, k]: [f32; 3], rows: [f32; 2]) -> f32 {
        // The time of 64 elements along K, as a part of a tile's.
        let step = 64.0 / larger(k, 1.0);
        let rounds = self.rounds(self.teams(blocks), self.tiles(m, n), step);
        let column = larger(self.column, self.rows_a * rows[0] + self.rows_b * rows[1]);
        rounds * self.columns() * column
    }

    /// The rounds of `tiles` tiles of `teams` clusters or groups of clusters, as their time goes.
    #[inline(always)]
    fn rounds(&self, teams: f32, tiles: f32, step: f32) -> f32 {
        let exact = tiles / teams;
        let rounds = ceil(exact);
        match self.sharing {
            Sharing::Whole => POWER * exact + (1.0 - POWER) * rounds,
            // To store and add a partial sum takes the time of eight steps. Clusters that begin at different places along K read different
            // parts of the operands at a time, which takes as long as 0.08 of a round.
            Sharing::LastRound => {
                let rest = tiles - teams * (rounds - 1.0);
                let each = teams / rest;
                let apart = if each == ceil(each) { 0.0 } else { 0.08 };
                // As `scheduler::StreamK` has it.
                let shared = if tiles > teams && 4.0 * rest < teams { rest + teams } else { rest };
                let sharing = apart + 8.0 * larger(ceil(teams / shared) - 1.0, 1.0) * step;
                exact + if rest == teams { 0.0 } else { sharing }
            }
            // The exchange of sums takes five steps.
            Sharing::Depth(splits) => rounds * (1.0 / splits as f32 + 5.0 * step),
        }
    }
}
