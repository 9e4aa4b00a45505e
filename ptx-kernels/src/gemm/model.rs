//! The cost model: the time of a product by each kernel that takes it.
//!
//! A choice computes the times of a whole class of kernels at once. The model multiplies by reciprocals, rounds by adding a large number,
//! and selects instead of branching, and a [`Table`] has the constants of its kernels column by column, so that the compiler makes vector
//! instructions of it. `f32` has room for four times in a vector; counts beyond 2²³ are rounded, and no choice depends on that.

use super::access::Access;
use super::plan::Candidate;
use super::problem::{self, Product};
use super::tuning::{Cost, Costs};
use std::array;

/// Less than the least distance of a quotient here from the integer below it, if it is none: extents of tiles and counts of SMs are less
/// than half of its reciprocal.
const EDGE: f32 = 1.0 / 2048.0;

/// The least integer that is not less than a quotient, of quotients below 2¹¹; above, the rounding of quotients makes it one more or less.
#[inline]
pub(in crate::gemm) const fn ceil(quotient: f32) -> f32 {
    const LARGE: f32 = (1u32 << 23) as f32 * 1.5;
    quotient + (0.5 - EDGE) + LARGE - LARGE
}

/// The integer that is not above a positive quotient, with the same exceptions.
const fn floor(quotient: f32) -> f32 {
    ceil(quotient + (2.0 * EDGE - 1.0))
}

/// The larger one of two numbers, and the smaller one: one instruction each, which those of `f32` are not.
pub(in crate::gemm) const fn larger(one: f32, other: f32) -> f32 {
    if one > other { one } else { other }
}

pub(in crate::gemm) const fn smaller(one: f32, other: f32) -> f32 {
    if one < other { one } else { other }
}

/// The most parts of K, the rounds of units that they are to fill, and the kernels with which so many are tried.
const SPLITS: f32 = 32.0;
const ROUNDS: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
const DIVIDED: usize = 3;

/// No division takes less than its bound, and few less than the bound times this: a kernel that may gain less is not tried.
const SELDOM: f32 = 1.06;

/// Numbers in a vector.
const LANES: usize = 4;

/// Tiles of clusters in a matrix that persistent kernels count.
const TILES: f32 = (1 << 23) as f32;

/// Rows of the lowest tiles. Higher ones are tried if a product fills more than a quarter of them.
pub(in crate::gemm) const LOW: u32 = 16;

/// The most rows of C for the kernels that load operands without tiles.
const FEW_ROWS: f32 = 8.0;

/// A product: all that times depend on but the kernel.
pub(crate) struct Extents {
    m: f32,
    n: f32,
    k: f32,
    batches: f32,
    /// Bytes of the sums of C.
    sums: f32,
    /// The least time in which memory moves A, B and C, and the time that rows of C at odd addresses take more.
    memory: f32,
    ragged: f32,
    /// The time of copies of operands for kernels without TMA and with it.
    packs: [f32; 2],
}

impl Extents {
    /// The extents of a product whose operands are read in these ways.
    #[inline]
    pub(crate) fn new(product: &Product, ways: &[[Access; 2]; 2], costs: &Costs) -> Extents {
        let Product { kind, batches, ref c, ref epilogue, .. } = *product;
        let (m, n, k) = (product.m as f32, product.n as f32, product.k as f32);
        let (batches, size, to) = (batches as f32, problem::size(kind), problem::size(epilogue.kind));
        let ragged = if c.is_wide(to) { 0.0 } else { costs.ragged };
        Extents {
            m,
            n,
            k,
            batches,
            sums: 4.0 * m * problem::pitch(product.n) as f32 * batches,
            memory: costs.byte * batches * (size as f32 * k * (m + n) + to as f32 * m * n),
            ragged: ragged * batches * m * n,
            packs: [packing(&ways[0], costs), packing(&ways[1], costs)],
        }
    }
}

/// The time of the copies of operands.
#[inline]
fn packing(access: &[Access; 2], costs: &Costs) -> f32 {
    let bytes = |access: &Access| access.packed.as_ref().map_or(0.0, |packed| packed.bytes() as f32);
    let bytes = bytes(&access[0]) + bytes(&access[1]);
    if bytes > 0.0 { costs.pack + bytes * costs.copied_byte } else { 0.0 }
}

