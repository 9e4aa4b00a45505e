//! The cost model: the time of a product by each kernel that takes it.
//!
//! A choice computes the times of four kernels at once. The model multiplies by reciprocals, rounds by adding a large number, and selects
//! instead of branching, and a [`Group`] has the constants of its kernels column by column, computed at compile time. `f32` has room for
//! four times in a vector register; counts beyond 2²³ are rounded, and no choice depends on that.

use super::access::{Access, Packed};
use super::lanes::{LANES, Lanes, least_of, place_of};
use super::params::Source;
use super::plan::Candidate;
use super::problem::{self, Product};
use super::tuning::{Cost, Costs};

/// The most parts of K, the rounds of units that they are to fill, and the kernels with which so many are tried.
const SPLITS: f32 = 32.0;
const ROUNDS: Lanes = Lanes([1.0, 2.0, 3.0, 4.0]);
const DIVIDED: usize = 2;

/// A kernel is tried with K in parts if the estimate for that, times this, is below the least time known: most divisions take more than
/// their estimate, because parts and rounds are whole numbers.
const ROUNDED: f32 = 1.15;

/// Tiles of clusters in a matrix that persistent kernels count, and of all batches.
const TILES: f32 = (1 << 23) as f32;
const ALL_TILES: f32 = 4.0 * TILES;

/// The least rows and columns of a tile.
const LEAST: f32 = 16.0;

/// Rows of the lowest tiles. Higher ones are tried if a product fills more than a quarter of them.
pub(in crate::gemm) const LOW: u32 = 16;

/// The most rows of C for the kernels that load operands without tiles.
pub(in crate::gemm) const FEW_ROWS: u32 = 8;

/// Groups with all kernels that take a product, whatever its type and its layouts.
pub(in crate::gemm) const MOST: usize = 10;

/// A product on a device: all that times depend on but the kernel.
pub(crate) struct Extents {
    m: f32,
    n: f32,
    k: f32,
    batches: f32,
    sms: f32,
    /// Every kernel counts all tiles, and has some to make.
    is_small: bool,
    /// Bytes of the sums of C.
    sums: f32,
    /// The least time in which memory moves A, B and C.
    memory: f32,
    /// The time of copies of operands, and of rows of C at odd addresses, for kernels with each kind of [`Loads`].
    packs: [f32; 3],
    /// The time of the second cache line of a row of A, and of B, in the mean of all rows: none but for those that begin within a line.
    rows: [f32; 2],
}

/// The loads of a kernel: elements at any address, aligned runs, or TMA, whose kernels are persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loads {
    Elements,
    Runs,
    Tma,
}

impl Extents {
    /// The extents of a product whose operands are read in these ways, on a device with so many SMs.
    #[inline]
    pub(crate) fn new(product: &Product, ways: &[[Access; 2]; 2], sms: u32, costs: &Costs) -> Extents {
        let Product { kind, batches, ref c, ref epilogue, .. } = *product;
        let (m, n, k) = (product.m as f32, product.n as f32, product.k as f32);
        let (batches, size, to) = (batches as f32, problem::size(kind), problem::size(epilogue.kind));
        let ragged = if c.is_wide(to) { 0.0 } else { costs.ragged };
        Extents {
            m,
            n,
            k,
            batches,
            sms: sms as f32,
            is_small: k > 0.0 && batches * (m / LEAST + 1.0) * (n / LEAST + 1.0) < TILES,
            sums: 4.0 * m * problem::pitch(product.n) as f32 * batches,
            memory: batches * costs.memory([m, n, k], size as f32, to as f32),
            packs: [
                0.0,
                packing(product, &ways[0], costs),
                packing(product, &ways[1], costs) + ragged * batches * m * n,
            ],
            rows: [costs.line * more_lines(&product.a, &ways[1][0]), costs.line * more_lines(&product.b, &ways[1][1])],
        }
    }
}

/// Cache lines of a row of an operand beyond the first one.
#[inline(always)]
fn more_lines(operand: &Source, access: &Access) -> f32 {
    lines_of_row(if access.along_k { operand.line } else { operand.k }) - 1.0
}

/// Cache lines of 128 bytes of a row, in the mean of rows that are `pitch` bytes apart: two, but for those that begin with a line.
#[inline(always)]
pub(in crate::gemm) fn lines_of_row(pitch: u64) -> f32 {
    let offsets = 1 << (pitch | 128).trailing_zeros();
    2.0 - offsets as f32 / 128.0
}

