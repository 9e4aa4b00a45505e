//! The choice of a variant for a shape.

use super::scratch::Scratch;
use super::variant::{Layout, Operand, Order, Sharing, Variant, variants};
use crate::gemm::tuning::Costs;

/// A tile of the kernels.
struct Tile {
    block: [u32; 2],
    cluster: [u32; 2],
    sharing: Sharing,
    /// The time of a column of 128 rows beside that of [`WIDE`], as measured on an H200 at the limit of its power.
    column: f64,
    order: Order,
    /// There are instances for operands in all layouts; and none but for `bf16`.
    any_major: bool,
    bf16_only: bool,
}

const WIDE: Tile = Tile {
    block: [128, 256],
    cluster: [2, 1],
    sharing: Sharing::Whole,
    column: 1.0,
    order: Order { band: 4, run: 8 },
    any_major: true,
    bf16_only: false,
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
        bf16_only: true,
        ..WIDE
    },
    Tile { block: [128, 128], column: 1.05, any_major: false, bf16_only: true, ..WIDE },
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
    shape @ [_, _, k]: [usize; 3],
    size: u64,
    is_bf16: bool,
    layout: Layout,
    costs: &Costs,
) -> f64 {
    let fits = |tile: &&Tile| (layout == Layout::K_MAJOR || tile.any_major) && (is_bf16 || !tile.bf16_only);
    let times = TILES.iter().filter(fits).map(|tile| (tile.cost(num_blocks, shape), tile));
    let Some((cost, tile)) = times.min_by(|one, other| one.0.total_cmp(&other.0)) else { return f64::INFINITY };
    let slices = (k as f64 * size as f64 / 128.0).ceil();
    let rounds = tile.tiles(shape).div_ceil((num_blocks / tile.team()).max(1));
    let columns = f64::from(rounds) * tile.columns();
    let parts = if let Sharing::Depth(splits) = tile.sharing { f64::from(splits) } else { 1.0 };
    let time = (cost * costs.column * slices).max(columns * costs.column_latency * slices / parts);
    // The power limit slows long products down, and these kernels need less power than the others.
    let saved = 1.0 - SAVED * (time / LONG).min(1.0);
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
    const fn team(&self) -> u32 {
        let blocks = self.cluster[0] * self.cluster[1];
        if let Sharing::Depth(splits) = self.sharing { blocks * splits } else { blocks }
    }

    /// Columns of 128 rows.
    fn columns(&self) -> f64 {
        f64::from(self.block[0] * self.block[1]) / 128.0
    }

    /// Tiles of clusters.
    fn tiles(&self, [m, n, _]: [usize; 3]) -> u32 {
        let ([block_m, block_n], [cluster_m, cluster_n]) = (self.block, self.cluster);
        (m as u32).div_ceil(block_m * cluster_m) * (n as u32).div_ceil(block_n * cluster_n)
    }

    /// The time of a product, in columns of 128 rows.
    fn cost(&self, num_blocks: u32, shape: [usize; 3]) -> f64 {
        self.rounds((num_blocks / self.team()).max(1), shape) * self.columns() * self.column
    }

    /// The rounds of tiles of `teams` clusters or groups of clusters, as their time goes.
    fn rounds(&self, teams: u32, shape @ [_, _, k]: [usize; 3]) -> f64 {
        let tiles = self.tiles(shape);
        let (rest, exact) = (tiles % teams, f64::from(tiles) / f64::from(teams));
        // The time of 64 elements along K, as a part of a tile's.
        let step = 64.0 / (k as f64).max(1.0);
        match self.sharing {
            // Clusters without a tile in the last round leave their power to the others, so half of the time is not lost.
            Sharing::Whole => f64::midpoint(exact, exact.ceil()),
            Sharing::LastRound if rest == 0 => exact,
            // To store and add a partial sum takes the time of six steps. Clusters that begin at different places along K read different
            // parts of the operands at a time, which takes as long as 0.15 of a round.
            Sharing::LastRound => {
                let apart = if teams.is_multiple_of(rest) { 0.0 } else { 0.15 };
                // As `scheduler::StreamK` has it.
                let shared = if tiles > teams && 4 * rest < teams { rest + teams } else { rest };
                exact + apart + f64::from(6 * (teams.div_ceil(shared) - 1).max(1)) * step
            }
            // The exchange of sums takes five steps.
            Sharing::Depth(splits) => exact.ceil() * (1.0 / f64::from(splits) + 5.0 * step),
        }
    }
}