/// Kernels on a device, with the constants of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<const N: usize> {
    candidates: [Option<&'static Candidate>; N],
    /// The number of kernels.
    count: usize,
    /// The rows of C from which and up to which a kernel is tried.
    least_rows: [f32; N],
    most_rows: [f32; N],
    /// Tiles of clusters in one row and one column of C, and slices in one element of K.
    per_row: [f32; N],
    per_column: [f32; N],
    per_element: [f32; N],
    /// Clusters that run at the same time.
    room: [f32; N],
    per_room: [f32; N],
    /// The times of [`Cost`].
    slice: [f32; N],
    latency: [f32; N],
    tile: [f32; N],
    part: [f32; N],
    /// The time to add a part of a tile of a cluster up, and that of a byte of C's sums: one of them is zero.
    part_tile: [f32; N],
    part_byte: [f32; N],
    /// The time to add parts up at all.
    reduce: [f32; N],
    /// 1 if operands are copied for the kernel: without TMA, and with it.
    packs: [[f32; N]; 2],
    /// 1 for persistent kernels, which add parts of K up.
    persistent: [f32; N],
}

/// A product by a kernel: all that its time depends on but the parts of K.
#[derive(Clone, Copy)]
struct Work {
    cost: Cost,
    slices: f32,
    /// Tiles of clusters, of all batches, and the clusters that run at the same time.
    tiles: f32,
    room: f32,
    per_room: f32,
    is_persistent: bool,
    memory: f32,
    /// The time of copies and of rows of C at odd addresses, of a part of K that is added up, and of doing that at all.
    packs: f32,
    part: f32,
    reduce: f32,
}

/// A kernel with K in a number of parts, and the time of a product by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fastest {
    pub(crate) candidate: &'static Candidate,
    pub(crate) splits: u32,
    /// In picoseconds, beside that of any launch.
    pub(crate) time: f32,
}

impl<const N: usize> Table<N> {
    /// The table of the first `N` of some kernels on a device with so many SMs.
    pub(crate) fn new(kernels: impl Iterator<Item = &'static Candidate>, sms: u32, costs: &Costs) -> Self {
        let mut kernels = kernels;
        let candidates: [_; N] = array::from_fn(|_| kernels.next());
        let each = |value: fn(&Candidate) -> f32| candidates.map(|candidate| candidate.map_or(0.0, value));
        let cost = |value: fn(&Cost) -> f32| {
            candidates.map(|candidate| candidate.map_or(0.0, |candidate| value(&costs.tiles[candidate.cost])))
        };
        let persistent = each(|candidate| f32::from(u8::from(candidate.cluster.is_some())));
        let room = each(|candidate| candidate.blocks() as f32)
            .map(|blocks| (sms as f32 / larger(blocks, 1.0)).floor().max(1.0));
        let of = |value: [f32; N], factor: fn(f32) -> f32| array::from_fn(|at| value[at] * factor(persistent[at]));
        let packs = each(|candidate| f32::from(u8::from(candidate.majors.is_some())));
        Table {
            candidates,
            count: candidates.iter().flatten().count(),
            least_rows: candidates.map(|candidate| candidate.map_or(f32::INFINITY, Candidate::least_rows)),
            most_rows: each(|candidate| if candidate.near.is_some() { FEW_ROWS } else { f32::INFINITY }),
            per_row: each(|candidate| (candidate.cluster_tile()[0] as f32).recip()),
            per_column: each(|candidate| (candidate.cluster_tile()[1] as f32).recip()),
            per_element: each(|candidate| (candidate.depth as f32).recip()),
            room,
            per_room: room.map(f32::recip),
            slice: cost(|cost| cost.slice),
            latency: cost(|cost| cost.latency),
            tile: cost(|cost| cost.tile),
            part: cost(|cost| cost.part),
            part_tile: of(each(Candidate::cluster_sums), |persistent| persistent).map(|bytes| bytes * costs.part_byte),
            part_byte: of([costs.part_byte; N], |persistent| 1.0 - persistent),
            reduce: persistent.map(|is| if is > 0.0 { costs.reduce_inside } else { costs.reduce }),
            packs: [of(packs, |persistent| 1.0 - persistent), of(packs, |persistent| persistent)],
            persistent,
        }
    }

