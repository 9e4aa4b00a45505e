//! The meaning of the instructions that compute: of each a rule over forms, and for bit patterns a function of the numbers of one thread.
//!
//! A result that no rule describes is any value of its type. So a rule is needed for precision, never for soundness.

mod bits;
mod compare;
mod convert;

pub(crate) use compare::{joined, tested};

use crate::form::Form;
use crate::machine::{Machine, Value};
use crate::site::{Site, integer};
use ptx_core::ir::Operand;

/// A rule: the value of the first destination, if it is described.
pub(crate) type Rule = fn(&mut Machine<'_>, &Args<'_>) -> Option<Value>;

/// The operands of an instruction that computes.
pub(crate) struct Args<'a> {
    pub(crate) site: Site<'a>,
    /// The sources, each as a value.
    pub(crate) values: Vec<Value>,
    /// The bits of each source.
    pub(crate) widths: Vec<u32>,
    /// Bits and sign of the first source.
    pub(crate) bits: u32,
    pub(crate) signed: bool,
}

impl Args<'_> {
    /// A source modulo its width; any value where nothing is known of it.
    pub(crate) fn form(&self, machine: &mut Machine<'_>, at: usize) -> Option<Form> {
        match self.values.get(at)? {
            Value::Bits(form) => Some(form.clone()),
            Value::Truth(cond) => machine.world.bit(cond),
            Value::Unknown => {
                machine.lose();
                None
            }
        }
    }

    /// A source as the number that its bits are.
    pub(crate) fn number(&self, machine: &mut Machine<'_>, at: usize) -> Option<Form> {
        let form = self.form(machine, at)?;
        Some(machine.read_number(&form, self.bits, self.signed))
    }

    /// A source as a number of another width and sign.
    pub(crate) fn number_of(&self, machine: &mut Machine<'_>, at: usize, (bits, signed): (u32, bool)) -> Option<Form> {
        let form = self.form(machine, at)?;
        Some(machine.read_number(&form, bits, signed))
    }
}

fn bits_of(form: Option<Form>) -> Option<Value> {
    form.map(Value::Bits)
}

/// The rules by name. The longest name that fits counts.
#[rustfmt::skip]
const RULES: &[(&str, Rule)] = &[
    ("add", |m, a| bits_of(a.form(m, 0)?.add(&a.form(m, 1)?))),
    ("sub", |m, a| bits_of(a.form(m, 0)?.sub(&a.form(m, 1)?))),
    ("neg", |m, a| bits_of(a.form(m, 0)?.scale(-1))),
    ("mul.lo", |m, a| { let (x, y) = (a.form(m, 0)?, a.form(m, 1)?); bits_of(m.world.product(&x, &y)) }),
    ("mad.lo", |m, a| { let (x, y) = (a.form(m, 0)?, a.form(m, 1)?); bits_of(m.world.product(&x, &y)?.add(&a.form(m, 2)?)) }),
    ("mul.wide", |m, a| { let (x, y) = (a.number(m, 0)?, a.number(m, 1)?); bits_of(m.world.product(&x, &y)) }),
    ("mad.wide", |m, a| { let (x, y) = (a.number(m, 0)?, a.number(m, 1)?); bits_of(m.world.product(&x, &y)?.add(&a.form(m, 2)?)) }),
    ("mul.hi", |m, a| { let p = a.number(m, 0)?.mul(&a.number(m, 1)?)?; bits_of(m.world.floor(&p, 1 << a.bits).map(|(q, _)| q)) }),
    ("mad.hi", |m, a| {
        let p = a.number(m, 0)?.mul(&a.number(m, 1)?)?;
        bits_of(m.world.floor(&p, 1 << a.bits)?.0.add(&a.form(m, 2)?))
    }),
    ("mul24.lo", |m, a| bits_of(field24(m, a, 0)?.mul(&field24(m, a, 1)?))),
    ("mad24.lo", |m, a| bits_of(field24(m, a, 0)?.mul(&field24(m, a, 1)?)?.add(&a.form(m, 2)?))),
    ("min", |m, a| { let (x, y) = (a.number(m, 0)?, a.number(m, 1)?); bits_of(m.world.smaller(&x, &y)) }),
    ("max", |m, a| { let (x, y) = (a.number(m, 0)?, a.number(m, 1)?); bits_of(m.world.larger(&x, &y)) }),
    ("abs", absolute),
    ("div", |m, a| bits_of(division(m, a).map(|(quotient, _)| quotient))),
    ("rem", |m, a| bits_of(division(m, a).and_then(|(_, rest)| rest))),
    ("mov", compare::mov), ("selp", compare::selp), ("setp", compare::setp), ("set", compare::set),
    ("cvt", convert::cvt), ("cvta", convert::generic), ("cvta.to", convert::in_space),
    ("and", bits::and), ("or", bits::or), ("xor", bits::xor), ("not", bits::not), ("lop3", bits::lop3),
    ("shl", bits::shl), ("shr", bits::shr), ("shf.l", bits::funnel_left), ("shf.r", bits::funnel_right),
    ("bfe", bits::bfe), ("bfi", bits::bfi), ("prmt", bits::prmt),
    ("popc", bits::popc), ("clz", bits::clz), ("brev", bits::brev), ("bfind", bits::bfind),
];

