//! The choice of a variant for a shape.

use super::scratch::Scratch;
use super::variant::{Layout, Operand, Order, Sharing, Variant, variants};

/// Blocks' tiles: the cost of a column of 128 rows, as measured on an H200 at the limit of its power, and the order of tiles.
///
/// A GPC has up to nine clusters, whose numbers are neighbors, and their simultaneous requests for the same lines reach the L2 cache once;
/// but not those by multicast, of A in clusters of 1 × 2 and of B in clusters of 2 × 1. So the former take tiles one below the other, and
/// the latter tiles side by side.
const TILES: [([u32; 2], f64, Order); 5] = [
    ([64, 128], 1.1, Order { band: 16, run: 1 }),
    ([128, 128], 1.05, Order { band: 4, run: 8 }),
    ([128, 256], 1.0, Order { band: 4, run: 8 }),
    ([128, 320], 0.985, Order { band: 4, run: 4 }),
    ([256, 192], 0.945, Order { band: 9, run: 1 }),
];

/// The fastest variant for a product of this shape (M, N, K), and the order of its tiles; `None` without one for the layout. The estimate:
/// rounds of tiles, times the columns of a tile, times the cost of a column in such a tile.
pub fn pick<T: Operand>(scratch: &Scratch, shape: [usize; 3], layout: Layout) -> Option<(Variant<T>, Order)> {
    let fitting = variants::<T>().filter(|variant| variant.layout() == layout);
    let cost = |variant: &Variant<T>| variant.cost(scratch.num_blocks(), shape);
    let best = fitting.min_by(|one, other| cost(one).total_cmp(&cost(other)));
    best.map(|variant| (variant, variant.measured().1))
}

/// Times in picoseconds, as measured on an H200: of a column of 128 rows for 128 bytes along K on a busy device, of one at least, of a
/// column of each round, and of all that is before and behind.
const COLUMN: f64 = 2.84e3;
const LATENCY: f64 = 85.0;
const ROUND: f64 = 17.0;
const LAUNCH: f64 = 3.23e6;

/// The time of the variant that [`pick`] takes, about, in picoseconds beside that of any launch, with operands of `size` bytes on a device
/// with `num_blocks` SMs.
pub(crate) fn estimate(num_blocks: u32, shape @ [_, _, k]: [usize; 3], size: u64, layout: Layout) -> f64 {
    let fitting = variants::<half::bf16>().filter(|variant| variant.layout() == layout);
    let times = fitting.map(|variant| (variant.cost(num_blocks, shape), variant));
    let Some((cost, variant)) = times.min_by(|one, other| one.0.total_cmp(&other.0)) else { return f64::INFINITY };
    let slices = (k as f64 * size as f64 / 128.0).ceil();
    let [block_m, block_n] = variant.block();
    let rounds = variant.tiles(shape).div_ceil((num_blocks / variant.team()).max(1));
    let columns = f64::from(rounds) * f64::from(block_m * block_n) / 128.0;
    let parts = if let Sharing::Depth(splits) = variant.sharing() { f64::from(splits) } else { 1.0 };
    (cost * COLUMN * slices).max(columns * LATENCY * slices / parts) + columns * ROUND + LAUNCH
}

impl<T> Variant<T> {
    /// The order of tiles that was fastest with large products.
    pub fn order(&self) -> Order {
        self.measured().1
    }

    /// Tiles of clusters.
    fn tiles(&self, [m, n, _]: [usize; 3]) -> u32 {
        let ([block_m, block_n], [cluster_m, cluster_n]) = (self.block(), self.cluster());
        (m as u32).div_ceil(block_m * cluster_m) * (n as u32).div_ceil(block_n * cluster_n)
    }

    /// The cost of a column, and the order of tiles.
    fn measured(&self) -> (f64, Order) {
        let (_, cost, order) = TILES.iter().find(|(block, ..)| *block == self.block()).unwrap_or(&TILES[2]);
        (*cost, *order)
    }

    /// The time of a product, in columns of 128 rows.
    fn cost(&self, num_blocks: u32, shape: [usize; 3]) -> f64 {
        let [block_m, block_n] = self.block();
        let columns = f64::from(block_m * block_n) / 128.0;
        self.rounds((num_blocks / self.team()).max(1), shape) * columns * self.measured().0
    }

    /// The rounds of tiles of `teams` clusters or groups of clusters, as their time goes.
    fn rounds(&self, teams: u32, shape @ [_, _, k]: [usize; 3]) -> f64 {
        let tiles = self.tiles(shape);
        let (rest, exact) = (tiles % teams, f64::from(tiles) / f64::from(teams));
        // The time of 64 elements along K, as a part of a tile's.
        let step = 64.0 / (k as f64).max(1.0);
        match self.sharing() {
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
