//! The conditions of a contract as facts of an exploration: comparisons of sums and products of arguments. Others are left out, so that more launches
//! are explored than there are.

use super::term::{Atom, Atoms, Cond, Facts, Poly};
use crate::contract::{Contract, Passed};
use ptx_core::host::{Expr, Operator, Plain};
use ptx_core::ir::{Function, Module, Param};

struct Reader<'r> {
    atoms: &'r mut Atoms,
    contract: &'r Contract,
    /// The names of the parameters, and their bytes.
    names: Vec<Option<(&'r str, u64)>>,
}

/// The facts of a contract.
pub(crate) fn facts(atoms: &mut Atoms, module: &Module, function: &Function, contract: &Contract) -> Facts {
    let name = |param: &Param| match param {
        Param::Var(id) => module.variables.get(id.index()).map(|variable| (variable.name.as_str(), variable.size)),
        Param::Reg(_) => None,
    };
    let mut reader = Reader { atoms, contract, names: function.params.iter().map(name).collect() };
    let mut parts = Vec::new();
    contract.assume.iter().for_each(|condition| split(condition, &mut parts));
    let conditions: Vec<Cond> = parts.into_iter().filter_map(|condition| reader.truth(condition)).collect();
    let places = reader.places();
    let conditions = || conditions.iter().chain(&places);
    let equal: Vec<_> = conditions().filter_map(|condition| equal(atoms, condition)).collect();
    equal.iter().for_each(|(first, second)| atoms.equate(first.clone(), second.clone()));
    let mut facts = Facts::default();
    // A condition may decide one before it.
    for condition in conditions().chain(conditions()) {
        facts.suppose(atoms, condition);
    }
    for of in facts.0.clone() {
        factors(atoms, &facts, &of).iter().for_each(|factor| facts.assume(atoms, factor));
    }
    // A product of positive numbers is one, and so are the factors of an equal one.
    for (first, second) in &equal {
        let positive = |atom: &Atom| Poly::atom(*atom).add(-1);
        if second.iter().all(|atom| facts.decide(atoms, &positive(atom)) == Some(true)) {
            first.iter().for_each(|atom| facts.assume(atoms, &positive(atom)));
        }
    }
    facts
}

/// The factors of a product that is at least one, each less one.
fn factors(atoms: &Atoms, facts: &Facts, of: &Poly) -> Vec<Poly> {
    let mut positive = of.terms.iter().filter(|(_, value)| **value > 0);
    let (Some((mono, _)), None) = (positive.next(), positive.next()) else { return Vec::new() };
    let mut less = Poly { terms: of.terms.clone(), constant: of.constant };
    less.terms.remove(mono);
    let is_positive = less.scale(-1).is_some_and(|less| facts.decide(atoms, &less.add(-1)) == Some(true));
    if is_positive { mono.iter().map(|atom| Poly::atom(*atom).add(-1)).collect() } else { Vec::new() }
}

/// Two products that are equal by a condition; an operation is in the second one, if there is any.
fn equal(atoms: &Atoms, condition: &Cond) -> Option<(Vec<Atom>, Vec<Atom>)> {
    let Cond::Zero(Poly { terms, constant: 0 }) = condition else { return None };
    let both: Vec<(&Vec<Atom>, &i128)> = terms.iter().collect();
    let [(a, 1 | -1), (b, 1 | -1)] = both[..] else { return None };
    let has = |mono: &[Atom]| mono.iter().any(|atom| atoms.is_operation(*atom));
    (terms.values().sum::<i128>() == 0).then(|| if has(a) { (b.clone(), a.clone()) } else { (a.clone(), b.clone()) })
}

/// The parts of a condition that are all true.
fn split<'e>(condition: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match condition {
        Expr::Binary(Operator::And, both, _) => both.iter().for_each(|part| split(part, parts)),
        other => parts.push(other),
    }
}

/// The name of a number in a parameter, at an offset and of so many bits.
pub(crate) fn name_of((param, size): (&str, u64), offset: u64, bits: u32) -> String {
    match (offset, bits) {
        (0, bits) if u64::from(bits) == size * 8 => param.to_owned(),
        (offset, 32) => format!("{param}+{offset}"),
        (offset, bits) => format!("{param}+{offset} of {bits} bits"),
    }
}

