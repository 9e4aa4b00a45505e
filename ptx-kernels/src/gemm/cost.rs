//! The cost model: the time of a product by an instance, in picoseconds, without that of any launch.

use super::access::{Access, Packed, Ways};
use super::instance::{Family, Instance, Loads};
use super::params::Source;
use super::problem::{self, Product};
use super::tuning::{Cost, Costs};

/// The most parts of K, and the rounds of units that they are to fill.
const SPLITS: u32 = 32;
const ROUNDS: u32 = 4;

/// The part of the time of a last round that idle clusters of the claimed scheduler save, because the others have their power.
const POWER: f32 = 0.25;

/// Picoseconds from which a product is a long one, which [`Costs::saved`] shortens.
const LONG: f32 = 150e6;

/// Steps of 64 elements along K: the exchange of a partial sum by stream-K.
const STREAM_K_STEPS: f32 = 8.0;

/// The part of a round by which clusters at different places along K read more, because they read different parts of the operands at a time.
const APART: f32 = 0.08;

/// A number by which counts are divided. To multiply by its reciprocal takes less time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: f32,
    reciprocal: f32,
}

impl Divisor {
    pub(crate) const fn new(by: u32) -> Divisor {
        Divisor { by: by as f32, reciprocal: 1.0 / by as f32 }
    }

    /// The quotient of a count, rounded up. Quotients of more than 2²² are about right.
    fn div_up(self, count: f32) -> f32 {
        const LARGE: f32 = (1u32 << 23) as f32;
        let nearest = count * self.reciprocal + LARGE - LARGE;
        if nearest * self.by < count { nearest + 1.0 } else { nearest }
    }
}

/// The larger and the smaller one of two numbers: one instruction each, which those of `f32` are not.
fn larger(one: f32, other: f32) -> f32 {
    if one > other { one } else { other }
}

fn smaller(one: f32, other: f32) -> f32 {
    if one < other { one } else { other }
}

/// A product on a device: all that times depend on but the kernel.
pub(crate) struct Extents {
    m: f32,
    n: f32,
    k: f32,
    batches: f32,
    /// Clusters of 1, 2, 4 and 8 blocks that run at the same time.
    capacities: [Divisor; 4],
    /// Bytes of the sums of C.
    sums: f32,
    /// The least time in which memory moves A, B and C.
    memory: f32,
    /// The time of copies of operands, and of rows of C at odd addresses, for kernels with each kind of [`Loads`].
    packs: [f32; 3],
    /// Cache lines of a row of A, and of B, in the mean of all rows.
    lines: [f32; 2],
    /// Bytes of an element of A, and of B, that copies of 4 bytes move.
    narrow: [f32; 2],
    /// 0 if B lies along K, and else 1, and more where lanes that read along K read from the same banks.
    along_n: f32,
}

/// A product by an instance of a family that the host may divide along K: all that its time depends on but the parts of K.
pub(crate) struct Work<'e> {
    extents: &'e Extents,
    loads: Loads,
    cost: Cost,
    slices: f32,
    /// Tiles of clusters, of all batches, and the clusters that run at the same time.
    tiles: f32,
    capacity: Divisor,
    /// The time of a part of K that is added up, and of doing that at all.
    part: f32,
    reduce: f32,
    contention: f32,
}

impl Extents {
    /// The extents of a product whose operands are read in these ways, on a device with so many SMs.
    pub(crate) fn new(product: &Product, ways: &Ways, sms: u32, costs: &Costs) -> Extents {
        let Product { kind, ref c, ref epilogue, .. } = *product;
        let (size, to) = (problem::size(kind), problem::size(epilogue.kind));
        let [m, n, k] = [product.m, product.n, product.k].map(|extent| extent as f32);
        let batches = product.batches as f32;
        let ragged = if c.is_wide(to) { 0.0 } else { costs.ragged * batches * m * n };
        Extents {
            m,
            n,
            k,
            batches,
            capacities: [1, 2, 4, 8].map(|blocks| Divisor::new((sms / blocks).max(1))),
            sums: 4.0 * m * problem::pitch(product.n) as f32 * batches,
            memory: batches * costs.memory([m, n, k], size as f32, to as f32),
            packs: [0.0, packing(product, &ways.by_runs, costs), packing(product, &ways.by_tma, costs) + ragged],
            lines: [lines(&product.a, &ways.by_tma[0]), lines(&product.b, &ways.by_tma[1])],
            narrow: ways.by_runs.map(|access| if access.wide { 0.0 } else { size as f32 }),
            along_n: if product.b.is_along_k(product.n, product.k) {
                0.0
            } else {
                1.0 + costs.banks * part_of_lines(product.b.k)
            },
        }
    }

