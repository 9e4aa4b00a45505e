//! Evaluates the rules of a row for one instruction. The rules are read by `isa::rule`.

mod named;

use crate::ir::Operand;
use crate::isa::find::Form;
use crate::isa::rule::{Atom, Place, Rule, Term};
use crate::isa::{Arch, Version};

/// The instruction that a rule checks.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    /// The row and its slots' values.
    pub(crate) form: &'a Form,
    /// The operands, one for each of the row's, [`Operand::Absent`] where left out.
    pub(crate) operands: &'a [Operand],
    /// The other words of `.target`.
    pub(crate) options: &'a [String],
    /// The module's target.
    pub(crate) arch: Arch,
    /// The module's version.
    pub(crate) version: Version,
}

/// Why a rule does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The target or version is too old; the rule's text names what it takes.
    Gate,
    /// The combination does not exist.
    Form,
}

impl Place {
    fn of(self, operands: &[Operand]) -> &Operand {
        let absent = &Operand::Absent;
        match (operands.get(self.at), self.inside) {
            (None, _) => absent,
            (Some(operand), None) => operand,
            (Some(Operand::Memory { rest, .. }), Some(at)) => rest.get(at).unwrap_or(absent),
            (Some(Operand::Pair(_, second)), Some(1)) => second,
            (Some(_), Some(_)) => absent,
        }
    }
}

impl Rule {
    /// Returns true if it holds whatever the operands are; `case` has none.
    pub(crate) fn is_settled(&self, case: &Case) -> bool {
        let fails = |terms: &[Term]| terms.iter().any(|t| t.atom.is_fixed() && t.fails(case));
        let holds = |terms: &[Term]| terms.iter().all(|t| t.atom.is_fixed() && !t.fails(case));
        match self.both {
            false => fails(&self.when) || holds(&self.then),
            true => fails(&self.when) && fails(&self.then) || holds(&self.when) && holds(&self.then),
        }
    }

    /// Checks the rule, unless ptxas does not enforce it.
    pub(crate) fn check(&self, case: &Case) -> Result<(), Broken> {
        if self.lax { Ok(()) } else { self.holds(case) }
    }

    /// Checks the rule.
    pub(crate) fn holds(&self, case: &Case) -> Result<(), Broken> {
        let when = first_false(&self.when, case);
        let then = first_false(&self.then, case);
        match (when, then) {
            (None, Some(term)) => Err(if term.is_gate() { Broken::Gate } else { Broken::Form }),
            (Some(_), None) if self.both => Err(Broken::Form),
            _ => Ok(()),
        }
    }
}

fn first_false<'r>(terms: &'r [Term], case: &Case) -> Option<&'r Term> {
    terms.iter().find(|t| t.fails(case))
}

impl Term {
    fn fails(&self, case: &Case) -> bool {
        self.atom.holds(case) == self.negated
    }

    fn is_gate(&self) -> bool {
        matches!(self.atom, Atom::Target(_) | Atom::Since(_))
    }
}

impl Atom {
    /// Returns true if no operand has a say in it.
    fn is_fixed(&self) -> bool {
        matches!(self, Atom::Slot(..) | Atom::Same(..) | Atom::Option(_) | Atom::Target(_) | Atom::Since(_))
    }

    fn holds(&self, case: &Case) -> bool {
        let value = |slot: usize| case.form.slots.get(slot).copied().flatten();
        match self {
            Atom::Slot(slot, values) => value(*slot).is_some_and(|m| values.is_empty() || values.contains(&m.text)),
            Atom::Same(a, b) => value(*a).map(|m| m.text) == value(*b).map(|m| m.text),
            Atom::Operand(place) => *place.of(case.operands) != Operand::Absent,
            Atom::Literal(place, literal) => place.of(case.operands).is_literal() == *literal,
            Atom::AtMost(a, b) => match (a.of(case.operands), b.of(case.operands)) {
                (Operand::Int(a), Operand::Int(b)) => *a as u32 <= *b as u32,
                _ => true,
            },
            Atom::Option(word) => case.options.iter().any(|o| o == word),
            Atom::Number(place, any) => {
                matches!(place.of(case.operands), Operand::Int(bits) if any.contains(&bits.cast_signed()))
            }
            Atom::Negated(place) => matches!(place.of(case.operands), Operand::Neg(_)),
            Atom::Braced(place) => matches!(place.of(case.operands), Operand::Vector(_)),
            Atom::Target(any) => any.iter().any(|needed| case.arch.provides(*needed)),
            Atom::Since(version) => case.version >= *version,
            Atom::Named(at) => named::RULES.get(*at).is_none_or(|(_, holds)| holds(case)),
        }
    }
}