/// Modifiers of integer arithmetic that its rules do not describe.
const OTHERS: [&str; 3] = ["sat", "relu", "cc"];

/// The rule of an instruction on integers or predicates.
pub(crate) fn rule(site: &Site<'_>) -> Option<Rule> {
    if OTHERS.iter().any(|modifier| site.is(modifier)) {
        return None;
    }
    RULES.iter().find(|(name, _)| *name == site.row.name).map(|(_, rule)| *rule)
}

/// The operands of an instruction; the first one is its destination.
pub(crate) fn args<'a>(machine: &mut Machine<'_>, site: Site<'a>) -> Args<'a> {
    let main = site.ty(1).or_else(|| site.ty(0));
    let (bits, signed) = main.and_then(integer).unwrap_or((0, false));
    let (mut values, mut widths) = (Vec::new(), Vec::new());
    for at in (1..site.inst.operands.len()).filter(|at| *site.operand(*at) != Operand::Absent) {
        let ty = site.ty(at).or(main);
        values.push(machine.source(&site, site.operand(at), ty));
        widths.push(ty.and_then(integer).map_or(0, |(bits, _)| bits));
    }
    Args { site, values, widths, bits, signed }
}

/// The lower 24 bits as a number.
fn field24(machine: &mut Machine<'_>, args: &Args<'_>, at: usize) -> Option<Form> {
    args.number_of(machine, at, (24, args.signed))
}

fn absolute(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let number = args.number(machine, 0)?;
    let negative = number.scale(-1)?;
    bits_of(machine.world.larger(&number, &negative))
}

/// The quotient, and the remainder if it is known.
fn division(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<(Form, Option<Form>)> {
    let whole = |(quotient, rest): (Form, Form)| (quotient, Some(rest));
    let (a, b) = (args.number(machine, 0)?, args.number(machine, 1)?);
    if let (Some(a), Some(b)) = (a.constant(), b.constant()) {
        let one = |f: fn(i128, i128) -> i128| {
            a.zip(b, |a, b| Some(f(a, b))).map(|constant| Form { terms: Vec::new(), constant })
        };
        // By zero the quotient has all bits, and the remainder too.
        let both = (one(|a, b| if b == 0 { -1 } else { a / b })?, one(|a, b| if b == 0 { -1 } else { a % b })?);
        return Some(whole(both));
    }
    let (least, _) = machine.world.range(&a)?;
    if least < 0 {
        let by = b.known().filter(|by| *by > 0)?;
        return machine.world.towards_zero(&a, by).map(whole);
    }
    match b.known() {
        Some(by) if by > 0 => machine.world.floor(&a, by).map(whole),
        _ => machine.world.divide(&a, &b, args.bits),
    }
}