/// The time of the copies of operands.
#[inline]
fn packing(product: &Product, access: &[Access; 2], costs: &Costs) -> f32 {
    if !access[0].is_copied && !access[1].is_copied {
        return 0.0;
    }
    let bytes: f32 = Packed::of(product, access).iter().flatten().map(|packed| packed.bytes() as f32).sum();
    if bytes > 0.0 { costs.pack + bytes * costs.copied_byte } else { 0.0 }
}

/// Up to four kernels of one family, with the constants of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    candidates: [Option<&'static Candidate>; LANES],
    loads: Loads,
    /// They divide K.
    divides: bool,
    /// The rows of C from which and up to which a kernel is tried, and without TMA the rows of its tile.
    least_rows: Lanes,
    most_rows: Lanes,
    height: Lanes,
    /// Tiles of clusters in one row and one column of C, and slices in one element of K.
    per_row: Lanes,
    per_column: Lanes,
    per_element: Lanes,
    /// Clusters of one block.
    per_block: Lanes,
    /// With TMA, the rows of A and of B that a block loads for a slice.
    rows_a: Lanes,
    rows_b: Lanes,
    /// The times of [`Cost`].
    slice: Lanes,
    latency: Lanes,
    tile: Lanes,
    part: Lanes,
    /// The time to add a part of a tile of a cluster up, and that of a byte of C's sums: one of them is zero.
    part_tile: Lanes,
    part_byte: f32,
    /// The time to add parts up at all.
    reduce: f32,
}

/// The kernels that take a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    pub(crate) families: [&'static [Group]; 4],
    /// The most rows of tiles, for kernels without TMA.
    pub(crate) highest: f32,
}

/// A product by the kernels of a group, or by one of them in each lane: all that its time depends on but the parts of K.
#[derive(Clone, Copy)]
struct Work {
    loads: Loads,
    slice: Lanes,
    latency: Lanes,
    tile: Lanes,
    slices: Lanes,
    /// Tiles of clusters, of all batches, and the clusters that run at the same time.
    tiles: Lanes,
    room: Lanes,
    per_room: Lanes,
    /// The time of a part of K that is added up, of doing that at all, of copies and of rows of C at odd addresses, and of memory.
    part: Lanes,
    reduce: f32,
    packs: f32,
    memory: f32,
}

/// A kernel with K in a number of parts, and the time of a product by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fastest {
    pub(crate) candidate: &'static Candidate,
    pub(crate) splits: u32,
    /// In picoseconds, beside that of any launch.
    pub(crate) time: f32,
}

impl Group {
    /// No kernels.
    pub(crate) const EMPTY: Group = Group {
        candidates: [None; LANES],
        loads: Loads::Elements,
        divides: false,
        least_rows: Lanes::all(f32::INFINITY),
        most_rows: Lanes::all(f32::INFINITY),
        height: Lanes::all(0.0),
        per_row: Lanes::all(1.0),
        per_column: Lanes::all(1.0),
        per_element: Lanes::all(1.0),
        per_block: Lanes::all(1.0),
        rows_a: Lanes::all(0.0),
        rows_b: Lanes::all(0.0),
        slice: Lanes::all(0.0),
        latency: Lanes::all(0.0),
        tile: Lanes::all(0.0),
        part: Lanes::all(0.0),
        part_tile: Lanes::all(0.0),
        part_byte: 0.0,
        reduce: 0.0,
    };

    /// One kernel.
    pub(crate) const fn alone(candidate: &'static Candidate, costs: &Costs) -> Group {
        let mut group = Group::EMPTY;
        group.set(0, candidate, costs);
        group
    }

