//! The conditions of a contract as facts of an exploration: comparisons of sums and products of arguments. Others are left out, so that more launches
//! are explored than there are.

use super::term::{Atoms, Cond, Facts, Poly};
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
    let mut facts = Facts::default();
    conditions.iter().for_each(|condition| facts.suppose(atoms, condition));
    facts
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
