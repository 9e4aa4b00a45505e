//! The choice of a variant for a shape.

use super::scratch::Scratch;
use super::variant::{Layout, Operand, Order, Sharing, Variant, variants};
use crate::gemm::model::{ceil, larger, smaller};
use crate::gemm::tuning::Costs;

/// A tile of the kernels.
struct Tile {
    block: [u32; 2],
    cluster: [u32; 2],
    sharing: Sharing,
    /// The time of a column of 128 rows beside that of [`WIDE`], as measured on an H200 at the limit of its power.
    column: f64,
    order: Order,
    /// There are instances for operands in all layouts; and none but for elements of 16 bits.
    any_major: bool,
    of_16_bits: bool,
}

const WIDE: Tile = Tile {
    block: [128, 256],
    cluster: [2, 1],
    sharing: Sharing::Whole,
    column: 1.0,
    order: Order { band: 4, run: 8 },
    any_major: true,
    of_16_bits: false,
};

/// All tiles, with their costs and their orders.
///
/// A GPC has up to nine clusters, whose numbers are neighbors, and their simultaneous requests for the same lines reach the L2 cache once;
/// but not those by multicast, of A in clusters of 1 × 2 and of B in clusters of 2 × 1. So the former take tiles one below the other, and
/// the latter tiles side by side.
const TILES: [Tile; 6] = [
    Tile {
        block: [64, 128],
        cluster: [1, 2],
        column: 1.1,
        order: Order { band: 16, run: 1 },
        any_major: false,
        of_16_bits: true,
        ..WIDE
    },
    Tile { block: [128, 128], column: 1.05, any_major: false, of_16_bits: true, ..WIDE },
    WIDE,
    Tile { block: [128, 320], column: 0.985, order: Order { band: 4, run: 4 }, any_major: false, ..WIDE },
    Tile {
        block: [256, 192],
        cluster: [1, 2],
        sharing: Sharing::LastRound,
        column: 0.945,
        order: Order { band: 9, run: 1 },
        any_major: false,
        ..WIDE
    },
    Tile { sharing: Sharing::Depth(4), any_major: false, ..WIDE },
];

/// The part of the time that these kernels seem to take less, in products that take so many picoseconds or more: the times are those of
/// single launches on a cool device, and many in a row meet the limit of its power.
const SAVED: f64 = 0.2;
const LONG: f64 = 150e6;

/// The fastest variant for a product of this shape (M, N, K), and the order of its tiles; `None` without one for the layout. The estimate:
/// rounds of tiles, times the columns of a tile, times the cost of a column in such a tile.
pub fn pick<T: Operand>(scratch: &Scratch, shape: [usize; 3], layout: Layout) -> Option<(Variant<T>, Order)> {
    let fitting = variants::<T>().filter(|variant| variant.layout() == layout);
    let cost = |variant: &Variant<T>| variant.tile().cost(scratch.num_blocks(), shape);
    let best = fitting.min_by(|one, other| cost(one).total_cmp(&cost(other)));
    best.map(|variant| (variant, variant.order()))
}

/// The time of the variant that [`pick`] takes, about, in picoseconds beside that of any launch, with operands of `size` bytes on a device
/// with `num_blocks` SMs.
pub(crate) fn estimate(
    num_blocks: u32,
    shape @ [m, n, k]: [usize; 3],
    size: u64,
    layout: Layout,
    costs: &Costs,
) -> f64 {
    let fits = |tile: &Tile| (layout == Layout::K_MAJOR || tile.any_major) && (size == 2 || !tile.of_16_bits);
    let (mut cost, mut tile) = (f64::INFINITY, &WIDE);
    for this in &TILES {
        let of = if fits(this) { this.cost(num_blocks, shape) } else { f64::INFINITY };
        (cost, tile) = if of < cost { (of, this) } else { (cost, tile) };
    }
    let slices = ceil(k as f64 * size as f64 / 128.0);
    let columns = ceil(tile.tiles([m as f64, n as f64]) / tile.teams(num_blocks)) * tile.columns();
    let parts = if let Sharing::Depth(splits) = tile.sharing { f64::from(splits) } else { 1.0 };
    let time = larger(cost * costs.column * slices, columns * costs.column_latency * slices / parts);
    // The power limit slows long products down, and these kernels need less power than the others.
    let saved = 1.0 - SAVED * smaller(time / LONG, 1.0);
    (time + columns * costs.column_round) * saved + costs.hopper
}

impl<T> Variant<T> {
    /// The order of tiles that was fastest with large products.
    pub fn order(&self) -> Order {
        self.tile().order
    }

    /// Its tile, or one like it.
    fn tile(&self) -> &'static Tile {
        let (block, sharing) = (self.block(), self.sharing());
        TILES.iter().find(|tile| tile.block == block && tile.sharing == sharing).unwrap_or(&WIDE)
    }
}

impl Tile {
    /// Blocks that work on a tile together.
    #[inline(always)]
    const fn team(&self) -> u32 {
        let blocks = self.cluster[0] * self.cluster[1];
        if let Sharing::Depth(splits) = self.sharing { blocks * splits } else { blocks }
    }

    /// Columns of 128 rows.
    #[inline(always)]
    fn columns(&self) -> f64 {
        f64::from(self.block[0] * self.block[1]) / 128.0
    }

    /// Tiles of clusters.
    #[inline(always)]
    fn tiles(&self, [m, n]: [f64; 2]) -> f64 {
        let ([block_m, block_n], [cluster_m, cluster_n]) = (self.block, self.cluster);
        let (per_row, per_column) = (1.0 / (block_m * cluster_m) as f64, 1.0 / (block_n * cluster_n) as f64);
        ceil(m * per_row) * ceil(n * per_column)
    }

    /// Clusters, or groups of clusters, that run at the same time.
    #[inline(always)]
    fn teams(&self, num_blocks: u32) -> f64 {
        f64::from((num_blocks / self.team()).max(1))
    }

    /// The time of a product, in columns of 128 rows.
    #[inline(always)]
    fn cost(&self, num_blocks: u32, shape: [usize; 3]) -> f64 {
        let [m, n, k] = shape.map(|extent| extent as f64);
        // The time of 64 elements along K, as a part of a tile's.
        let step = 64.0 / larger(k, 1.0);
        self.rounds(self.teams(num_blocks), self.tiles([m, n]), step) * self.columns() * self.column
    }

    /// The rounds of `tiles` tiles of `teams` clusters or groups of clusters, as their time goes.
    #[inline(always)]
    fn rounds(&self, teams: f64, tiles: f64, step: f64) -> f64 {
        let exact = tiles / teams;
        let rounds = ceil(exact);
        match self.sharing {
            // Clusters without a tile in the last round leave their power to the others, so half of the time is not lost.
            Sharing::Whole => 0.5 * (exact + rounds),
            // To store and add a partial sum takes the time of six steps. Clusters that begin at different places along K read different
            // parts of the operands at a time, which takes as long as 0.15 of a round.
            Sharing::LastRound => {
                let rest = tiles - teams * (rounds - 1.0);
                let each = teams / rest;
                let apart = if each == ceil(each) { 0.0 } else { 0.15 };
                // As `scheduler::StreamK` has it.
                let shared = if tiles > teams && 4.0 * rest < teams { rest + teams } else { rest };
                let sharing = apart + 6.0 * larger(ceil(teams / shared) - 1.0, 1.0) * step;
                exact + if rest == teams { 0.0 } else { sharing }
            }
            // The exchange of sums takes five steps.
            Sharing::Depth(splits) => rounds * (1.0 / f64::from(splits) + 5.0 * step),
        }
    }
}