    /// The clusters of so many blocks, a power of two up to 8, that run at the same time.
    fn capacity(&self, blocks: u32) -> Divisor {
        self.capacities[blocks.trailing_zeros() as usize & 3]
    }
}

/// Cache lines of 128 bytes of a row of an operand, in the mean of all rows: two, but for those that begin with a line, as rows of copies do.
fn lines(operand: &Source, access: &Access) -> f32 {
    if access.is_copied {
        return 1.0;
    }
    2.0 - part_of_lines(if access.along_k { operand.line } else { operand.k })
}

/// The largest power of two up to 128 that divides a distance in bytes, as a part of a cache line of 128 bytes.
fn part_of_lines(distance: u64) -> f32 {
    (1 << (distance | 128).trailing_zeros()) as f32 / 128.0
}

/// The time of the copies of operands.
fn packing(product: &Product, access: &[Access; 2], costs: &Costs) -> f32 {
    if !access[0].is_copied && !access[1].is_copied {
        return 0.0;
    }
    let time = |(packed, source): (Option<Packed>, &Source)| {
        let packed = packed?;
        let is_dense = packed.is_dense(source, problem::size(product.kind));
        Some(packed.bytes() as f32 * if is_dense { costs.copied_byte } else { costs.turned_byte })
    };
    let copies: f32 = Packed::of(product, access).into_iter().zip([&product.a, &product.b]).filter_map(time).sum();
    if copies > 0.0 { costs.pack + copies } else { 0.0 }
}

/// The time with K in so many parts.
pub(crate) fn time(instance: &Instance, extents: &Extents, splits: u32, costs: &Costs) -> f32 {
    if instance.family.has_scratch() {
        time_of_rounds(instance, extents, costs)
    } else {
        Work::new(instance, extents, costs).time(splits as f32)
    }
}

