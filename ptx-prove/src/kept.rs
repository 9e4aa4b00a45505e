//! Registers that stay in a range, such as the stage of a ring that an inner loop turns: with values below a number that the loop compares the register
//! with, or in the range of its first value, a turn leads to such values again, whatever the other registers are.

use crate::form::{Cond, Form};
use crate::machine::{Machine, State, Value};
use crate::world::{Meaning, Scope};
use ptx_core::check::access;
use ptx_core::ir::{Inst, Operand, RegId};

/// The first values of a register, if it is compared with nothing, are below this.
const LARGEST: i128 = 1 << 16;

/// A register whose value is from zero up to a number at the start of every turn.
#[derive(Clone)]
pub(crate) struct Kept {
    register: RegId,
    most: i128,
}

impl Kept {
    /// Returns true for this register.
    pub(crate) fn is(&self, register: RegId) -> bool {
        self.register == register
    }
}

impl Machine<'_> {
    /// The registers of a loop that stay in a range; `others` are known better.
    pub(crate) fn kept(&mut self, header: usize, state: &State, written: &[RegId], others: &[RegId]) -> Vec<Kept> {
        let limits = self.limits(header);
        let candidate = |register: &RegId| {
            self.bits_of(*register).filter(|bits| *bits >= 16)?;
            let Value::Bits(first) = state.get(*register) else { return None };
            let (least, most) = self.world.range(&first)?;
            let limits = limits.iter().filter(|(own, limit)| own == register && *limit > most);
            let first = Some(most).filter(|most| (1..LARGEST).contains(most));
            let most = limits.map(|(_, limit)| limit - 1).min().or(first).filter(|_| least >= 0)?;
            Some(Kept { register: *register, most })
        };
        let mut open: Vec<Kept> = written.iter().filter(|own| !others.contains(own)).filter_map(candidate).collect();
        while !open.is_empty() {
            let stay = self.stay(header, state, written, &open);
            if stay.iter().all(|stays| *stays) {
                break;
            }
            let mut stay = stay.into_iter();
            open.retain(|_| stay.next() == Some(true));
        }
        open
    }

    /// Gives registers a value of their range.
    pub(crate) fn start_kept(&mut self, start: &mut State, kept: &[Kept]) {
        for Kept { register, most } in kept {
            let value = self.world.unknown((0, *most), Scope::Thread);
            start.set(*register, Value::Bits(value));
        }
    }

    /// The numbers with which a loop compares registers, and those of which they are copies.
    fn limits(&self, header: usize) -> Vec<(RegId, i128)> {
        let blocks = self.flow.loops[header].iter().flat_map(|own| &own.blocks).enumerate().filter(|(_, own)| **own);
        let insts = blocks.flat_map(|(block, _)| &self.function.insts[self.flow.graph.range(block)]);
        let (mut found, mut copies) = (Vec::new(), Vec::new());
        for inst in insts {
            let operands: Vec<&Operand> = inst.operands.iter().filter(|own| **own != Operand::Absent).collect();
            match operands[..] {
                [Operand::Reg(_), Operand::Reg(register), Operand::Int(limit)] if self.is_comparison(inst) => {
                    found.push((*register, i128::from(*limit)));
                }
                [Operand::Reg(to), Operand::Reg(from)] => copies.push((*to, *from)),
                _ => {}
            }
        }
        for (to, from) in copies {
            let limits: Vec<_> = found.iter().filter(|(own, _)| *own == from).map(|(_, limit)| (to, *limit)).collect();
            found.extend(limits);
        }
        found
    }

    /// Returns true if an instruction writes nothing but predicates.
    fn is_comparison(&self, inst: &Inst) -> bool {
        let mut written = Vec::new();
        access::writes(inst, &mut |register| written.push(register));
        let is_predicate = |register: &RegId| self.bits_of(*register).is_none();
        !written.is_empty() && written.iter().all(is_predicate)
    }

    /// For each register whether it is in its range behind a turn from any values in these ranges.
    fn stay(&mut self, header: usize, state: &State, written: &[RegId], kept: &[Kept]) -> Vec<bool> {
        let mut start = state.clone();
        self.forget(&mut start, written);
        self.start_kept(&mut start, kept);
        let back = self.probe(|machine| machine.region(Some(header), header, start).back);
        let stays = |own: &Kept| back.as_ref().is_some_and(|back| back.iter().all(|next| self.is_kept(next, own)));
        kept.iter().map(stays).collect()
    }

    fn is_kept(&self, next: &State, Kept { register, most }: &Kept) -> bool {
        let Value::Bits(value) = next.get(*register) else { return false };
        // An address is another number in each run.
        if value.symbols().any(|symbol| self.world.symbol(symbol).meaning == Meaning::Base) {
            return false;
        }
        let inside = [Cond::le(&Form::number(0), &value), Cond::le(&value, &Form::number(*most))];
        inside.into_iter().all(|side| side.is_some_and(|side| self.follows_apart(next, &side)))
    }
}
