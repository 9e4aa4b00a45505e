//! The state that a warp's instructions read and change: the lanes' registers, the memories, the launch. And how operands are
//! read and written.

use super::block::Block;
use super::cluster::Shared;
use super::global::Global;
use super::grid::Grid;
use super::launch::Stats;
use super::listing::Listing;
use super::role::Role;
use super::soft::mask;
use super::warp::{Lanes, Warp};

/// Everything that an instruction can reach, without those who watch it.
pub(super) struct ExecState<'a> {
    pub listing: &'a Listing,
    pub grid: &'a Grid<'a>,
    pub global: &'a mut Global,
    pub stats: &'a mut Stats,
    /// State shared by the blocks of the cluster.
    pub cluster: &'a mut Shared,
    pub block: &'a mut Block,
    pub warp: &'a mut Warp,
}

/// Source of a value.
#[derive(Clone, Copy)]
pub(super) enum Src {
    /// A register of the frame.
    Reg(u32),
    /// The opposite of a predicate register.
    Not(u32),
    /// The lower bits of a register of the frame plus a constant: the slot, how many bits, the constant.
    Sum(u32, u8, u64),
    /// A constant.
    Value(u64),
    /// Value of a special register.
    Special(fn(&ExecState, usize) -> u64),
    /// The address of a variable in global memory, plus an offset.
    Global(u32, u64),
    /// The address of a byte of the frame in local memory.
    Frame(u64),
    /// The start of the block's dynamic shared memory, plus an offset.
    Dynamic(u64),
}

/// Destination of a value: a register of the frame and the bits that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dst {
    pub slot: u32,
    pub mask: u64,
}

impl ExecState<'_> {
    /// The meaning of the running instruction to observers.
    pub(super) fn role(&self) -> Role {
        self.listing.code.get(self.warp.at as usize).map_or(Role::PLAIN, |code| code.role)
    }

    /// A source's value in every lane.
    #[inline]
    pub(super) fn fetch(&self, src: Src) -> Lanes {
        let mut value = [0; 32];
        self.fetch_to(src, &mut value);
        value
    }

    /// The values of several sources, in memory of the caller: an array that is returned would be copied several times.
    #[inline]
    pub(super) fn fetch_all<'a, const N: usize>(&self, srcs: [Src; N], to: &'a mut [Lanes; N]) -> &'a [Lanes; N] {
        for (src, to) in srcs.iter().zip(to.iter_mut()) {
            self.fetch_to(*src, to);
        }
        to
    }

    /// Puts a source's value into every lane.
    fn fetch_to(&self, src: Src, to: &mut Lanes) {
        match src {
            Src::Reg(slot) => *to = *self.warp.regs.get((self.warp.origin + slot) as usize).unwrap_or(&[0; 32]),
            Src::Not(slot) => {
                self.fetch_to(Src::Reg(slot), to);
                to.iter_mut().for_each(|value| *value = u64::from(*value == 0));
            }
            Src::Sum(slot, bits, offset) => {
                self.fetch_to(Src::Reg(slot), to);
                to.iter_mut().for_each(|value| *value = added(*value, bits, offset));
            }
            Src::Value(value) => *to = [value; 32],
            Src::Global(var, offset) => *to = [self.grid.address(var).wrapping_add(offset); 32],
            Src::Special(read) => to.iter_mut().enumerate().for_each(|(lane, value)| *value = read(self, lane)),
            Src::Dynamic(offset) => *to = [self.grid.dynamic.wrapping_add(offset); 32],
            Src::Frame(offset) => {
                to.iter_mut().enumerate().for_each(|(lane, value)| *value = self.warp.local_address(lane, offset));
            }
        }
    }

    /// A source's value in one lane.
    pub(super) fn fetch_lane(&self, src: Src, lane: usize) -> u64 {
        match src {
            Src::Reg(slot) => self.warp.regs.get((self.warp.origin + slot) as usize).map_or(0, |r| r[lane]),
            Src::Not(slot) => u64::from(self.fetch_lane(Src::Reg(slot), lane) == 0),
            Src::Sum(slot, bits, offset) => added(self.fetch_lane(Src::Reg(slot), lane), bits, offset),
            Src::Value(value) => value,
            Src::Global(var, offset) => self.grid.address(var).wrapping_add(offset),
            Src::Special(read) => read(self, lane),
            Src::Dynamic(offset) => self.grid.dynamic.wrapping_add(offset),
            Src::Frame(offset) => self.warp.local_address(lane, offset),
        }
    }

    /// The lanes in which a predicate holds.
    pub(super) fn fetch_mask(&self, src: Src) -> u32 {
        self.fetch(src).iter().rev().fold(0, |mask, v| mask << 1 | u32::from(*v != 0))
    }

    /// Writes a value for each of the lanes.
    pub(super) fn store(&mut self, dst: Dst, group: u32, value: impl Fn(usize) -> u64) {
        let Some(register) = self.register(dst.slot) else { return };
        // The compiler makes a copy of this for each of 180 closures, so the loops are plain: iterators would double the code.
        if group == u32::MAX {
            let mut lane = 0;
            while lane < 32 {
                register[lane] = value(lane) & dst.mask;
                lane += 1;
            }
        } else {
            let mut rest = group;
            while rest != 0 {
                let lane = rest.trailing_zeros() as usize;
                register[lane] = value(lane) & dst.mask;
                rest &= rest - 1;
            }
        }
    }

    /// A register of the frame.
    #[inline]
    fn register(&mut self, slot: u32) -> Option<&mut Lanes> {
        self.warp.regs.get_mut((self.warp.origin + slot) as usize)
    }

    /// Writes one lane's value.
    pub(super) fn store_lane(&mut self, dst: Dst, lane: usize, value: u64) {
        if let Some(register) = self.register(dst.slot) {
            register[lane] = value & dst.mask;
        }
    }
}

/// The sum of a register and a constant, cut to so many bits.
fn added(value: u64, bits: u8, offset: u64) -> u64 {
    value.wrapping_add(offset) & mask(bits.into())
}
