//! The origin of an address: the variable and the offset, as far as one function shows.
//!
//! Every write of a register counts, in whatever order; what two writes do not share is not known.

use super::defs::Defs;
use crate::check::access;
use crate::ir::{Base, Function, Inst, Operand, RegId, Symbol};

/// Instructions whose result points where a source points, exactly or somewhere near.
const KINDS: &[(&str, Kind)] = &[
    ("mov", Kind::Same),
    ("cvta", Kind::Same),
    ("cvta.to", Kind::Same),
    ("cvt", Kind::Same),
    ("add", Kind::Sum),
    ("sub", Kind::Moved),
    ("or", Kind::Moved),
    ("xor", Kind::Moved),
    ("and", Kind::Moved),
    ("mad.lo", Kind::Moved),
    ("mad.wide", Kind::Moved),
];
/// Instructions with operands outside of brackets that a rule reads.
const ASKED: &[&str] = &["bar", "barrier", "shfl", "redux"];
/// Passes over the function before giving up.
const MOST_PASSES: usize = 16;

/// The known origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nothing was written yet.
    None,
    /// This number.
    Number(i64),
    /// So many bytes behind a symbol; `None`: somewhere in it.
    In(Symbol, Option<i64>),
    /// Anything.
    Any,
}

/// The origins of all registers of a function.
pub(super) struct Addresses {
    of: Vec<Origin>,
}

impl Addresses {
    /// Of the registers that stand in brackets, or in an operand that could be a number.
    pub(super) fn new(function: &Function, defs: &Defs) -> Self {
        let ids = (0..).take(function.registers.len()).map(RegId);
        let start = |reg| if defs.outside(reg) { Origin::Any } else { Origin::None };
        let mut known = Addresses { of: ids.map(start).collect() };
        let slice = defs.slice(function, roots(function), |inst| kind(inst) != Kind::Other);
        let insts: Vec<&Inst> = slice.into_iter().filter_map(|at| function.insts.get(at)).collect();
        for _ in 0..MOST_PASSES {
            if !insts.iter().fold(false, |changed, inst| known.apply(inst) | changed) {
                return known;
            }
        }
        Addresses { of: vec![Origin::Any; function.registers.len()] }
    }

    /// The origin of an operand, or of the address in its brackets.
    pub(super) fn origin(&self, operand: &Operand) -> Origin {
        match operand {
            Operand::Reg(reg) => self.register(*reg),
            Operand::Int(value) => Origin::Number(value.cast_signed()),
            Operand::Symbol(symbol, offset) | Operand::Element(Base::Symbol(symbol), offset) => {
                Origin::In(*symbol, Some(*offset))
            }
            Operand::Memory { base: Base::Symbol(symbol), offset, .. } => Origin::In(*symbol, Some(*offset)),
            Operand::Memory { base: Base::Reg(reg), offset, .. } => plus(self.register(*reg), Origin::Number(*offset)),
            Operand::Memory { base: Base::Absolute, offset, .. } => Origin::Number(*offset),
            Operand::Memory { base: Base::Element(element), .. } => Origin::In(Symbol::Var(element.array), None),
            _ => Origin::Any,
        }
    }

    fn register(&self, reg: RegId) -> Origin {
        self.of.get(reg.index()).copied().unwrap_or(Origin::Any)
    }

    /// Returns true if anything new was learnt.
    fn apply(&mut self, inst: &Inst) -> bool {
        let value = self.value(inst);
        let mut changed = false;
        access::writes(inst, &mut |reg| {
            if let Some(old) = self.of.get_mut(reg.index()) {
                let new = join(*old, value);
                changed |= new != *old;
                *old = new;
            }
        });
        changed
    }

    fn value(&self, inst: &Inst) -> Origin {
        let [_, sources @ ..] = inst.operands.as_slice() else { return Origin::Any };
        let sources = sources.iter().map(|o| self.origin(o));
        match kind(inst) {
            Kind::Other => Origin::Any,
            Kind::Same => sources.fold(Origin::None, join),
            Kind::Sum => sources.fold(Origin::Number(0), plus),
            Kind::Moved => sources.fold(Origin::Number(0), near),
        }
    }
}

/// The classes of instructions in the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Sum,
    Moved,
    Other,
}

fn kind(inst: &Inst) -> Kind {
    let name = inst.row.map_or("", |r| r.name);
    KINDS.iter().find(|(n, _)| *n == name).map_or(Kind::Other, |(_, kind)| *kind)
}

/// The registers whose origin a rule may ask for.
fn roots(function: &Function) -> Vec<RegId> {
    let mut found = Vec::new();
    for inst in &function.insts {
        let asked = inst.row.is_some_and(|r| ASKED.contains(&r.opcode()));
        for operand in &inst.operands {
            match operand {
                Operand::Memory { base: Base::Reg(reg), .. } => found.push(*reg),
                Operand::Reg(reg) if asked => found.push(*reg),
                _ => {}
            }
        }
    }
    found
}

fn join(a: Origin, b: Origin) -> Origin {
    match (a, b) {
        (Origin::None, x) | (x, Origin::None) => x,
        (a, b) if a == b => a,
        (Origin::In(a, _), Origin::In(b, _)) if a == b => Origin::In(a, None),
        _ => Origin::Any,
    }
}

/// The sum: an unknown amount keeps the symbol.
fn plus(a: Origin, b: Origin) -> Origin {
    match (a, b) {
        (Origin::None, _) | (_, Origin::None) => Origin::None,
        (Origin::Number(a), Origin::Number(b)) => Origin::Number(a.wrapping_add(b)),
        (Origin::In(s, at), Origin::Number(n)) | (Origin::Number(n), Origin::In(s, at)) => {
            Origin::In(s, at.map(|at| at.wrapping_add(n)))
        }
        (a, b) => near(a, b),
    }
}

/// Somewhere in what one of them points into.
fn near(a: Origin, b: Origin) -> Origin {
    match (a, b) {
        (Origin::None, _) | (_, Origin::None) => Origin::None,
        (Origin::In(..), Origin::In(..)) => Origin::Any,
        (Origin::In(s, _), _) | (_, Origin::In(s, _)) => Origin::In(s, None),
        _ => Origin::Any,
    }
}
