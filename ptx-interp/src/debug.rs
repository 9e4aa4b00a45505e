//! Debugging: the engine pauses before each instruction of a warp, and shows the block that the warp belongs to.

use super::block::Block;
use super::exec::ExecState;
use super::map::Map;
use super::warp::{Warp, lanes};
use ptx_core::span::Span;

/// Called before a warp executes an instruction; `false` ends the launch.
pub type Hook = Box<dyn FnMut(&Stop<'_>) -> bool + Send>;

/// A block, one of whose warps is about to execute an instruction.
pub struct Stop<'a> {
    pub(super) exec: &'a ExecState<'a>,
    /// The warps of the block before it and behind it.
    pub(super) others: [&'a [Warp]; 2],
    /// The lanes that execute it, guard aside.
    pub(super) group: u32,
}

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stop").field("block", &self.block()).field("warp", &self.warp()).finish_non_exhaustive()
    }
}

/// A variable in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name; empty for dynamic shared memory without one.
    pub name: String,
    /// Its address.
    pub at: u64,
    /// Its bytes now.
    pub bytes: Vec<u8>,
}

/// An mbarrier for whose phase somebody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The rank of its block in the cluster, and its address there.
    pub place: (usize, u64),
    /// The variable that holds it.
    pub name: String,
    /// The parity of the running phase.
    pub parity: u64,
    /// The arrivals and bytes that the phase still waits for, in words.
    pub missing: String,
    /// The number of threads that wait.
    pub waiting: u32,
}

impl Stop<'_> {
    /// `%ctaid` of the block.
    pub fn block(&self) -> [u32; 3] {
        self.exec.block.id
    }

    /// The number of the warp in its block.
    pub fn warp(&self) -> u32 {
        self.exec.warp.index
    }

    /// The lanes that execute the instruction, guard aside.
    pub fn lanes(&self) -> u32 {
        self.group
    }

    /// The number of the instruction in the program.
    pub fn instruction(&self) -> u32 {
        self.exec.warp.at
    }

    /// The number of calls that the executing lanes are in.
    pub fn depth(&self) -> usize {
        self.exec.warp.calls.get(self.group.trailing_zeros() as usize % 32).map_or(0, Vec::len)
    }

    /// The warps of the block, in order.
    fn warps(&self) -> impl Iterator<Item = &Warp> {
        let [before, behind] = self.others;
        before.iter().chain([&*self.exec.warp]).chain(behind)
    }

    fn find(&self, warp: u32) -> Option<&Warp> {
        self.warps().find(|known| known.index == warp)
    }

    /// The numbers of the warps of the block that have not ended.
    pub fn live_warps(&self) -> Vec<u32> {
        self.warps().filter(|warp| warp.live != 0).map(|warp| warp.index).collect()
    }

    /// The lanes of a warp that have not ended.
    pub fn live_lanes(&self, warp: u32) -> u32 {
        self.find(warp).map_or(0, |warp| warp.live)
    }

    /// `%tid` of a lane.
    pub fn thread(&self, warp: u32, lane: usize) -> Option<[u32; 3]> {
        self.find(warp)?.tid.get(lane).copied()
    }

    /// The next instruction of a lane, and those that called its function, innermost first.
    pub fn calls(&self, warp: u32, lane: usize) -> Vec<u32> {
        let Some(found) = self.find(warp) else { return Vec::new() };
        let runs = warp == self.warp() && self.group >> lane & 1 == 1;
        let next = if runs { found.at } else { found.pc.get(lane).copied().unwrap_or(0) };
        let callers = found.calls.get(lane).map_or(&[][..], Vec::as_slice);
        std::iter::once(next).chain(callers.iter().rev().map(|frame| frame.call)).collect()
    }

    /// The span of an instruction, and the name of its function.
    pub fn place(&self, instruction: u32) -> Option<(Span, String)> {
        let code = self.exec.listing.code.get(instruction as usize)?;
        Some((code.span, self.exec.listing.function_name(code.function).unwrap_or_default()))
    }

    /// The registers of a lane's function with their bits, in the order of their declaration.
    pub fn registers(&self, warp: u32, lane: usize) -> Vec<(String, u64)> {
        let listing = self.exec.listing;
        let place = self.find(warp).zip(self.calls(warp, lane).first().copied());
        let Some((warp, pc)) = place else { return Vec::new() };
        let function = listing.code.get(pc as usize).map_or(0, |code| code.function);
        let base = warp.base.get(lane).copied().unwrap_or(0);
        let named = listing.registers.get(function as usize).map_or(&[][..], Vec::as_slice);
        let value = |slot: u32| Some(*warp.regs.get((base + slot) as usize)?.get(lane)?);
        named.iter().filter_map(|(slot, name)| Some((name.clone(), value(*slot)?))).collect()
    }

    /// The variables of the block's shared memory, in the order of their addresses.
    pub fn shared(&self) -> Vec<Variable> {
        let grid = self.exec.grid;
        let Some(names) = self.exec.listing.names.get(grid.entry) else { return Vec::new() };
        let memory = self.exec.cluster.memory.get(self.exec.block.rank).map_or(&[][..], Vec::as_slice);
        let bytes = |at: u64, size: u64| {
            let (start, end) = (usize::try_from(at).ok()?, usize::try_from(at.checked_add(size)?).ok()?);
            memory.get(start..end).map(<[u8]>::to_vec)
        };
        let dynamic = (grid.dynamic_bytes > 0).then(|| (names.dynamic.join(", "), grid.dynamic, grid.dynamic_bytes));
        let named = names.shared.iter().map(|named| (named.name.clone(), named.at, named.size));
        named
            .chain(dynamic)
            .filter_map(|(name, at, size)| Some(Variable { name, at, bytes: bytes(at, size)? }))
            .collect()
    }

    /// The reason why a lane does not run; `None` if it could.
    pub fn wait(&self, warp: u32, lane: usize) -> Option<String> {
        let found = self.find(warp)?;
        let bit = 1u32.checked_shl(u32::try_from(lane).ok()?)?;
        if found.live & bit == 0 {
            return Some("has ended".to_owned());
        }
        if (found.meeting | found.syncing) & bit != 0 {
            return Some("waits for the other lanes of its member mask".to_owned());
        }
        if found.waiting & bit == 0 {
            return None;
        }
        let block: &Block = self.exec.block;
        let name = |at| self.map().shared(at);
        let what = block
            .waits_for(warp, lane)
            .or_else(|| self.exec.cluster.waits_for(name, (block.rank, warp, lane)))
            .unwrap_or_else(|| "for others".to_owned());
        Some(format!("waits {what}"))
    }

    /// The mbarriers of the cluster for whose phase somebody waits.
    pub fn phases(&self) -> Vec<Phase> {
        let cluster = &self.exec.cluster;
        let phase = |place: (usize, u64)| {
            let state = cluster.mbarrier(place)?;
            let name = self.map().shared(place.1).unwrap_or_default();
            let waiting = cluster.waiters_of(place).0;
            Some(Phase { place, name, parity: state.parity, missing: state.missing(), waiting })
        };
        cluster.awaited().filter_map(phase).collect()
    }

    /// Bytes of global memory; `None` if no allocation holds them all.
    pub fn global(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        self.exec.global.bytes(address, size).ok().map(<[u8]>::to_vec)
    }

    fn map(&self) -> Map<'_> {
        Map { listing: self.exec.listing, grid: self.exec.grid, global: self.exec.global }
    }
}

/// The numbers of the lanes in a mask.
pub fn lane_numbers(mask: u32) -> impl Iterator<Item = usize> {
    lanes(mask)
}