    /// Puts a kernel into a lane.
    pub(crate) const fn set(&mut self, at: usize, candidate: &'static Candidate, costs: &Costs) {
        let Candidate { block_m, block_n, depth, cost, majors, near, cluster, is_plain, .. } = *candidate;
        let [cluster_m, cluster_n] = if let Some(cluster) = cluster { cluster } else { [1; 2] };
        let (rows, columns) = ((block_m * cluster_m) as f32, (block_n * cluster_n) as f32);
        let Cost { slice, latency, tile, part } = costs.tiles[cost];
        self.candidates[at] = Some(candidate);
        // Every type has kernels for any layout: they are tried for any number of rows.
        self.least_rows.0[at] = if majors.is_some() && block_m > LOW { (block_m / 4 + 1) as f32 } else { 0.0 };
        self.most_rows.0[at] = if near.is_some() { FEW_ROWS as f32 } else { f32::INFINITY };
        self.per_row.0[at] = 1.0 / rows;
        self.per_column.0[at] = 1.0 / columns;
        self.per_element.0[at] = 1.0 / depth as f32;
        self.per_block.0[at] = 1.0 / (cluster_m * cluster_n) as f32;
        self.slice.0[at] = slice;
        self.latency.0[at] = latency;
        self.tile.0[at] = tile;
        self.part.0[at] = part;
        self.divides = !is_plain;
        if cluster.is_some() {
            self.loads = Loads::Tma;
            self.rows_a.0[at] = (block_m / cluster_n) as f32;
            self.rows_b.0[at] = (block_n / cluster_m) as f32;
            self.part_tile.0[at] = 4.0 * rows * columns * costs.part_byte;
            self.reduce = costs.reduce_inside;
        } else {
            self.height.0[at] = block_m as f32;
            self.loads = if majors.is_some() { Loads::Runs } else { Loads::Elements };
            self.part_byte = costs.part_byte;
            self.reduce = costs.reduce;
        }
    }

    /// The first kernel. The others run on the same devices.
    pub(crate) const fn first(&self) -> Option<&'static Candidate> {
        self.candidates[0]
    }

    /// The product by these kernels.
    #[inline(always)]
    fn work(&self, extents: &Extents) -> Work {
        let rows = (self.per_row * extents.m).ceil();
        let tiles = rows * (self.per_column * extents.n).ceil() * extents.batches;
        let room = (self.per_block * extents.sms).floor().larger(Lanes::all(1.0));
        let lines = self.rows_a * extents.rows[0] + self.rows_b * extents.rows[1];
        Work {
            loads: self.loads,
            slice: self.slice + lines,
            latency: self.latency + lines,
            tile: self.tile,
            slices: (self.per_element * extents.k).ceil().larger(Lanes::all(1.0)),
            tiles,
            room,
            per_room: Lanes::all(1.0) / room,
            part: self.part + tiles * self.part_tile + Lanes::all(extents.sums * self.part_byte),
            reduce: self.reduce,
            packs: extents.packs[self.loads as usize],
            memory: extents.memory,
        }
    }

    /// Infinity for kernels that are not tried, zero for others: high tiles that the product hardly fills, or that are higher than `highest`;
    /// kernels for few rows if it has many; and those that do not count all of its tiles.
    #[inline(always)]
    fn excluded(&self, extents: &Extents, highest: f32) -> Lanes {
        let rows = Lanes::all(extents.m);
        let excluded = self.least_rows.excess(rows) + rows.excess(self.most_rows);
        excluded + self.height.excess(Lanes::all(highest)) + self.uncounted(extents)
    }

    /// Infinity for kernels that are persistent and do not count all tiles of the product, or have none to make.
    #[inline(always)]
    fn uncounted(&self, extents: &Extents) -> Lanes {
        if self.loads != Loads::Tma || extents.is_small {
            return Lanes::all(0.0);
        }
        let tiles = (self.per_row * extents.m + 1.0) * (self.per_column * extents.n + 1.0);
        let without_k = if extents.k > 0.0 { 0.0 } else { f32::INFINITY };
        tiles.excess(Lanes::all(TILES)) + (tiles * extents.batches).excess(Lanes::all(ALL_TILES)) + without_k
    }

    /// The time by the first kernel with K in so many parts, in picoseconds, beside that of any launch.
    pub(crate) fn time(&self, extents: &Extents, splits: u32) -> f32 {
        let work = self.work(extents);
        work.times(Lanes::all(splits as f32).smaller(work.slices)).0[0]
    }
}

/// True if the kernel counts the tiles of the product.
pub(super) fn counts(candidate: &'static Candidate, extents: &Extents, costs: &Costs) -> bool {
    Group::alone(candidate, costs).uncounted(extents).0[0] == 0.0
}

