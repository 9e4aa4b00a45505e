//! Executions of which nothing stays but the values of registers and the conditions of paths: those that look for what a loop changes. In them, an inner
//! loop that leaves nothing but floats behind is passed by.
//!
//! The state behind it covers all that the loop may leave: the registers that it writes have any value, and no condition is added. Memory is no part of a
//! state: what is loaded from memory that the entry writes has any value, and which memory that is, only executions that are no drafts find. These execute
//! every loop, so that all accesses and barriers count, and prove again what is taken for true of each turn.

use crate::flow::{End, Flow};
use crate::machine::{Machine, State};
use ptx_core::check::access;
use ptx_core::ir::{Function, RegId};
use ptx_core::isa::Class;

/// The block where threads go on behind a loop, if it is the only one, and the loop leaves nothing but floats there.
fn behind_quiet(function: &Function, flow: &Flow, header: usize) -> Option<usize> {
    let own = flow.loops[header].as_ref()?;
    let blocks = || (0..own.blocks.len()).filter(|block| own.blocks[*block]);
    let is_inside = |to: &usize| own.blocks.get(*to) == Some(&true);
    let mut exits: Vec<usize> =
        blocks().flat_map(|block| flow.next[block].clone()).filter(|to| !is_inside(to)).collect();
    exits.dedup();
    let [to] = exits[..] else { return None };
    let is_float = |register: RegId| function.registers[register.index()].ty.class() == Class::Float;
    let mut is_quiet = blocks().all(|block| flow.ends[block] != End::Leave);
    for inst in blocks().flat_map(|block| &function.insts[flow.graph.range(block)]) {
        is_quiet &= inst.row.is_some();
        access::writes(inst, &mut |register| is_quiet &= is_float(register) || !flow.live.has(to, register));
    }
    is_quiet.then_some(to)
}

impl Machine<'_> {
    /// The state behind a loop that a draft passes by; nothing where it is executed.
    pub(crate) fn passed_by(&mut self, header: usize, state: &State) -> Option<Vec<(usize, State)>> {
        let to = behind_quiet(self.function, self.flow, header).filter(|_| self.drafts > 0)?;
        let mut state = state.clone();
        let written = self.written_in(header);
        self.forget(&mut state, &written);
        Some(vec![(to, state)])
    }

    /// Returns true if a draft of a loop is less work than an execution.
    pub(crate) fn has_quiet(&self, header: usize) -> bool {
        let own = self.flow.loops[header].as_ref();
        let is_quiet = |at: usize| behind_quiet(self.function, self.flow, at).is_some();
        own.is_some_and(|own| (0..own.blocks.len()).any(|at| own.blocks[at] && at != header && is_quiet(at)))
    }

    /// Executes something as a draft.
    pub(crate) fn draft<T>(&mut self, execute: impl FnOnce(&mut Self) -> T) -> T {
        self.drafts += 1;
        let found = execute(self);
        self.drafts -= 1;
        found
    }
}
