//! Values of a warp's registers, and the operations on them. Lanes that differ are numbers; what the cluster agrees on is a term.

use super::term::{Atoms, Cond, Poly};
use ptx_target::sort::SortSmall;
use std::rc::Rc;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// The lanes of a mask.
pub(crate) fn active(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

/// The value of a register in all lanes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Unknown,
    /// The same in all lanes, and not described.
    Uniform,
    /// The same number.
    Number(u64),
    /// A number for each lane.
    Lanes(Rc<[u64; LANES]>),
    /// A number for each of these lanes; the others are unknown.
    Some(u32, Rc<[u64; LANES]>),
    /// The same term.
    Term(Rc<Poly>),
    /// A term in one lane; the others are unknown.
    Single(usize, Rc<Poly>),
    /// A predicate.
    Truth(Rc<Cond>),
    /// A predicate in one lane; the others are unknown.
    Chosen(usize, Rc<Cond>),
}

impl Value {
    pub(crate) fn lanes(f: impl Fn(usize) -> u64) -> Value {
        let all: [u64; LANES] = std::array::from_fn(f);
        if all.iter().all(|value| *value == all[0]) { Value::Number(all[0]) } else { Value::Lanes(Rc::new(all)) }
    }

    pub(crate) fn term(of: Poly) -> Value {
        match of.known() {
            Some(number) => Value::Number(number as u64),
            None => Value::Term(Rc::new(of)),
        }
    }

    pub(crate) fn truth(cond: Cond) -> Value {
        match cond {
            Cond::Const(value) => Value::Number(value.into()),
            cond => Value::Truth(Rc::new(cond)),
        }
    }

    /// The number of a lane.
    pub(crate) fn at(&self, lane: usize) -> Option<u64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Lanes(lanes) => Some(lanes[lane]),
            Value::Some(mask, lanes) if mask >> lane & 1 == 1 => Some(lanes[lane]),
            Value::Single(own, of) if *own == lane => of.known().map(|number| number as u64),
            _ => None,
        }
    }

    /// As a term, in these lanes; numbers of so many bits have a sign.
    pub(crate) fn poly(&self, mask: u32, bits: u32) -> Option<Poly> {
        match self {
            Value::Number(number) => Some(Poly::number(signed(*number, bits))),
            Value::Lanes(_) | Value::Some(..) => {
                let first = self.at(mask.trailing_zeros() as usize % LANES)?;
                let same = active(mask).all(|lane| self.at(lane) == Some(first));
                same.then(|| Poly::number(signed(first, bits)))
            }
            Value::Term(of) => Some((**of).clone()),
            Value::Single(lane, of) if mask == 1 << lane => Some((**of).clone()),
            _ => None,
        }
    }

    /// The same, of numbers that an instruction reads with this width and sign.
    pub(crate) fn read(&self, mask: u32, kind: (u32, bool)) -> Option<Poly> {
        let of = self.poly(mask, kind.0)?;
        Some(of.known().map_or(of, |known| Poly::number(number(known as u64, kind))))
    }

    pub(crate) fn cond(&self, mask: u32) -> Option<Cond> {
        match self {
            Value::Number(number) => Some(Cond::Const(*number != 0)),
            Value::Truth(cond) => Some((**cond).clone()),
            Value::Chosen(lane, cond) if mask == 1 << lane => Some((**cond).clone()),
            _ => None,
        }
    }

    /// The new value in the lanes of the mask, this one in the others that live.
    pub(crate) fn merged(&self, new: Value, mask: u32, live: u32) -> Value {
        if mask & live == live || *self == new {
            return new;
        }
        let of = |lane: usize| if mask >> lane & 1 == 1 { new.at(lane) } else { self.at(lane) };
        let known = (0..LANES).filter(|lane| of(*lane).is_some()).fold(0, |known, lane| known | 1u32 << lane);
        if known & mask == mask && (known & live == live || mask.count_ones() > 1 || matches!(self, Value::Some(..))) {
            let all = Value::lanes(|lane| of(lane).unwrap_or(0));
            return match (known & live == live, all) {
                (true, all) => all,
                (false, Value::Number(number)) => Value::Some(known, Rc::new([number; LANES])),
                (false, Value::Lanes(lanes)) => Value::Some(known, lanes),
                (false, other) => other,
            };
        }
        match new {
            _ if mask.count_ones() == 1 => new.alone(mask.trailing_zeros() as usize),
            _ => Value::Unknown,
        }
    }
}

impl Value {
    /// With another number in the place of each.
    pub(crate) fn changed(&self, f: impl Fn(u64) -> u64) -> Value {
        match self {
            Value::Number(number) => Value::Number(f(*number)),
            Value::Lanes(lanes) => Value::lanes(|lane| f(lanes[lane])),
            Value::Some(mask, lanes) => Value::Some(*mask, Rc::new(lanes.map(f))),
            _ => Value::Unknown,
        }
    }

