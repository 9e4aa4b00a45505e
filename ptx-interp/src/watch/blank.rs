//! Registers that a thread reads without ever having written them.
//!
//! The data flow of a function shows which registers that can happen to: often there are none, and then nothing is looked at while
//! it runs. For the others each lane has a bit. Moves and masks pass emptiness on, and count as empty if all their sources are;
//! everything else objects.

use super::threads::Threads;
use crate::exec::{ExecState, Src};
use crate::warp::lanes;
use ptx_core::check::access;
use ptx_core::check::exposed;
use ptx_core::ir::{Function, Inst, RegId};
use ptx_core::isa::Access;
use std::collections::HashSet;

/// Instructions that take parts of what they are given, or hand it on.
pub(super) const PASS: &[&str] = &[
    "mov", "selp", "slct", "and", "or", "xor", "not", "lop3", "prmt", "bfi", "bfe", "shl", "shr", "shf", "cvt", "call",
    "shfl",
];
/// Those whose registers may be empty: they need not read what they name.
const MAY_BE_EMPTY: &[&str] = &["wgmma"];

/// The registers (of the frame) of an instruction that may be empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blank {
    pub guard: Option<u32>,
    pub reads: Box<[u32]>,
    pub writes: Box<[u32]>,
    /// True if the instruction has other sources, which are never empty.
    pub more: bool,
    pub passes: bool,
}

impl Blank {
    /// Lanes of a register get what other lanes of another hold, which may be nothing.
    pub(super) fn shuffle(
        &self,
        exec: &mut ExecState,
        (to, from): (u32, Src),
        group: u32,
        source: &dyn Fn(usize) -> usize,
    ) {
        let (origin, threads) = (exec.warp.origin, Threads::of_mut(&mut exec.warp.kept));
        let (Src::Reg(from), Some(threads)) = (from, threads) else { return };
        if !self.reads.contains(&from) {
            return;
        }
        let given = threads.held.get((origin + from) as usize).copied().unwrap_or(0);
        if let Some(to) = threads.held.get_mut((origin + to) as usize) {
            *to = lanes(group).fold(*to & !group, |mask, lane| mask | (given >> source(lane) & 1) << lane);
        }
    }
}

/// The registers of a function that may be empty when somebody reads them.
pub(crate) struct Blanks(HashSet<RegId>);

impl Blanks {
    pub(crate) fn new(function: &Function) -> Blanks {
        let mut found: HashSet<RegId> = exposed(function).into_iter().collect();
        // What is passed on is empty too.
        let pass: Vec<_> = match found.is_empty() {
            true => Vec::new(),
            false => function.insts.iter().filter(|inst| passes(inst)).map(uses).collect(),
        };
        loop {
            let before = found.len();
            for (reads, writes) in &pass {
                if reads.iter().any(|register| found.contains(register)) {
                    found.extend(writes);
                }
            }
            if found.len() == before {
                return Blanks(found);
            }
        }
    }

    /// Those of an instruction, by the slots of the function's registers.
    pub(crate) fn blank_of(&self, inst: &Inst, slots: &[u32]) -> Option<Box<Blank>> {
        if self.0.is_empty() {
            return None;
        }
        let (all, writes) = uses(inst);
        let slot = |register: &RegId| slots.get(register.index()).copied().filter(|_| self.0.contains(register));
        let reads: Box<[u32]> = all.iter().filter_map(slot).collect();
        let writes: Box<[u32]> = writes.iter().filter_map(slot).collect();
        let guard = inst.guard.and_then(|guard| slot(&guard.register));
        let empty = reads.is_empty() && writes.is_empty() && guard.is_none();
        let reads = if is(inst, MAY_BE_EMPTY) { Box::default() } else { reads };
        let more = reads.len() < all.len();
        (!empty).then(|| Box::new(Blank { guard, reads, writes, more, passes: passes(inst) }))
    }
}

fn is(inst: &Inst, names: &[&str]) -> bool {
    inst.row.is_some_and(|row| names.contains(&row.opcode()))
}

fn passes(inst: &Inst) -> bool {
    is(inst, PASS)
}

/// The registers that an instruction reads (its guard aside) and writes.
fn uses(inst: &Inst) -> (Vec<RegId>, Vec<RegId>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let plain = Inst { guard: None, ..inst.clone() };
    access::registers(&plain, &mut |register, access| {
        if access != Access::Write {
            reads.push(register);
        }
        if access != Access::Read {
            writes.push(register);
        }
    });
    (reads, writes)
}