impl<'e> Work<'e> {
    pub(crate) fn new(instance: &Instance, extents: &'e Extents, costs: &Costs) -> Work<'e> {
        let ([tile_m, tile_n], [cluster_m, cluster_n]) = (instance.tile, instance.cluster);
        let [rows, columns, depth] = instance.divisors;
        let (tiles, loads) =
            (rows.div_up(extents.m) * columns.div_up(extents.n) * extents.batches, instance.family.loads());
        let mut cost = costs.tiles[instance.cost];
        let (mut part, mut reduce) = (cost.part + extents.sums * costs.part_byte, costs.reduce);
        // What a slice takes more where operands lie badly.
        let more = match loads {
            Loads::Tma => {
                // The second cache line of the rows that a block loads for a slice. Clusters are powers of two.
                let loaded = [tile_m >> cluster_n.trailing_zeros(), tile_n >> cluster_m.trailing_zeros()];
                [0, 1].map(|at| loaded[at] as f32 * (extents.lines[at] - 1.0) * costs.line).iter().sum()
            }
            Loads::Runs => {
                let [a, b] = extents.narrow;
                (tile_m as f32 * a + tile_n as f32 * b) * depth.by * costs.narrow
            }
            Loads::Elements if instance.majors[1] == Some(true) => {
                tile_n as f32 * extents.along_n * depth.by * costs.across
            }
            Loads::Elements => 0.0,
        };
        cost.slice += more;
        cost.latency += more;
        if loads == Loads::Tma {
            let area = (tile_m * cluster_m * tile_n * cluster_n) as f32;
            part = cost.part + tiles * (4.0 * area * costs.part_byte);
            reduce = costs.reduce_inside;
        }
        let (slices, capacity) = (larger(depth.div_up(extents.k), 1.0), extents.capacity(instance.blocks()));
        Work { extents, loads, cost, slices, tiles, capacity, part, reduce, contention: costs.contention }
    }

    /// The time with K in one part.
    pub(crate) fn whole(&self) -> f32 {
        self.launch(self.slices, 1.0)
    }

    /// The time with K in so many parts, or fewer if it has not so many slices for them.
    pub(crate) fn time(&self, splits: f32) -> f32 {
        let each = (self.slices / smaller(splits, self.slices)).ceil();
        let parts = (self.slices / each).ceil();
        let sums = if parts > 1.0 { self.part * parts + self.reduce } else { 0.0 };
        self.launch(each, parts) + sums
    }

    /// The time of the copies and of the kernel, for parts of K of `each` slices.
    fn launch(&self, each: f32, parts: f32) -> f32 {
        let Cost { slice, latency, tile, later, .. } = self.cost;
        let units = self.tiles * parts;
        let rounds = self.capacity.div_up(units);
        let slices = if self.loads == Loads::Tma {
            let busy = slice * smaller(units * self.capacity.reciprocal, 1.0);
            rounds * each * (larger(latency, busy) + self.contention * smaller(latency, busy))
        } else {
            each * larger(rounds * slice, latency)
        };
        // Where memory takes as long as the blocks do, both slow down.
        let (blocks, memory) = (slices + later * (rounds - 1.0), self.extents.memory);
        tile + (blocks * blocks + memory * memory).sqrt() + self.extents.packs[self.loads as usize]
    }

    /// True if K in two parts makes no more units than fill [`ROUNDS`] rounds.
    pub(crate) fn is_divisible(&self) -> bool {
        2.0 * self.tiles <= ROUNDS as f32 * self.capacity.by && self.slices > 1.0
    }

    /// About the time with K in the best number of parts p. They take S · latency / p, and part · p to be added up: as long as one another if p
    /// is the root of S · latency / part; but no more parts are made than fill the device.
    pub(crate) fn divided(&self) -> f32 {
        let Cost { slice, latency, tile, .. } = self.cost;
        let (tiles, alone) = (self.tiles * self.capacity.reciprocal, self.slices * latency);
        let busy = tiles * self.slices * slice;
        let slices = larger(larger(alone * tiles, (alone * self.part).sqrt()), 1.0);
        let sums = larger(alone * self.part / slices, self.part * 2.0);
        let parts = larger(larger(busy, slices) + sums, self.extents.memory);
        tile + self.extents.packs[self.loads as usize] + self.reduce + parts
    }

    /// The best number of parts of K, and its time, of those that fill one round of units, or a few, up to the number with which all parts take
    /// as long to add up as the slices of one take.
    pub(crate) fn fastest_division(&self) -> (u32, f32) {
        let slice = larger(self.cost.latency, self.cost.slice);
        let balance = (self.slices * slice / larger(self.part, 1.0)).sqrt();
        let most = smaller(smaller(balance + 1.0, self.slices), SPLITS as f32);
        let (mut best, mut least) = (1, f32::INFINITY);
        for rounds in 1..=ROUNDS {
            let filling = rounds as f32 * self.capacity.by / self.tiles;
            let splits = larger(smaller(filling, most), 1.0).floor();
            let time = self.time(splits);
            (best, least) = if time < least { (splits as u32, time) } else { (best, least) };
        }
        (best, least)
    }
}

/// The time by a kernel with scratch memory: rounds of tiles, times the columns of 128 rows of a tile, times the cost of a column, of multiplying
/// or of loading; combined with that of memory. [`Cost::slice`] and [`Cost::latency`] are those of such a column, and [`Cost::tile`] that in each round.
pub(crate) fn time_of_rounds(instance: &Instance, extents: &Extents, costs: &Costs) -> f32 {
    let ([tile_m, tile_n], [cluster_m, cluster_n]) = (instance.tile, instance.cluster);
    let [rows, columns, depth] = instance.divisors;
    let tiles = rows.div_up(extents.m) * columns.div_up(extents.n);
    let teams = extents.capacity(instance.blocks());
    let cost = costs.tiles[instance.cost];
    // Rows that a block loads for each column of its tile; those that its cluster shares count once.
    let (rows_a, rows_b) = (128.0 / (tile_n * cluster_n) as f32, 128.0 / (tile_m * cluster_m) as f32);
    let column = larger(cost.slice, costs.claimed_line * (rows_a * extents.lines[0] + rows_b * extents.lines[1]));
    let (columns, slices) = ((tile_m * tile_n) as f32 / 128.0, depth.div_up(extents.k));
    let all = teams.div_up(tiles) * columns;
    let busy = rounds(instance, teams, tiles, 64.0 / larger(extents.k, 1.0)) * columns * column * slices;
    let time = larger(busy, all * cost.latency * slices);
    // The power limit slows long products down, and these kernels need less power than the others.
    let saved = 1.0 - costs.saved * smaller(time / LONG, 1.0);
    let (tiles, memory) = (time * saved + all * cost.tile, extents.memory);
    (tiles * tiles + memory * memory).sqrt() + costs.claimed_start
}

/// The rounds of `tiles` tiles of `teams` clusters, as their time goes; `step` is 64 elements as a part of K.
fn rounds(instance: &Instance, teams: Divisor, tiles: f32, step: f32) -> f32 {
    let (exact, rounds, teams) = (tiles / teams.by, teams.div_up(tiles), teams.by);
    match instance.family {
        Family::StreamK => {
            let rest = tiles - teams * (rounds - 1.0);
            let each = teams / rest;
            let apart = if each == each.ceil() { 0.0 } else { APART };
            // As `scheduler::StreamK` has it.
            let shared = if tiles > teams && 4.0 * rest < teams { rest + teams } else { rest };
            let parts = larger((teams / shared).ceil() - 1.0, 1.0);
            exact + if rest == teams { 0.0 } else { apart + STREAM_K_STEPS * parts * step }
        }
        _ => POWER * exact + (1.0 - POWER) * rounds,
    }
}