    /// The product by a kernel of the table.
    #[inline(always)]
    fn work(&self, at: usize, extents: &Extents) -> Work {
        let matrix = ceil(extents.m * self.per_row[at]) * ceil(extents.n * self.per_column[at]);
        let tiles = matrix * extents.batches;
        Work {
            cost: Cost { slice: self.slice[at], latency: self.latency[at], tile: self.tile[at], part: self.part[at] },
            slices: larger(ceil(extents.k * self.per_element[at]), 1.0),
            tiles,
            room: self.room[at],
            per_room: self.per_room[at],
            is_persistent: self.persistent[at] > 0.0,
            memory: extents.memory,
            packs: self.packs[0][at] * extents.packs[0]
                + self.packs[1][at] * extents.packs[1]
                + self.persistent[at] * extents.ragged,
            part: self.part[at] + tiles * self.part_tile[at] + extents.sums * self.part_byte[at],
            reduce: self.reduce[at],
        }
    }

    /// The time with K in so many parts by the first kernel, in picoseconds, beside that of any launch.
    pub(crate) fn time(&self, extents: &Extents, splits: u32) -> f32 {
        let work = self.work(0, extents);
        work.times([smaller(splits as f32, work.slices); LANES])[0]
    }

    /// The kernel and the number of parts of K that take the least time, of those that `fits` returns true for.
    #[inline]
    pub(crate) fn fastest(&self, extents: &Extents, fits: impl Fn(&'static Candidate, u32) -> bool) -> Option<Fastest> {
        const { assert!(N.is_multiple_of(LANES), "a table has whole vectors") };
        let (mut whole, mut bounds) = ([f32::INFINITY; N], [f32::INFINITY; N]);
        for vector in 0..N / LANES {
            if vector * LANES >= self.count {
                break;
            }
            for at in vector * LANES..(vector + 1) * LANES {
                let work = self.work(at, extents);
                // Not tried: high tiles that the product hardly fills, and kernels for few rows if it has many.
                let is_tried = (extents.m >= self.least_rows[at]) & (extents.m <= self.most_rows[at]);
                let extra = if is_tried { 0.0 } else { f32::INFINITY };
                whole[at] = work.launch(work.slices, 1.0) + extra;
                bounds[at] = work.least_divided() + extra;
            }
        }
        let mut best: Option<Fastest> = None;
        let takes = |at: usize, splits: f32| -> Option<&'static Candidate> {
            self.candidates[at].filter(|candidate| candidate.counts(extents) && fits(candidate, splits as u32))
        };
        while best.is_none() {
            let (at, time) = least_of(&whole);
            if time == f32::INFINITY {
                break;
            }
            best = takes(at, 1.0).map(|candidate| Fastest { candidate, splits: 1, time });
            whole[at] = f32::INFINITY;
        }
        // Those that may gain most.
        for _ in 0..DIVIDED {
            let known = best.map_or(f32::INFINITY, |best| best.time);
            let (at, bound) = least_of(&bounds);
            if bound * SELDOM >= known || bound == f32::INFINITY {
                break;
            }
            bounds[at] = f32::INFINITY;
            let (splits, time) = self.work(at, extents).fastest_division();
            if splits > 1.0
                && time < known
                && let Some(candidate) = takes(at, splits)
            {
                best = Some(Fastest { candidate, splits: splits as u32, time });
            }
        }
        best
    }
}

/// A number for each place of a vector. `map` of an array stays a call for each element.
#[inline(always)]
fn lanes(number: impl Fn(usize) -> f32) -> [f32; LANES] {
    let mut numbers = [0.0; LANES];
    for (at, place) in numbers.iter_mut().enumerate() {
        *place = number(at);
    }
    numbers
}

