//! The dimensions of a launch, and the numbers that its warps and blocks have among all launches of a machine.

use crate::role::Actor;

/// A launch, as the accesses of others meet it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The rank that launched it, and its number among the rank's launches, from 1.
    pub rank: u32,
    pub number: u32,
    /// The program that it runs.
    pub program: u64,
    /// The number of its first warp: accesses of smaller ones may be of earlier launches.
    pub first: u32,
    /// Warps in all.
    pub count: u32,
    /// The number of its first block.
    pub base: u32,
    /// Warps of a block.
    pub warps: u32,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
}

/// Position of a warp: its block, its index there, and the threads of such a block, rounded up to whole warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub block: u32,
    pub index: u32,
    pub stride: usize,
}

impl Seat {
    /// Position of an actor of the warp's first lane in the clock of the block.
    pub(super) fn of(self, actor: Actor) -> usize {
        actor as usize * self.stride + 32 * self.index as usize
    }
}

impl Extent {
    /// Returns true if a warp is one of its.
    pub(super) fn has_warp(&self, warp: u32) -> bool {
        warp.wrapping_sub(self.first) < self.count
    }

    /// The number of a block, by its place in the grid.
    pub(super) fn number(&self, id: [u32; 3]) -> u32 {
        let [x, y, _] = self.grid;
        self.base.wrapping_add(id[0].wrapping_add(x.wrapping_mul(id[1].wrapping_add(y.wrapping_mul(id[2])))))
    }

    /// `%ctaid` of a block.
    pub(super) fn id(&self, number: u32) -> [u32; 3] {
        let ([x, y, _], number) = (self.grid, number.wrapping_sub(self.base));
        [number % x, number / x % y, number / x / y]
    }

    /// The cluster of a block, as a number that no other cluster has.
    pub(super) fn cluster_of(&self, number: u32) -> u32 {
        let id = self.id(number);
        self.number(std::array::from_fn(|d| id[d] / self.cluster[d] * self.cluster[d]))
    }

    /// The number of a block's first warp.
    pub(super) fn first_warp(&self, block: u32) -> u32 {
        self.first.wrapping_add(block.wrapping_sub(self.base).wrapping_mul(self.warps))
    }

    /// Threads of a block, rounded up to whole warps.
    pub(super) fn stride(&self) -> usize {
        32 * self.warps as usize
    }

    /// The block of a warp, and its index there.
    pub(super) fn place(&self, warp: u32) -> Seat {
        let warp = warp.saturating_sub(self.first);
        Seat { block: self.base + warp / self.warps, index: warp % self.warps, stride: self.stride() }
    }

    /// `%tid` of a lane.
    pub(super) fn thread(&self, seat: Seat, lane: u32) -> [u32; 3] {
        let (t, [x, y, _]) = (32 * seat.index + lane, self.block);
        [t % x, t / x % y, t / x / y]
    }
}
