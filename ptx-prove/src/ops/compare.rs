//! Moves, comparisons and selections.

use super::{Args, bits_of};
use crate::form::{Cond, Form};
use crate::machine::{Machine, Value};
use crate::site::integer;
use crate::world::Scope;

/// A comparison of two numbers.
type Test = fn(&Form, &Form) -> Option<Cond>;

const TESTS: [(&str, Test); 10] = [
    ("eq", |a, b| Cond::equal(a, b)),
    ("ne", |a, b| Some(Cond::equal(a, b)?.negate())),
    ("lt", |a, b| Cond::lt(a, b)),
    ("le", |a, b| Cond::le(a, b)),
    ("gt", |a, b| Cond::lt(b, a)),
    ("ge", |a, b| Cond::le(b, a)),
    ("lo", |a, b| Cond::lt(a, b)),
    ("ls", |a, b| Cond::le(a, b)),
    ("hi", |a, b| Cond::lt(b, a)),
    ("hs", |a, b| Cond::le(b, a)),
];

/// Joins a comparison with a predicate.
type Join = fn(Cond, Cond) -> Cond;

const JOINS: [(&str, Join); 3] =
    [("and", |a, b| Cond::all([a, b])), ("or", |a, b| Cond::any([a, b])), ("xor", |a, b| a.choose(b.negate(), b))];

pub(super) fn mov(_: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    match args.values.as_slice() {
        [value] => Some(value.clone()),
        _ => None,
    }
}

/// The condition that a comparison is, without the predicate that joins it.
pub(crate) fn tested(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Cond> {
    let (bits, signed) = args.site.ty(1).and_then(integer)?;
    let test = args.site.one_of(&TESTS)?;
    let (a, b) = (args.number_of(machine, 0, (bits, signed))?, args.number_of(machine, 1, (bits, signed))?);
    let cond = test(&a, &b)?;
    Some(machine.world.simplify(cond))
}

pub(super) fn setp(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let cond = tested(machine, args);
    joined(machine, args, cond).map(Value::Truth)
}

/// The comparison with its predicate; any truth where the comparison is not described.
pub(crate) fn joined(machine: &mut Machine<'_>, args: &Args<'_>, cond: Option<Cond>) -> Option<Cond> {
    let cond = cond.unwrap_or_else(|| machine.world.any_truth(Scope::Thread));
    match args.site.one_of(&JOINS) {
        None => Some(cond),
        Some(join) => match args.values.get(2)? {
            Value::Truth(other) => Some(join(cond, other.clone())),
            _ => None,
        },
    }
}

pub(super) fn set(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let cond = tested(machine, args)?;
    let cond = joined(machine, args, Some(cond))?;
    integer(args.site.ty(0)?)?;
    bits_of(machine.world.choose(&cond, &Form::number(-1), &Form::number(0)))
}

pub(super) fn selp(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let Value::Truth(cond) = args.values.get(2)? else { return None };
    let (a, b) = (args.form(machine, 0)?, args.form(machine, 1)?);
    bits_of(machine.world.choose(cond, &a, &b))
}
