//! Annotations: an assumption holds for the threads that come to it, an invariant is proved for them: one of a loop at its first turn and over one turn.

use crate::contract::{Value as Result, truths};
use crate::form::{Cond, Form};
use crate::machine::{Machine, State, Value};
use ptx_core::host::{Expr, Operator};
use ptx_core::ir::Operand;
use ptx_core::ir::annotation::{Annotation, Kind, Number};
use std::rc::Rc;

const UNPROVED: &str = "the invariant is not proved: it must hold for all threads that come to it, and that of a loop at the first turn, and from one turn to the next";

impl<'m> Machine<'m> {
    /// Threads come to an instruction, by a label in front of it or not.
    pub(crate) fn annotate(&mut self, at: usize, is_before_label: bool, state: &mut State) {
        for one in self.annotations(at, is_before_label) {
            let Some(cond) = self.annotated(one, state) else {
                if one.kind == Kind::Invariant {
                    self.gap(at, UNPROVED);
                }
                continue;
            };
            if one.kind == Kind::Invariant && !self.follows_apart(state, &cond) {
                self.gap(at, UNPROVED);
            } else {
                state.path = state.path.fact(cond);
            }
        }
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
