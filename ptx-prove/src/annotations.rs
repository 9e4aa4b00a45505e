//! Annotations: an assumption holds for the threads that come to it, an invariant is proved for them: one of a loop at its first turn and over one turn.
//! A cut is an invariant behind which proofs have nothing else of its registers. Where threads are compared, that is too little: once all cuts are proved,
//! another execution takes them for facts about numbers that stay.

use crate::contract::{Value as Result, truths};
use crate::form::{Cond, Form};
use crate::machine::{Machine, State, Value};
use crate::world::Scope;
use ptx_core::host::{Expr, Operator};
use ptx_core::ir::Operand;
use ptx_core::ir::annotation::{Annotation, Kind, Number};
use std::rc::Rc;

const UNPROVED: &str = "the invariant is not proved: it must hold for all threads that come to it, and that of a loop at the first turn, and from one turn to the next";

impl<'m> Machine<'m> {
    /// Threads come to an instruction, by a label in front of it or not.
    pub(crate) fn annotate(&mut self, at: usize, is_before_label: bool, state: &mut State) {
        for one in self.annotations(at, is_before_label) {
            let is_assumed = one.kind == Kind::Assume || one.kind == Kind::Cut && self.keeps_cuts;
            let cond = self.annotated(one, state);
            if !is_assumed && !cond.as_ref().is_some_and(|cond| self.follows_apart(state, cond)) {
                self.gap(at, UNPROVED);
                continue;
            }
            let cond = if one.kind == Kind::Cut && !is_assumed { self.cut(one, state) } else { cond };
            if let Some(cond) = cond {
                state.path = state.path.fact(cond);
            }
        }
    }

    /// Replaces the registers of a condition by new numbers, for which only their ranges and the condition hold. Keeps numbers that are the same for the
    /// whole launch, numbers that are known for each thread, and names. Returns the condition over the new numbers.
    fn cut(&mut self, one: &Annotation, state: &mut State) -> Option<Cond> {
        for (at, number) in one.numbers.iter().enumerate() {
            let Operand::Reg(register) = number.operand else { continue };
            let Value::Bits(form) = state.get(register) else { continue };
            let scope = self.world.scope(&form);
            if form.symbols().next().is_none() || scope == Scope::Grid || self.world.is_name(&form) {
                continue;
            }
            let bits = self.function.registers[register.index()].ty.bits().min(64);
            let all = (0, (1 << bits) - 1);
            // A number that fits its register is that of the register.
            let own = self.world.range(&form).filter(|(least, most)| *least >= all.0 && *most <= all.1).unwrap_or(all);
            let is_whole = number.bits == bits && !number.is_signed;
            let most = if is_whole { most(&one.condition, at) } else { None };
            let name = self.world.unknown((own.0, most.map_or(own.1, |most| most.clamp(own.0, own.1))), scope);
            state.set(register, Value::Bits(name));
        }
        self.annotated(one, state)
    }

    /// The invariants of a loop, by number.
    pub(crate) fn invariants(&self, header: usize) -> impl Iterator<Item = (usize, &'m Annotation)> + use<'m> {
        let at = self.flow.graph.range(header).start;
        let all = self.annotations(at, false).enumerate();
        all.filter(|(_, one)| one.kind == Kind::Invariant)
    }

    fn annotations(&self, at: usize, is_before_label: bool) -> impl Iterator<Item = &'m Annotation> + use<'m> {
        let all = self.function.annotations.iter();
        all.filter(move |one| one.at as usize == at && one.is_before_label == is_before_label)
    }

    /// The condition for the registers of a state; nothing if one of its values is not described.
    pub(crate) fn annotated(&mut self, one: &Annotation, state: &State) -> Option<Cond> {
        self.current = state.registers.clone();
        self.world.here = state.path.clone();
        let found = self.annotated_value(one, &one.condition);
        self.current = Rc::default();
        match found? {
            Result::Truth(cond) => Some(self.world.bounded(cond)),
            _ => None,
        }
    }

    fn annotated_value(&mut self, one: &Annotation, expr: &Expr) -> Option<Result> {
        Some(match expr {
            Expr::Int(number) => Result::Int(Form::number((*number).into())),
            Expr::Bool(truth) => Result::Truth(Cond::Const(*truth)),
            Expr::Argument(at) => Result::Int(self.annotated_number(one.numbers.get(*at)?)?),
            Expr::Unary(operator, of) => match (operator, self.annotated_value(one, of)?) {
                (Operator::Neg, Result::Int(form)) => Result::Int(form.scale(-1)?),
                (Operator::Not, Result::Truth(cond)) => Result::Truth(cond.negate()),
                _ => return None,
            },
            Expr::Binary(Operator::Ge, both, _) if is_natural(one, both) => Result::Truth(Cond::Const(true)),
            Expr::Binary(operator, both, _) => {
                let (left, right) = (self.annotated_value(one, &both[0])?, self.annotated_value(one, &both[1])?);
                match (left, right) {
                    (Result::Int(a), Result::Int(b)) => self.launch.binary(&mut self.world, *operator, &a, &b)?,
                    (Result::Truth(a), Result::Truth(b)) => truths(*operator, a, b)?,
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    fn annotated_number(&mut self, number: &Number) -> Option<Form> {
        let form = match &number.operand {
            Operand::Reg(register) => match self.current.get(register.index())? {
                Value::Bits(form) => form.clone(),
                _ => return None,
            },
            Operand::Special(register) => self.special(register)?,
            _ => return None,
        };
        Some(self.world.number(&form, number.bits, number.is_signed))
    }
}

/// The constant that a condition limits a number to, if it does so by itself.
fn most(condition: &Expr, at: usize) -> Option<i128> {
    let Expr::Binary(operator, both, _) = condition else { return None };
    match (operator, &both[0], &both[1]) {
        (Operator::And, a, b) => most(a, at).into_iter().chain(most(b, at)).min(),
        (Operator::Lt, Expr::Argument(own), Expr::Int(limit)) if *own == at => Some(i128::from(*limit) - 1),
        (Operator::Le, Expr::Argument(own), Expr::Int(limit)) if *own == at => Some((*limit).into()),
        _ => None,
    }
}

/// Returns true for a number without a sign and zero.
fn is_natural(one: &Annotation, both: &[Expr; 2]) -> bool {
    let [Expr::Argument(at), Expr::Int(0)] = both else { return false };
    one.numbers.get(*at).is_some_and(|number| !number.is_signed)
}