/// The kernel and the number of parts of K that take the least time, of those that `fits` returns true for.
#[inline]
pub(crate) fn fastest(
    kernels: &Kernels,
    extents: &Extents,
    fits: impl Fn(&'static Candidate, u32) -> bool,
) -> Option<Fastest> {
    let (mut whole, mut divided) = ([Lanes::all(f32::INFINITY); MOST], [Lanes::all(f32::INFINITY); MOST]);
    let (mut groups, mut count) = ([&Group::EMPTY; MOST], 0);
    for family in kernels.families {
        for group in family {
            let (work, excluded) = (group.work(extents), group.excluded(extents, kernels.highest));
            whole[count] = work.launch(work.slices, Lanes::all(1.0)) + excluded;
            if group.divides {
                divided[count] = work.divided() + excluded;
            }
            groups[count] = group;
            count += 1;
        }
    }
    let takes = |at: usize, lane: usize, splits: f32| {
        groups[at].candidates[lane].filter(|candidate| fits(candidate, splits as u32))
    };
    let mut best: Option<Fastest> = None;
    while best.is_none() {
        let time = least_of(&whole[..count]);
        if time == f32::INFINITY {
            break;
        }
        let (at, lane) = place_of(&whole, time);
        best = takes(at, lane, 1.0).map(|candidate| Fastest { candidate, splits: 1, time });
        whole[at].0[lane] = f32::INFINITY;
    }
    // Those that may gain most.
    for _ in 0..DIVIDED {
        let (estimate, known) = (least_of(&divided[..count]), best.map_or(f32::INFINITY, |best| best.time));
        if estimate * ROUNDED >= known {
            break;
        }
        let (at, lane) = place_of(&divided, estimate);
        let (splits, time) = groups[at].work(extents).of(lane).fastest_division();
        if splits > 1.0
            && time < known
            && let Some(candidate) = takes(at, lane, splits)
        {
            best = Some(Fastest { candidate, splits: splits as u32, time });
        }
        divided[at].0[lane] = f32::INFINITY;
    }
    best
}

impl Work {
    /// The same for one of the kernels, in every lane.
    #[inline(always)]
    fn of(&self, lane: usize) -> Work {
        let all = |lanes: Lanes| Lanes::all(lanes.0[lane]);
        Work {
            slice: all(self.slice),
            latency: all(self.latency),
            tile: all(self.tile),
            slices: all(self.slices),
            tiles: all(self.tiles),
            room: all(self.room),
            per_room: all(self.per_room),
            part: all(self.part),
            ..*self
        }
    }

    /// About the time with K in the best number of parts p. They take S · latency / p, and part · p to be added up: as long as one another if p
    /// is the root of S · latency / part; but no more parts are made than fill the device.
    #[inline(always)]
    fn divided(&self) -> Lanes {
        let busy = self.tiles * self.slices * self.per_room * self.slice;
        let alone = self.slices * self.latency;
        let product = alone * self.part;
        let slices = (alone * self.tiles * self.per_room).larger(product.sqrt()).larger(Lanes::all(1.0));
        let sums = (product / slices).larger(self.part * 2.0);
        let parts = busy.larger(slices) + sums;
        self.tile + self.packs + self.reduce + parts.larger(Lanes::all(self.memory))
    }

    /// The best number of parts of K, and its time, of those that fill one round of units, or a few, up to the number with which all parts take
    /// as long to add up as the slices of one take. All lanes have the same kernel.
    #[inline(always)]
    fn fastest_division(&self) -> (f32, f32) {
        let one = Lanes::all(1.0);
        let each = self.room / self.tiles;
        let slice = self.latency.larger(self.slice);
        let balance = (self.slices * slice / self.part.larger(one)).sqrt();
        let most = (balance + one).smaller(self.slices).smaller(Lanes::all(SPLITS));
        let splits = (ROUNDS * each).smaller(most).larger(one).floor();
        let times = self.times(splits);
        let time = least_of(&[times]);
        (splits.0[place_of(&[times], time).1], time)
    }

    /// The times with K in so many parts, or fewer if it has not so many slices for them.
    #[inline(always)]
    fn times(&self, splits: Lanes) -> Lanes {
        let each = (self.slices / splits).ceil();
        let parts = (self.slices / each).ceil();
        let sums = (self.part * parts + self.reduce).if_several(parts);
        self.launch(each, parts) + sums
    }

    /// The times of the copies and of the kernel, for parts of K of `each` slices.
    #[inline(always)]
    fn launch(&self, each: Lanes, parts: Lanes) -> Lanes {
        let Work { slice, latency, tile, .. } = *self;
        let busy = self.tiles * parts * self.per_room;
        let rounds = busy.ceil();
        let slices = if self.loads == Loads::Tma {
            rounds * each * latency.larger(slice * busy.smaller(Lanes::all(1.0)))
        } else {
            each * (rounds * slice).larger(latency)
        };
        // Half of a later tile's start and end is behind the slices of others; and where memory takes as long as they do, neither keeps up.
        let blocks = slices + tile * 0.5 * (rounds + Lanes::all(-1.0));
        tile + (blocks * blocks + self.memory * self.memory).sqrt() + self.packs
    }
}
