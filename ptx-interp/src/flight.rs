//! State in flight while a warpgroup's asynchronous products run (9.7.15.7): the registers of a warp that no
//! instruction may touch, and the shared memory that its warps have read together.
//!
//! The engine calculates at once, when a warp issues; this module distinguishes misuse from use.

use super::dot::Lines;
use std::collections::VecDeque;
use std::sync::Arc;

/// The warps of a warpgroup.
pub(super) const WARPS: u32 = 4;

/// The fix for warps that are apart.
pub(super) const APART: &str = "all four warps of a warpgroup must execute the same instruction: move it out of the branch, or \
    branch on a value that is the same in the whole warpgroup";

/// A warp's products that were issued and not waited for.
#[derive(Debug, Default)]
pub(super) struct Flight {
    open: Group,
    groups: VecDeque<Group>,
    /// Registers that `tcgen05.ld` writes until somebody waits.
    loading: Vec<Register>,
    /// Number of `wgmma.fence`s when each register was last touched by another instruction.
    touched: Vec<u32>,
    fences: u32,
    /// Number issued since the start of the warp.
    pub issued: u64,
    /// Number of instructions since then that the whole warpgroup must execute together.
    pub steps: u64,
}

/// The registers of a group (absolute numbers): accumulators, which nothing may touch, and fragments of A, which nothing may
/// write.
#[derive(Debug, Default)]
struct Group {
    accumulators: Vec<Register>,
    fragments: Vec<Register>,
    /// Number of products issued when it was committed.
    issued: u64,
}

/// A register, and the product that has it.
type Register = (u32, u32);

impl Flight {
    /// A product (the instruction at `pc`) that writes these registers and reads those.
    pub(super) fn issue(
        &mut self,
        pc: u32,
        accumulators: impl Iterator<Item = u32>,
        fragments: impl Iterator<Item = u32>,
    ) {
        self.issued += 1;
        self.open.accumulators.extend(accumulators.map(|register| (register, pc)));
        self.open.fragments.extend(fragments.map(|register| (register, pc)));
    }

    /// `wgmma.commit_group`
    pub(super) fn commit(&mut self) {
        self.open.issued = self.issued;
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// Number of products that must be complete before at most `pending` groups are in flight.
    pub(super) fn due(&self, pending: u64) -> u64 {
        let ending = (self.groups.len() as u64).saturating_sub(pending) as usize;
        ending.checked_sub(1).and_then(|last| self.groups.get(last)).map_or(0, |group| group.issued)
    }

    /// `wgmma.wait_group`: at most `pending` groups stay in flight.
    pub(super) fn wait(&mut self, pending: u64) {
        while self.groups.len() as u64 > pending {
            self.groups.pop_front();
        }
    }

    /// Returns true if nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.open.accumulators.is_empty() && self.loading.is_empty()
    }

    /// `tcgen05.ld` (the instruction at `pc`) writes these registers.
    pub(super) fn load(&mut self, pc: u32, registers: impl Iterator<Item = u32>) {
        self.loading.extend(registers.map(|register| (register, pc)));
    }

    /// `tcgen05.wait::ld`
    pub(super) fn loaded(&mut self) {
        self.loading.clear();
    }

    /// The load for which an instruction must not touch a register now.
    pub(super) fn loads(&self, register: u32) -> Option<u32> {
        product_of(&self.loading, register)
    }

    /// `wgmma.fence`
    pub(super) fn fence(&mut self) {
        self.fences += 1;
    }

    /// Another instruction touches registers.
    pub(super) fn touch(&mut self, registers: impl Iterator<Item = u32>) {
        for register in registers {
            if self.touched.len() <= register as usize {
                self.touched.resize(register as usize + 1, 0);
            }
            self.touched[register as usize] = self.fences;
        }
    }

    /// Returns true if a fence stands between the last touch of a register and now; before the first fence there is
    /// none.
    pub(super) fn is_fenced(&self, register: u32) -> bool {
        self.touched.get(register as usize).copied().unwrap_or(0) < self.fences
    }

    /// The product for which an instruction must not touch a register now.
    pub(super) fn accumulates(&self, register: u32) -> Option<u32> {
        self.all().find_map(|group| product_of(&group.accumulators, register))
    }