/// The least of some numbers, and its place. A minimum for each place of a vector: no comparison waits for the one before.
#[inline(always)]
fn least_of<const N: usize>(numbers: &[f32; N]) -> (usize, f32) {
    let mut minima = [f32::INFINITY; LANES];
    for at in 0..N {
        minima[at % LANES] = smaller(numbers[at], minima[at % LANES]);
    }
    let least = smaller(smaller(minima[0], minima[1]), smaller(minima[2], minima[3]));
    let mut place = 0;
    for at in (0..N).rev() {
        place = if numbers[at] == least { at } else { place };
    }
    (place, least)
}

impl Work {
    /// No division of K in several parts takes less time: busy SMs take it for all slices, and each part p takes the latency of its slices
    /// and is added up, S · latency / p + part · p.
    #[inline(always)]
    fn least_divided(&self) -> f32 {
        let Cost { slice, latency, tile, .. } = self.cost;
        let busy = self.tiles * self.slices * self.per_room * slice + 2.0 * self.part;
        let apart = 2.0 * (self.slices * latency * self.part).sqrt();
        self.packs + tile + self.reduce + larger(larger(busy, apart), self.memory)
    }

    /// The best number of parts of K, and its time, of those that fill one round of units, or a few, up to the number with which all parts take
    /// as long to add up as the slices of one take.
    #[inline(always)]
    fn fastest_division(&self) -> (f32, f32) {
        let each = self.room / self.tiles;
        let slice = larger(self.cost.latency, self.cost.slice);
        let balance = (self.slices * slice / larger(self.part, 1.0)).sqrt();
        let most = smaller(smaller(balance + 1.0, self.slices), SPLITS);
        let splits = lanes(|at| floor(larger(smaller(ROUNDS[at] * each, most), 1.0)));
        let times = self.times(splits);
        let least = least_of(&times);
        (splits[least.0], least.1)
    }

    /// The times with K in so many parts, or fewer if it has not so many slices for them.
    #[inline(always)]
    fn times(&self, splits: [f32; LANES]) -> [f32; LANES] {
        let each = lanes(|at| ceil(self.slices / splits[at]));
        let parts = lanes(|at| ceil(self.slices / each[at]));
        let sums = lanes(|at| self.reduce + self.part * parts[at]);
        let sums = lanes(|at| if parts[at] > 1.0 { sums[at] } else { 0.0 });
        lanes(|at| self.launch(each[at], parts[at]) + sums[at])
    }

    /// The time of the copies and of the kernel, for parts of K of `each` slices.
    #[inline(always)]
    fn launch(&self, each: f32, parts: f32) -> f32 {
        let Cost { slice, latency, tile, .. } = self.cost;
        let busy = self.tiles * parts * self.per_room;
        let rounds = ceil(busy);
        let persistent = rounds * (each * larger(latency, slice * smaller(busy, 1.0)) + tile);
        let portable = each * larger(rounds * slice, latency) + tile * 0.5 * (rounds + 1.0);
        self.packs + larger(if self.is_persistent { persistent } else { portable }, self.memory + tile)
    }
}

impl Candidate {
    /// Blocks of a cluster.
    fn blocks(&self) -> u32 {
        self.cluster.map_or(1, |[m, n]| m * n)
    }

    /// Rows and columns of a cluster's tile.
    fn cluster_tile(&self) -> [u32; 2] {
        let [m, n] = self.cluster.unwrap_or([1; 2]);
        [self.block_m * m, self.block_n * n]
    }

    /// Bytes of the sums of a cluster's tile.
    fn cluster_sums(&self) -> f32 {
        let [m, n] = self.cluster_tile();
        (4 * m * n) as f32
    }

    /// The rows of C from which the kernel is tried. Every type has kernels for any layout: they always are.
    fn least_rows(&self) -> f32 {
        let is_high = self.majors.is_some() && self.block_m > LOW;
        if is_high { (self.block_m / 4 + 1) as f32 } else { 0.0 }
    }

    /// False if the kernel is persistent and does not count all tiles of the product, or has none to make.
    pub(super) fn counts(&self, extents: &Extents) -> bool {
        let [m, n] = self.cluster_tile().map(|extent| extent as f32);
        let tiles = (extents.m / m + 1.0) * (extents.n / n + 1.0);
        self.cluster.is_none() || extents.k > 0.0 && tiles < TILES && tiles * extents.batches < 4.0 * TILES
    }
}