    /// The value of one lane.
    fn alone(self, lane: usize) -> Value {
        match self {
            Value::Term(of) => Value::Single(lane, of),
            Value::Truth(cond) => Value::Chosen(lane, cond),
            Value::Number(number) => Value::Single(lane, Rc::new(Poly::number(number.into()))),
            Value::Lanes(lanes) | Value::Some(_, lanes) => {
                Value::Single(lane, Rc::new(Poly::number(lanes[lane].into())))
            }
            Value::Uniform => Value::Unknown,
            other => other,
        }
    }

    /// Returns true if all lanes have the same value.
    pub(crate) fn is_uniform(&self) -> bool {
        matches!(self, Value::Uniform | Value::Number(_) | Value::Term(_) | Value::Truth(_))
    }

    /// Either value, where all lanes have the same one of both.
    pub(crate) fn either(&self, other: &Value) -> Value {
        match self.is_uniform() && other.is_uniform() {
            _ if self == other => self.clone(),
            true => Value::Uniform,
            false => Value::Unknown,
        }
    }
}

fn signed(number: u64, bits: u32) -> i128 {
    match bits {
        1..=31 => (number & ((1 << bits) - 1)).into(),
        32 => (number as u32 as i32).into(),
        _ => (number as i64).into(),
    }
}

pub(crate) fn masked(number: u64, bits: u32) -> u64 {
    if bits >= 64 { number } else { number & ((1 << bits) - 1) }
}

/// The number that bits are.
pub(crate) fn number(value: u64, (bits, is_signed): (u32, bool)) -> i128 {
    let value = masked(value, bits);
    if is_signed && bits < 64 && value >> (bits - 1) & 1 == 1 {
        i128::from(value) - (1i128 << bits)
    } else if is_signed && bits == 64 {
        (value as i64).into()
    } else {
        value.into()
    }
}

/// An operation: on the numbers of a lane, and on terms.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// True if the result is the source.
    pub(crate) is_copy: bool,
    /// True if bits of the result depend on no higher bits of the sources, so that any number with these bits is as good.
    pub(crate) is_modular: bool,
    /// Of the sources as numbers, with the bits of the first one.
    pub(crate) numbers: fn(&[i128], u32) -> Option<i128>,
    pub(crate) terms: fn(&mut Atoms, &[Poly], u32) -> Option<Poly>,
}

/// Modifiers of integer arithmetic that the operations do not describe.
pub(crate) const OTHERS: [&str; 3] = ["sat", "relu", "cc"];

/// The operations by the names of their instructions.
#[rustfmt::skip]
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation { name: "mov", is_copy: true, is_modular: true, numbers: |a, _| a.first().copied(), terms: |_, a, _| a.first().cloned() },
    Operation { name: "cvt", is_copy: false, is_modular: false, numbers: |a, _| a.first().copied(), terms: |_, a, _| a.first().cloned() },
    Operation { name: "cvta", is_copy: false, is_modular: true, numbers: |a, _| a.first().copied(), terms: |_, a, _| a.first().cloned() },
    Operation { name: "cvta.to", is_copy: false, is_modular: true, numbers: |a, _| a.first().copied(), terms: |_, a, _| a.first().cloned() },
    Operation { name: "add", is_copy: false, is_modular: true, numbers: |a, _| Some(a[0] + a[1]), terms: |_, a, _| a[0].plus(&a[1], 1) },
    Operation { name: "sub", is_copy: false, is_modular: true, numbers: |a, _| Some(a[0] - a[1]), terms: |_, a, _| a[0].plus(&a[1], -1) },
    Operation { name: "neg", is_copy: false, is_modular: true, numbers: |a, _| Some(-a[0]), terms: |_, a, _| a[0].scale(-1) },
    Operation { name: "mul.lo", is_copy: false, is_modular: true, numbers: |a, _| a[0].checked_mul(a[1]), terms: |_, a, _| a[0].times(&a[1]) },
    Operation { name: "mul.wide", is_copy: false, is_modular: false, numbers: |a, _| a[0].checked_mul(a[1]), terms: |_, a, _| a[0].times(&a[1]) },
    Operation { name: "mad.lo", is_copy: false, is_modular: true, numbers: |a, _| a[0].checked_mul(a[1])?.checked_add(a[2]), terms: |_, a, _| a[0].times(&a[1])?.plus(&a[2], 1) },
    Operation { name: "mad.wide", is_copy: false, is_modular: false, numbers: |a, _| a[0].checked_mul(a[1])?.checked_add(a[2]), terms: |_, a, _| a[0].times(&a[1])?.plus(&a[2], 1) },
    Operation { name: "mul.hi", is_copy: false, is_modular: false, numbers: |a, bits| Some(a[0].checked_mul(a[1])? >> bits), terms: |m, a, _| Some(m.of("mul.hi", sorted(a))) },
    Operation { name: "shl", is_copy: false, is_modular: true, numbers: |a, bits| Some(if a[1] >= i128::from(bits) { 0 } else { a[0] << a[1] }), terms: |_, a, _| a[0].scale(1 << a[1].known().filter(|by| (0..64).contains(by))?) },
    Operation { name: "shr", is_copy: false, is_modular: false, numbers: |a, bits| Some(a[0] >> a[1].clamp(0, (bits - 1).into())), terms: |m, a, _| Some(m.floor(&a[0], 1 << a[1].known().filter(|by| (0..64).contains(by))?)) },
    Operation { name: "and", is_copy: false, is_modular: true, numbers: |a, _| Some(a[0] & a[1]), terms: conjunction },
    Operation { name: "or", is_copy: false, is_modular: true, numbers: |a, _| Some(a[0] | a[1]), terms: |m, a, _| Some(m.of("or", sorted(a))) },
    Operation { name: "xor", is_copy: false, is_modular: true, numbers: |a, _| Some(a[0] ^ a[1]), terms: |m, a, _| Some(m.of("xor", sorted(a))) },
    Operation { name: "not", is_copy: false, is_modular: true, numbers: |a, _| Some(!a[0]), terms: |_, _, _| None },
    Operation { name: "min", is_copy: false, is_modular: false, numbers: |a, _| Some(a[0].min(a[1])), terms: |m, a, _| Some(extreme(m, a, "min", 1)) },
    Operation { name: "max", is_copy: false, is_modular: false, numbers: |a, _| Some(a[0].max(a[1])), terms: |m, a, _| Some(extreme(m, a, "max", -1)) },
    Operation { name: "div", is_copy: false, is_modular: false, numbers: |a, _| a[0].checked_div(a[1]), terms: |m, a, _| Some(divided(m, a)) },
    Operation { name: "rem", is_copy: false, is_modular: false, numbers: |a, _| a[0].checked_rem(a[1]), terms: |m, a, _| { let quotient = divided(m, a); a[0].plus(&quotient.times(&a[1])?, -1) } },
    Operation { name: "bfe", is_copy: false, is_modular: false, numbers: |a, _| Some(if a[2] == 0 { 0 } else { a[0] >> (a[1] & 63) & ((1 << (a[2] & 63)) - 1) }), terms: |_, _, _| None },
    Operation { name: "popc", is_copy: false, is_modular: false, numbers: |a, bits| Some(masked(a[0] as u64, bits).count_ones().into()), terms: |_, _, _| None },
];

