//! The slice of an entry that decides what happens at barriers: the instructions that have to be executed, and the registers that they read.
//!
//! A branch counts only if something that counts lies between it and the place where its sides meet again. Any other is passed by: both of its sides
//! come to that place, and nothing that is executed there depends on which one it was. So sides with a way back or an end of threads always count.

use super::code::{READS, Role, successors};
use crate::flow::{End, Flow};
use crate::site::Site;
use ptx_core::check::{access, graph};
use ptx_core::ir::{Function, Operand, RegId};
use ptx_core::isa::{Access, Class};

pub(crate) struct Slice {
    /// By instruction: true if it has to be executed.
    pub(crate) counts: Vec<bool>,
    /// By register: true if its numbers must be equal in equal states.
    pub(crate) rigid: Vec<bool>,
    /// By instruction that counts: the registers that are read from here on.
    pub(crate) live: Vec<Vec<u32>>,
    /// The elements of vectors that are loaded from shared memory and read, by the length of the vector as bits: so are those that stores write.
    loaded: [u8; LONGEST + 1],
}

/// The instructions between a branch with a guard and the place where its sides meet.
enum Sides {
    /// Threads may end there, or go back.
    Open,
    /// The blocks before its sides meet.
    Blocks(Vec<usize>),
}

/// Elements of the longest vector.
const LONGEST: usize = 8;

/// Registers as bits.
type Bits = Vec<u64>;

fn has(bits: &Bits, register: RegId) -> bool {
    bits[register.index() / 64] >> (register.index() % 64) & 1 == 1
}

impl Slice {
    pub(crate) fn new(function: &Function, flow: &Flow, roles: &[Role], meet: &[usize]) -> Slice {
        let mut slice = Slice {
            counts: roles.iter().map(|role| !role.only_computes()).collect(),
            rigid: vec![false; function.registers.len()],
            live: vec![Vec::new(); roles.len()],
            loaded: [0; LONGEST + 1],
        };
        let mut sides: Vec<(usize, Sides)> = Vec::new();
        for (block, meet) in meet.iter().enumerate() {
            let last = flow.graph.range(block).last().filter(|last| graph::ends(&function.insts[*last]));
            if let Some(last) = last {
                let has_guard = function.insts[last].guard.is_some();
                slice.counts[last] = !has_guard;
                if has_guard {
                    sides.push((last, between(function, flow, (block, *meet))));
                }
            }
        }
        // What is read to compute what is read, and what decides if it is.
        let starts = loop {
            let loaded = slice.loaded;
            let starts = slice.flow_back(function, flow, roles);
            let more: Vec<usize> = sides
                .iter()
                .filter(|(at, sides)| !slice.counts[*at] && slice.decides(function, flow, sides))
                .map(|(at, _)| *at)
                .collect();
            more.iter().for_each(|at| slice.counts[*at] = true);
            if more.is_empty() && slice.loaded == loaded {
                break starts;
            }
        };
        slice.find_rigid(function, roles);
        for block in 0..flow.ends.len() {
            let mut live = end_of(function, flow, block, &starts);
            for at in flow.graph.range(block).rev() {
                slice.step(function, (at, roles[at]), &mut live);
                if slice.counts[at] {
                    let all = (0..function.registers.len() as u32).map(RegId);
                    slice.live[at] = all.filter(|register| has(&live, *register)).map(|register| register.0).collect();
                }
            }
        }
        slice
    }

    /// The registers that are read from the start of each block on, and with it the instructions that compute them.
    fn flow_back(&mut self, function: &Function, flow: &Flow, roles: &[Role]) -> Vec<Bits> {
        let count = flow.ends.len();
        let mut starts = vec![vec![0u64; function.registers.len() / 64 + 1]; count + 1];
        loop {
            let mut changed = false;
            for block in (0..count).rev() {
                let mut live = end_of(function, flow, block, &starts);
                flow.graph.range(block).rev().for_each(|at| self.step(function, (at, roles[at]), &mut live));
                changed |= live != starts[block];
                starts[block] = live;
            }
            if !changed {
                return starts;
            }
        }
    }

    /// One instruction back: it counts if it computes what is read behind it, and then what it reads is read before it.
    fn step(&mut self, function: &Function, (at, role): (usize, Role), live: &mut Bits) {
        let inst = &function.insts[at];
        let mut writes = false;
        access::writes(inst, &mut |register| writes |= has(live, register));
        self.counts[at] |= writes;
        if !self.counts[at] {
            return;
        }
        let vector = inst.operands.iter().find_map(elements).unwrap_or_default();
        if role == Role::ReadShared {
            let is_read = |element: &Operand| matches!(element, Operand::Reg(register) if has(live, *register));
            let read = vector.iter().enumerate().filter(|(_, element)| is_read(element));
            self.loaded[vector.len()] |= read.fold(0, |all, (at, _)| all | 1 << at);
        }
        let mut set = |register: RegId, is_live: bool| {
            let (word, bit) = (&mut live[register.index() / 64], 1 << (register.index() % 64));
            *word = if is_live { *word | bit } else { *word & !bit };
        };
        if inst.guard.is_none() {
            access::writes(inst, &mut |register| set(register, false));
        }
        inst.guard.iter().for_each(|guard| set(guard.register, true));
        read_by_role(function, (at, role), &mut |register| set(register, true));
        if role == Role::WriteShared {
            let read = vector.iter().enumerate().filter(|(at, _)| self.loaded[vector.len()] >> at & 1 == 1);
            read.for_each(|(_, element)| mark(element, &mut |register| set(register, true)));
        }
        if writes && !gives_any(function, (at, role)) {
            access::registers(inst, &mut |register, access| {
                if access != Access::Write {
                    set(register, true);
                }
            });
        }
    }