    /// The product for which an instruction must not write a register now.
    pub(super) fn holds(&self, register: u32) -> Option<u32> {
        let fragments = || self.all().find_map(|group| product_of(&group.fragments, register));
        self.accumulates(register).or_else(fragments)
    }

    fn all(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain([&self.open])
    }
}

fn product_of(registers: &[Register], register: u32) -> Option<u32> {
    registers.iter().find(|(held, _)| *held == register).map(|(_, pc)| *pc)
}

/// Shared reads of a block's warpgroups: the first warp that issues a product reads shared memory for all four, since
/// it is one read of one instruction.
#[derive(Debug, Default)]
pub(super) struct Together {
    reads: Vec<Read>,
    /// By warpgroup.
    steps: Vec<Steps>,
}

/// Instructions of a warpgroup that all of its warps must execute, in order: those that some warp has not come to.
#[derive(Debug, Default)]
struct Steps {
    /// Number of those that all have executed.
    done: u64,
    open: VecDeque<Step>,
}

/// An instruction that some warps of a warpgroup have executed, a bit for each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub pc: u32,
    pub warps: u32,
}

/// The matrices of one product.
#[derive(Debug)]
struct Read {
    warpgroup: u32,
    number: u64,
    descriptors: [u64; 2],
    matrices: [Arc<Lines>; 2],
    /// Warps that have not come yet.
    missing: u32,
}

impl Together {
    /// The read of another warp of the group for this product; `Err` if it had other descriptors.
    pub(super) fn find(
        &mut self,
        warpgroup: u32,
        number: u64,
        descriptors: [u64; 2],
    ) -> Result<Option<[Arc<Lines>; 2]>, ()> {
        let same = |read: &Read| read.warpgroup == warpgroup && read.number == number;
        let Some(at) = self.reads.iter().position(same) else { return Ok(None) };
        let Some(read) = self.reads.get_mut(at).filter(|read| read.descriptors == descriptors) else { return Err(()) };
        read.missing -= 1;
        let matrices = read.matrices.clone();
        if read.missing == 0 {
            self.reads.swap_remove(at);
        }
        Ok(Some(matrices))
    }

    /// Returns true if some warp of the group has yet to issue one of its first `due` products. They are the group's:
    /// none ends before all four warps have come, so that no warp gets ahead of the others by more than it has in
    /// flight.
    pub(super) fn lacks(&self, warpgroup: u32, due: u64) -> bool {
        self.reads.iter().any(|read| read.warpgroup == warpgroup && read.number < due)
    }

    /// Keeps what the first warp read for the other three.
    pub(super) fn keep(&mut self, warpgroup: u32, number: u64, descriptors: [u64; 2], matrices: [Arc<Lines>; 2]) {
        self.reads.push(Read { warpgroup, number, descriptors, matrices, missing: WARPS - 1 });
    }

    /// Warp `warp` of a block of `warps` executes its instruction `number` of those that its warpgroup must execute together. `Err`: another
    /// warp executed another one instead.
    pub(super) fn step(&mut self, (warp, warps): (u32, u32), number: u64, pc: u32) -> Result<(), Step> {
        let (group, own) = ((warp / WARPS) as usize, 1 << (warp % WARPS));
        let all = (1 << (warps - warp / WARPS * WARPS).min(WARPS)) - 1;
        if self.steps.len() <= group {
            self.steps.resize_with(group + 1, Steps::default);
        }
        let Steps { done, open } = &mut self.steps[group];
        let at = number.saturating_sub(*done) as usize;
        match open.get_mut(at) {
            Some(step) if step.pc != pc => return Err(*step),
            Some(step) => step.warps |= own,
            None => open.push_back(Step { pc, warps: own }),
        }
        while open.front().is_some_and(|step| step.warps == all) {
            open.pop_front();
            *done += 1;
        }
        Ok(())
    }

    /// An instruction that some warps of a warpgroup have executed and others never came to: the warpgroup's number, and the instruction.
    pub(super) fn unfinished(&self) -> Option<(usize, Step)> {
        self.steps.iter().enumerate().find_map(|(group, steps)| Some((group, *steps.open.front()?)))
    }
}