impl Reader<'_> {
    /// The places of clusters: each is in the grid, and its extent is that of the contract.
    fn places(&mut self) -> Vec<Cond> {
        let mut found = Vec::new();
        for (d, component) in ["x", "y", "z"].into_iter().enumerate() {
            let place = self.atoms.name(format!("%clusterid.{component}"));
            let extent = self.atoms.name(format!("%nclusterid.{component}"));
            found.extend(extent.plus(&place, -1).map(|rest| Cond::AtLeast(rest.add(-1))));
            let blocks = self.contract.grid.as_ref().filter(|_| d == 0).and_then(|grid| self.number(grid));
            let size = i128::from(self.contract.cluster[d]);
            found.extend(blocks.and_then(|blocks| Some(Cond::Zero(extent.scale(size)?.plus(&blocks, -1)?))));
        }
        found
    }

    /// The parameter that has an argument, if its numbers have no sign.
    fn param(&self, argument: usize) -> Option<(&str, u64)> {
        let at = self.contract.params.iter().position(|passed| *passed == Passed::Argument(argument))?;
        if self.contract.signed.get(at) == Some(&true) {
            return None;
        }
        *self.names.get(at)?
    }

    fn truth(&mut self, expr: &Expr) -> Option<Cond> {
        match expr {
            Expr::Bool(value) => Some(Cond::Const(*value)),
            Expr::Unary(Operator::Not, of) => Some(self.truth(of)?.negate()),
            Expr::Binary(operator, both, _) => self.compared(*operator, &both[0], &both[1]),
            _ => None,
        }
    }

    fn compared(&mut self, operator: Operator, a: &Expr, b: &Expr) -> Option<Cond> {
        match operator {
            Operator::And => Some(self.truth(a)?.and(self.truth(b)?)),
            Operator::Or => Some(self.truth(a)?.or(self.truth(b)?)),
            _ => {
                let difference = self.number(a)?.plus(&self.number(b)?, -1)?;
                let at_least = |of: Poly| Some(Cond::AtLeast(of));
                match operator {
                    Operator::Eq => Some(Cond::Zero(difference)),
                    Operator::Ne => Some(Cond::Zero(difference).negate()),
                    Operator::Ge => at_least(difference),
                    Operator::Gt => at_least(difference.add(-1)),
                    Operator::Le => at_least(difference.scale(-1)?),
                    Operator::Lt => at_least(difference.scale(-1)?.add(-1)),
                    _ => None,
                }
            }
        }
    }

    fn number(&mut self, expr: &Expr) -> Option<Poly> {
        match expr {
            Expr::Int(value) => Some(Poly::number((*value).into())),
            Expr::Argument(argument) => {
                let (name, _) = self.param(*argument)?;
                let name = name.to_owned();
                Some(self.atoms.name(name))
            }
            Expr::Field(argument, field) => {
                let Plain::Unsigned(bytes) = field.ty else { return None };
                let name = name_of(self.param(*argument)?, field.offset, u32::from(bytes) * 8);
                Some(self.atoms.name(name))
            }
            Expr::Unary(Operator::Exact, of) => self.number(of),
            Expr::Unary(Operator::Neg, of) => self.number(of)?.scale(-1),
            Expr::Binary(operator, both, _) => {
                let (a, b) = (self.number(&both[0])?, self.number(&both[1])?);
                match operator {
                    Operator::Add => a.plus(&b, 1),
                    Operator::Sub => a.plus(&b, -1),
                    Operator::Mul => a.times(&b),
                    Operator::Rem => a.plus(&super::value::divided(self.atoms, &[a.clone(), b.clone()]).times(&b)?, -1),
                    Operator::Shl => a.scale(1 << b.known().filter(|by| (0..64).contains(by))?),
                    Operator::DivCeil => {
                        // A quotient is an atom, and those are at least zero.
                        let is_positive = a.constant >= 0 && a.terms.values().all(|value| *value >= 0);
                        let by = b.known().filter(|by| *by > 0 && is_positive)?;
                        Some(self.atoms.floor(&a.add(by - 1), by))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