    /// Finds the registers whose numbers decide what happens.
    fn find_rigid(&mut self, function: &Function, roles: &[Role]) {
        let rigid = &mut self.rigid;
        for (at, role) in roles.iter().enumerate() {
            read_by_role(function, (at, *role), &mut |register| rigid[register.index()] = true);
        }
        let counted =
            || (0..roles.len()).rev().filter(|at| self.counts[*at] && !gives_any(function, (*at, roles[*at])));
        loop {
            let mut changed = false;
            for at in counted() {
                let inst = &function.insts[at];
                let mut writes = false;
                access::writes(inst, &mut |register| writes |= rigid[register.index()]);
                access::registers(inst, &mut |register, access| {
                    let is_guard = inst.guard.is_some_and(|guard| guard.register == register);
                    if writes && access != Access::Write && !is_guard {
                        changed |= !std::mem::replace(&mut rigid[register.index()], true);
                    }
                });
            }
            if !changed {
                break;
            }
        }
        // Numbers in predicates are decisions.
        for (rigid, register) in rigid.iter_mut().zip(&function.registers) {
            *rigid |= register.ty.class() == Class::Pred;
        }
    }

    /// Returns true if something that counts depends on which side of a branch is taken.
    fn decides(&self, function: &Function, flow: &Flow, sides: &Sides) -> bool {
        let Sides::Blocks(blocks) = sides else { return true };
        let is_plain_jump = |at: usize| graph::ends(&function.insts[at]) && function.insts[at].guard.is_none();
        blocks.iter().flat_map(|block| flow.graph.range(*block)).any(|at| self.counts[at] && !is_plain_jump(at))
    }
}

/// The registers that are read from the end of a block on.
fn end_of(function: &Function, flow: &Flow, block: usize, starts: &[Bits]) -> Bits {
    let mut live = vec![0u64; function.registers.len() / 64 + 1];
    for to in successors(flow, function, block) {
        let start = &starts[to.min(flow.ends.len())];
        live.iter_mut().zip(start).for_each(|(own, other)| *own |= other);
    }
    live
}

/// Returns true if the result of an instruction does not depend on the values that it reads, as far as it is described.
fn gives_any(function: &Function, (at, role): (usize, Role)) -> bool {
    let inst = &function.insts[at];
    let is_constant = inst.row.is_some_and(|row| Site { function, inst, row }.is("nc"));
    matches!(role, Role::Wait | Role::Vote) || role == Role::Load && !is_constant
}

/// Visits the registers of the operands whose values decide what happens at barriers.
fn read_by_role(function: &Function, (at, role): (usize, Role), visit: &mut dyn FnMut(RegId)) {
    let inst = &function.insts[at];
    let Some(row) = inst.row else { return };
    let names = READS.iter().find(|(own, _)| *own == role).map_or(&[][..], |(_, names)| names);
    for (spec, operand) in row.operands.iter().zip(&inst.operands) {
        if names.iter().any(|name| spec.name.starts_with(name)) {
            mark(operand, visit);
        }
    }
}

/// The blocks between a branch and the place where its sides meet.
fn between(function: &Function, flow: &Flow, (block, meet): (usize, usize)) -> Sides {
    let (mut blocks, mut pending) = (Vec::new(), vec![block]);
    while let Some(from) = pending.pop() {
        if from != block && matches!(flow.ends[from], End::Leave | End::Other) {
            return Sides::Open;
        }
        for to in successors(flow, function, from).into_iter().filter(|to| *to != meet) {
            if to >= flow.ends.len() || flow.order[to] <= flow.order[from] {
                return Sides::Open;
            }
            if !blocks.contains(&to) {
                blocks.push(to);
                pending.push(to);
            }
        }
    }
    match flow.ends[block] {
        End::Jump(_) => Sides::Blocks(blocks),
        _ => Sides::Open,
    }
}

/// The elements of a vector that is no longer than others.
fn elements(operand: &Operand) -> Option<&[Operand]> {
    match operand {
        Operand::Vector(all) if all.len() <= LONGEST => Some(all),
        _ => None,
    }
}

fn mark(operand: &Operand, visit: &mut dyn FnMut(RegId)) {
    match operand {
        Operand::Reg(register) | Operand::Part(register, _) | Operand::Sum(register, _) => visit(*register),
        Operand::Memory { base, .. } | Operand::Element(base, _) => base.register().into_iter().for_each(visit),
        _ => {}
    }
}