fn sorted(of: &[Poly]) -> Vec<Poly> {
    let mut all = of.to_vec();
    all.sort_small();
    all
}

pub(super) fn divided(atoms: &mut Atoms, of: &[Poly]) -> Poly {
    match of[1].known() {
        Some(by) if by > 0 => atoms.floor(&of[0], by),
        _ => atoms.of("div", of.to_vec()),
    }
}

fn conjunction(atoms: &mut Atoms, of: &[Poly], _: u32) -> Option<Poly> {
    let all = sorted(of);
    for (mask, other) in [(&of[1], &of[0]), (&of[0], &of[1])] {
        // The remainder by a power of two.
        if let Some(mask) = mask.known().filter(|mask| *mask > 0 && (mask + 1).count_ones() == 1) {
            let quotient = atoms.floor(other, mask + 1);
            return other.plus(&quotient, -(mask + 1));
        }
    }
    Some(atoms.of("and", all))
}

fn extreme(atoms: &mut Atoms, of: &[Poly], name: &'static str, sign: i128) -> Poly {
    let order = of[1].plus(&of[0], -1).and_then(|rest| rest.scale(sign));
    let back = order.as_ref().and_then(|rest| rest.scale(-1));
    if order.is_some_and(|rest| atoms.is_positive(&rest)) {
        return of[0].clone();
    }
    if back.is_some_and(|rest| atoms.is_positive(&rest)) {
        return of[1].clone();
    }
    atoms.of(name, sorted(of))
}

/// A comparison: on numbers, and as a condition of the difference `a - b`.
type Test = (&'static str, fn(i128, i128) -> bool, fn(Poly) -> Option<Cond>);

fn at_most(of: Poly, less: i128) -> Option<Cond> {
    Some(Cond::AtLeast(of.scale(-1)?.add(-less)))
}

#[rustfmt::skip]
pub(crate) const TESTS: [Test; 10] = [
    ("eq", |a, b| a == b, |d| Some(Cond::Zero(d))), ("ne", |a, b| a != b, |d| Some(Cond::Zero(d).negate())),
    ("lt", |a, b| a < b, |d| at_most(d, 1)), ("le", |a, b| a <= b, |d| at_most(d, 0)),
    ("gt", |a, b| a > b, |d| Some(Cond::AtLeast(d.add(-1)))), ("ge", |a, b| a >= b, |d| Some(Cond::AtLeast(d))),
    ("lo", |a, b| a < b, |d| at_most(d, 1)), ("ls", |a, b| a <= b, |d| at_most(d, 0)),
    ("hi", |a, b| a > b, |d| Some(Cond::AtLeast(d.add(-1)))), ("hs", |a, b| a >= b, |d| Some(Cond::AtLeast(d))),
];

/// A comparison's predicate with another one.
type Join = (&'static str, fn(bool, bool) -> bool, fn(Cond, Cond) -> Cond);

pub(crate) const JOINS: [Join; 2] = [("and", |a, b| a && b, Cond::and), ("or", |a, b| a || b, Cond::or)];
