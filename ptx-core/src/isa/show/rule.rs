//! Rules in words: `where `.vec` is `.v8`, PTX 8.8 or later is required`.

use crate::diag::either;
use crate::isa::rule::{Atom, NAMED, Place, Rule, Term};
use crate::isa::{Arch, OperandKind, Row, Suffix};

/// A rule as a sentence.
pub fn rule(row: &Row, rule: &Rule) -> String {
    let when: Vec<String> = rule.when.iter().map(|term| condition(row, term)).collect();
    let then: Vec<String> = rule.then.iter().map(|term| requirement(row, term)).collect();
    let then = then.join(", and ");
    let when = when.join(" and ").replace(" and where ", " and ");
    let sentence = if when.is_empty() { then } else { format!("{when}, {then}") };
    if rule.both { sentence + ", and the other way around" } else { sentence }
}

fn condition(row: &Row, term: &Term) -> String {
    let is = |yes: &str, no: &str| if term.negated { no.to_owned() } else { yes.to_owned() };
    match &term.atom {
        Atom::Slot(at, values) if values.is_empty() => format!("{} {}", is("with", "without"), slot(row, *at)),
        Atom::Slot(at, values) => format!("where {} {} {}", slot(row, *at), is("is", "is not"), dotted(values)),
        Atom::Same(a, b) => {
            format!("where {} and {} {}", slot(row, *a), slot(row, *b), is("are the same", "differ"))
        }
        Atom::Operand(place) => format!("{} the operand {}", is("with", "without"), operand(row, *place)),
        Atom::Literal(place, literal) => format!("where {} is a {}", operand(row, *place), kind(*literal, term)),
        Atom::Number(place, any) => {
            format!("where {} {} {}", operand(row, *place), is("is", "is not"), either(any))
        }
        Atom::AtMost(a, b) => {
            format!("where {} is {} {}", operand(row, *a), is("at most", "greater than"), operand(row, *b))
        }
        Atom::Option(word) => format!("{} `{word}` in `.target`", is("with", "without")),
        Atom::Negated(place) => format!("where {} has {} minus sign", operand(row, *place), is("a", "no")),
        Atom::Braced(place) => {
            format!("where {} is {}", operand(row, *place), is("written in braces", "without braces"))
        }
        Atom::Target(any) => match (any.as_slice(), term.negated) {
            ([arch], true) if arch.suffix == Suffix::None => format!("before {arch}"),
            _ => format!("{} {}", is("on", "on targets other than"), either(any.iter().map(and_later))),
        },
        Atom::Since(version) => is(&format!("from PTX {version} on"), &format!("before PTX {version}")),
        Atom::Named(at) => NAMED.get(*at).map_or_else(String::new, |named| format!("where {}", named.is[no(term)])),
    }
}

fn requirement(row: &Row, term: &Term) -> String {
    let is = |yes: &str, no: &str| if term.negated { no.to_owned() } else { yes.to_owned() };
    let required = is("is required", "is not allowed");
    let must = is("must be", "cannot be");
    match &term.atom {
        Atom::Slot(at, values) if values.is_empty() => format!("{} {required}", slot(row, *at)),
        Atom::Slot(at, values) => format!("{} {must} {}", slot(row, *at), dotted(values)),
        Atom::Same(a, b) => {
            format!("{} and {} must {}", slot(row, *a), slot(row, *b), is("be the same", "differ"))
        }
        Atom::Operand(place) => format!("the operand {} {required}", operand(row, *place)),
        Atom::Literal(place, literal) => format!("{} must be a {}", operand(row, *place), kind(*literal, term)),
        Atom::Number(place, any) => {
            format!("{} {must} {}", operand(row, *place), either(any))
        }
        Atom::AtMost(a, b) => {
            format!("{} must be {} {}", operand(row, *a), is("at most", "greater than"), operand(row, *b))
        }
        Atom::Option(word) => format!("`.target` {} `{word}`", is("must have", "cannot have")),
        Atom::Negated(place) => format!("{} {} a minus sign", operand(row, *place), is("must have", "cannot have")),
        Atom::Braced(place) => {
            format!("{} must be {}", operand(row, *place), is("written in braces", "without braces"))
        }
        Atom::Target(any) if term.negated => format!("it does not exist on {}", either(any.iter().map(and_later))),
        Atom::Target(any) => format!("a target of {} is required", either(any.iter().map(or_later))),
        Atom::Since(version) => {
            is(&format!("PTX {version} or later is required"), &format!("it exists only before PTX {version}"))
        }
        Atom::Named(at) => NAMED.get(*at).map_or_else(String::new, |named| named.must[no(term)].to_owned()),
    }
}

fn no(term: &Term) -> usize {
    usize::from(term.negated)
}

fn kind(literal: bool, term: &Term) -> &'static str {
    if literal != term.negated { "literal" } else { "register" }
}

fn slot(row: &Row, at: usize) -> String {
    format!("`.{}`", row.slots.get(at).map_or("", |slot| slot.name))
}

fn operand(row: &Row, place: Place) -> String {
    let outer = row.operands.get(place.at);
    let inner = outer.and_then(|operand| match (&operand.kind, place.inside) {
        (OperandKind::Memory { rest, .. }, Some(at)) => rest.get(at).map(|operand| operand.name),
        (OperandKind::Pair(_, second), Some(_)) => Some(second.name),
        _ => Some(operand.name),
    });
    format!("`{}`", inner.unwrap_or_default())
}

fn dotted(values: &[&str]) -> String {
    either(values.iter().map(|value| format!("`.{value}`")))
}

/// The targets that provide one, as words: `sm_90 or later`.
fn or_later(arch: &Arch) -> String {
    match arch.suffix {
        Suffix::None => format!("{arch} or later"),
        Suffix::Family => format!("the family {arch}"),
        Suffix::Arch => arch.to_string(),
    }
}

fn and_later(arch: &Arch) -> String {
    or_later(arch).replace(" or later", " and later")
}
