//! Registers with addresses of shared memory. An exploration gives the variables there some addresses, and a run gives them others: so nothing may
//! depend on such a number but by a comparison with another one.

use super::code::{Code, Role};
use super::forward::forward;
use ptx_core::check::access;
use ptx_core::ir::{Inst, Operand, RegId, Space, Symbol};
use ptx_core::isa::Access;

/// Operands that are numbers and decide what happens at barriers.
#[rustfmt::skip]
const NUMBERS: [(Role, &str); 9] = [
    (Role::Init, "count"), (Role::Arrive, "count"), (Role::ArriveExpect, "tx_count"), (Role::Expect, "tx_count"), (Role::Wait, "phase_parity"),
    (Role::Copy, "size"), (Role::StoreTensor, "size"), (Role::TensorAllocate, "ncols"), (Role::WarpSync, "membermask"),
];

/// The first instruction that counts and takes an address of shared memory for a number.
pub(crate) fn first_decision(code: &Code<'_>) -> Option<usize> {
    // What a thread stores, all may load.
    match decision(code, false) {
        (_, true) => decision(code, true).0,
        (found, false) => found,
    }
}

/// The first such instruction, and if a thread stores an address to shared memory; `stored` if one does.
fn decision(code: &Code<'_>, stored: bool) -> (Option<usize>, bool) {
    let mut stores = stored;
    let step = |at, addresses: &mut Addresses| {
        let decides = code.counts[at] && addresses.decide(code, at);
        addresses.step(code, at);
        stores |= addresses.stored;
        decides
    };
    let none = Addresses { registers: vec![false; code.function.registers.len()], stored };
    let found = forward((code.function, &code.flow), none, step, Addresses::join);
    (found, stores)
}

#[derive(Clone, PartialEq)]
struct Addresses {
    /// By register: true if it may have an address.
    registers: Vec<bool>,
    /// True if shared memory may have one.
    stored: bool,
}

impl Addresses {
    /// Adds those of another way.
    fn join(&mut self, other: &Addresses) {
        self.registers.iter_mut().zip(&other.registers).for_each(|(own, other)| *own |= *other);
        self.stored |= other.stored;
    }

    /// Follows addresses through an instruction.
    fn step(&mut self, code: &Code<'_>, at: usize) {
        let inst = &code.function.insts[at];
        let has_address = inst.row.is_some_and(|row| {
            let mut operands = row.operands.iter().zip(&inst.operands).filter(|(spec, _)| spec.access != Access::Write);
            operands.any(|(_, operand)| self.is_address(code, operand))
        });
        let is_address = match code.roles[at] {
            Role::WriteShared => {
                self.stored |= self.has_value(code, inst);
                false
            }
            Role::ReadShared => self.stored,
            Role::Compute | Role::Select | Role::MapShared | Role::Shuffle => has_address,
            _ => false,
        };
        access::registers(inst, &mut |register: RegId, access| {
            if access != Access::Read {
                // With a guard, the old value may stay.
                let own = &mut self.registers[register.index()];
                *own = is_address || *own && inst.guard.is_some();
            }
        });
    }

    /// True if what a store writes may be an address.
    fn has_value(&self, code: &Code<'_>, inst: &Inst) -> bool {
        let at = inst.row.and_then(|row| row.operand("b"));
        at.is_some_and(|at| self.is_address(code, &inst.operands[at]))
    }

    fn is_address(&self, code: &Code<'_>, operand: &Operand) -> bool {
        let of = |register: &RegId| self.registers[register.index()];
        match operand {
            Operand::Reg(register) | Operand::Part(register, _) | Operand::Sum(register, _) => of(register),
            Operand::Symbol(Symbol::Var(id), _) => code.module.variables[id.index()].space == Space::Shared,
            Operand::Vector(operands) => operands.iter().any(|operand| self.is_address(code, operand)),
            _ => false,
        }
    }

    /// True if an instruction compares an address with a number, or takes it for one.
    fn decide(&self, code: &Code<'_>, at: usize) -> bool {
        let inst = &code.function.insts[at];
        let Some(row) = inst.row else { return false };
        let is_address = |name: &str| row.operand(name).is_some_and(|at| self.is_address(code, &inst.operands[at]));
        let role = code.roles[at];
        (role == Role::Compare && is_address("a") != is_address("b"))
            || NUMBERS.iter().any(|(own, name)| *own == role && is_address(name))
    }
}
