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
    /// By register: true if an instruction that counts reads it.
    pub(crate) wanted: Vec<bool>,
    /// By register: true if its numbers must be equal in equal states.
    pub(crate) rigid: Vec<bool>,
}

/// The instructions between a branch with a guard and the place where its sides meet.
enum Sides {
    /// Threads may end there, or go back.
    Open,
    /// The blocks before its sides meet.
    Blocks(Vec<usize>),
}

impl Slice {
    pub(crate) fn new(function: &Function, flow: &Flow, roles: &[Role], meet: &[usize]) -> Slice {
        let registers = function.registers.len();
        let mut slice = Slice {
            counts: roles.iter().map(|role| !role.only_computes()).collect(),
            wanted: vec![false; registers],
            rigid: vec![false; registers],
        };
        let mut sides: Vec<Option<Sides>> = (0..roles.len()).map(|_| None).collect();
        for (block, meet) in meet.iter().enumerate() {
            let last = flow.graph.range(block).last().filter(|last| graph::ends(&function.insts[*last]));
            if let Some(last) = last {
                let has_guard = function.insts[last].guard.is_some();
                slice.counts[last] = !has_guard;
                sides[last] = has_guard.then(|| between(function, flow, (block, *meet)));
            }
        }
        for (at, role) in roles.iter().enumerate() {
            slice.read_by_role(function, (at, *role));
        }
        // What is read to compute what is read, and what decides if it is.
        while (0..roles.len()).rev().fold(false, |changed, at| {
            let is_branch = sides[at].as_ref().is_some_and(|sides| slice.decides(function, flow, sides));
            slice.add(function, (at, roles[at]), is_branch) || changed
        }) {}
        // Numbers in predicates are decisions.
        for (rigid, register) in slice.rigid.iter_mut().zip(&function.registers) {
            *rigid |= register.ty.class() == Class::Pred;
        }
        slice
    }

    /// The operands whose values decide what happens at barriers.
    fn read_by_role(&mut self, function: &Function, (at, role): (usize, Role)) {
        let inst = &function.insts[at];
        let Some(row) = inst.row else { return };
        let names = READS.iter().find(|(own, _)| *own == role).map_or(&[][..], |(_, names)| names);
        for (spec, operand) in row.operands.iter().zip(&inst.operands) {
            if names.iter().any(|name| spec.name.starts_with(name)) {
                mark(operand, &mut |register| {
                    self.wanted[register.index()] = true;
                    self.rigid[register.index()] = true;
                });
            }
        }
    }

    /// Returns true if something that counts depends on which side of a branch is taken.
    fn decides(&self, function: &Function, flow: &Flow, sides: &Sides) -> bool {
        let Sides::Blocks(blocks) = sides else { return true };
        let is_plain_jump = |at: usize| graph::ends(&function.insts[at]) && function.insts[at].guard.is_none();
        blocks.iter().flat_map(|block| flow.graph.range(*block)).any(|at| self.counts[at] && !is_plain_jump(at))
    }

    /// Adds an instruction if it counts, with what it reads; true if the slice has grown.
    fn add(&mut self, function: &Function, (at, role): (usize, Role), is_branch: bool) -> bool {
        let inst = &function.insts[at];
        let (mut writes, mut writes_rigid) = (false, false);
        access::writes(inst, &mut |register| {
            writes |= self.wanted[register.index()];
            writes_rigid |= self.rigid[register.index()];
        });
        let mut changed = false;
        if (is_branch || writes) && !self.counts[at] {
            self.counts[at] = true;
            changed = true;
        }
        let mut set = |list: &mut Vec<bool>, register: RegId| {
            changed |= !std::mem::replace(&mut list[register.index()], true);
        };
        if self.counts[at]
            && let Some(guard) = inst.guard
        {
            set(&mut self.wanted, guard.register);
        }
        let is_load = role == Role::Load && !inst.row.is_some_and(|row| Site { function, inst, row }.is("nc"));
        if writes && role != Role::Wait && !is_load {
            access::registers(inst, &mut |register, access| {
                if access != Access::Write && inst.guard.is_none_or(|guard| guard.register != register) {
                    set(&mut self.wanted, register);
                    if writes_rigid {
                        set(&mut self.rigid, register);
                    }
                }
            });
        }
        changed
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

fn mark(operand: &Operand, visit: &mut dyn FnMut(RegId)) {
    match operand {
        Operand::Reg(register) | Operand::Part(register, _) | Operand::Sum(register, _) => visit(*register),
        Operand::Memory { base, .. } | Operand::Element(base, _) => base.register().into_iter().for_each(visit),
        _ => {}
    }
}
