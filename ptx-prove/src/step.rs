//! The execution of one instruction that is no jump.

use crate::event::Event;
use crate::form::{Cond, Form};
use crate::machine::{Machine, State, Value};
use crate::ops;
use crate::site::{Site, integer};
use crate::world::Scope;
use ptx_core::check::access;
use ptx_core::ir::{Inst, Operand, RegId};
use ptx_core::isa::Class;
use std::rc::Rc;

impl<'m> Machine<'m> {
    /// Executes an instruction that is no jump.
    pub(crate) fn execute(&mut self, at: usize, state: &mut State) {
        let inst: &'m Inst = &self.function.insts[at];
        self.begin(at);
        self.annotate(at, false, state);
        let Some(site) = self.site(at) else {
            self.gap(at, "an instruction in `unchecked { }`, whose meaning is unknown");
            return access::writes(inst, &mut |register| state.set(register, Value::Unknown));
        };
        self.current = state.registers.clone();
        self.world.here = state.path.clone();
        let guard = self.guard(inst);
        if guard == Cond::Const(false) {
            return;
        }
        Event::meet(self, at, &site, state, &guard);
        let results = self.results(at, &site, state, &guard);
        let mut written = Vec::new();
        access::writes(inst, &mut |register| {
            let value = results.iter().find(|(own, _)| *own == register).map(|(_, value)| value.clone());
            let before = self.current.get(register.index()).cloned().unwrap_or(Value::Unknown);
            let value = self.chosen(&guard, value.unwrap_or(Value::Unknown), before);
            written.push((register, self.bounded(value)));
        });
        // Registers that nothing else holds are changed in place, not copied.
        self.current = Rc::default();
        written.into_iter().for_each(|(register, value)| state.set(register, value));
    }

    /// The registers that an instruction gives values; those that it writes besides are unknown.
    fn results(&mut self, at: usize, site: &Site<'m>, state: &mut State, guard: &Cond) -> Vec<(RegId, Value)> {
        if let Some(action) = Event::action(site) {
            return action(self, at, site, state, guard);
        }
        if !Event::only_computes(site) {
            self.gap(at, format!("`{}` is not described here", site.row.name));
            return Vec::new();
        }
        let destination = site.operand(0);
        match destination {
            Operand::Vector(_) => self.parts(site),
            Operand::Pair(first, second) => match self.pair(site, first, second) {
                found if found.is_empty() => Event::shuffled(self, site, (first, second), guard),
                found => found,
            },
            Operand::Reg(register) => {
                let value = self.value(site, destination).or_else(|| Event::of_warp(self, site, guard));
                let value = value.or_else(|| self.opaque(site));
                value.map(|value| vec![(*register, value)]).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// The value of the only destination.
    fn value(&mut self, site: &Site<'m>, destination: &Operand) -> Option<Value> {
        if let Operand::Vector(parts) = site.operand(1) {
            return self.joined(site, parts);
        }
        let ty = site.ty(1).or_else(|| site.ty(0)).or_else(|| site.last_type());
        let fits = ty.is_none_or(|ty| integer(ty).is_some() || ty.class() == Class::Pred);
        let rule = ops::rule(site).filter(|_| fits && site.width(destination) <= 64);
        let args = ops::args(self, *site);
        rule.and_then(|rule| rule(self, &args))
    }

    /// The result of an operation without a description: where nothing that it reads differs, it does not.
    fn opaque(&mut self, site: &Site<'m>) -> Option<Value> {
        let bits = Some(site.width(site.operand(0))).filter(|bits| *bits <= 64 && Event::is_pure(site))?;
        integer(site.ty(0)?)?;
        let mut scope = Scope::Grid;
        for operand in site.inst.operands.iter().skip(1).filter(|operand| **operand != Operand::Absent) {
            let Value::Bits(form) = self.source(site, operand, None) else { return None };
            scope = scope.max(self.world.scope(&form));
        }
        Some(Value::Bits(self.world.unknown((0, (1 << bits) - 1), scope)))
    }

    /// A word of smaller ones: `mov.b64 d, {a, b}`.
    fn joined(&mut self, site: &Site<'m>, parts: &[Operand]) -> Option<Value> {
        let bits = site.last_type()?.bits() / u32::try_from(parts.len()).ok()?.max(1);
        let mut sum = Form::number(0);
        for (at, part) in (0..).zip(parts) {
            let Value::Bits(form) = self.source(site, part, None) else { return None };
            let number = self.world.number(&form, bits, false);
            sum = sum.add(&number.scale(1i128.checked_shl(bits * at)?)?)?;
        }
        Some(Value::Bits(sum)).filter(|_| site.last_type().is_some_and(|ty| ty.bits() <= 64))
    }

    /// The parts of a word: `mov.b64 {a, b}, s`.
    fn parts(&mut self, site: &Site<'m>) -> Vec<(RegId, Value)> {
        let (Operand::Vector(parts), Some(ty)) = (site.operand(0), site.last_type()) else { return Vec::new() };
        let plain = site.inst.operands.len() == 2 && ops::rule(site).is_some() && ty.bits() <= 64;
        let (true, Value::Bits(form)) = (plain, self.source(site, site.operand(1), Some(ty))) else {
            return Vec::new();
        };
        let bits = ty.bits() / parts.len().max(1) as u32;
        let mut found = Vec::new();
        for (at, part) in (0..).zip(parts) {
            let Operand::Reg(register) = part else { continue };
            let end = self.world.number(&form, bits * (at + 1), false);
            if let Some((part, _)) = self.world.floor(&end, 1i128 << (bits * at)) {
                found.push((*register, Value::Bits(part)));
            }
        }
        found
    }

    /// The two predicates of a comparison.
    fn pair(&mut self, site: &Site<'m>, first: &Operand, second: &Operand) -> Vec<(RegId, Value)> {
        let args = ops::args(self, *site);
        if ops::rule(site).is_none() || site.ty(0).is_none_or(|ty| ty.class() != Class::Pred) {
            return Vec::new();
        }
        let mut found = Vec::new();
        let Some(cond) = ops::tested(self, &args) else { return found };
        for (operand, cond) in [(first, cond.clone()), (second, cond.negate())] {
            if let (Operand::Reg(register), Some(cond)) = (operand, ops::joined(self, &args, Some(cond))) {
                found.push((*register, Value::Truth(cond)));
            }
        }
        found
    }
}
