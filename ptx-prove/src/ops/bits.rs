//! Logic, shifts and bit fields. Masks and shifts by constants are floor divisions; patterns of known numbers are computed thread by thread.

use super::{Args, bits_of};
use crate::form::{Coef, Cond, Form};
use crate::machine::{Machine, Value};
use crate::world::Scope;
use ptx_target::sort::SortSmall;

/// The most runs of ones in a mask that is still a sum of divisions.
const RUNS: usize = 4;

/// `f` of the numbers of each thread, if all sources are known. Numbers are not negative.
fn concrete(machine: &mut Machine<'_>, args: &Args<'_>, f: impl Fn(&[u64]) -> u64) -> Option<Value> {
    let mut coefs = Vec::new();
    for at in 0..args.values.len() {
        let number = args.number_of(machine, at, (*args.widths.get(at)?, false))?;
        coefs.push(number.constant()?.clone());
    }
    if coefs.iter().all(|coef| matches!(coef, Coef::One(_))) {
        let numbers: Vec<u64> = coefs.iter().map(|coef| coef.at(0) as u64).collect();
        return Some(Value::Bits(Form::number(f(&numbers).into())));
    }
    let threads = machine.world.threads;
    let each = |thread: usize| f(&coefs.iter().map(|coef| coef.at(thread) as u64).collect::<Vec<_>>());
    Some(Value::Bits(Form::table((0..threads).map(|thread| each(thread).into()).collect())))
}

fn ones(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The value modulo `2^bits`, whatever number stands for it.
fn low(machine: &mut Machine<'_>, form: &Form, bits: u32) -> Option<Form> {
    let (_, rest) = machine.world.floor(form, 1 << bits)?;
    machine.world.learn(&rest, (0, (1 << bits) - 1));
    Some(rest)
}

/// `form & mask` for a constant mask.
fn masked(machine: &mut Machine<'_>, form: &Form, mask: u64, bits: u32) -> Option<Form> {
    let (mut sum, mut rest, mut runs) = (Form::number(0), mask & ones(bits), 0);
    while rest != 0 {
        let start = rest.trailing_zeros();
        let length = (rest >> start).trailing_ones();
        rest &= !(ones(length) << start);
        let end = start + length;
        // Behind the last bit every number for the value is as good.
        let upper = if end >= bits { form.clone() } else { low(machine, form, end)? };
        sum = sum.add(&upper)?;
        if start > 0 {
            sum = sum.sub(&low(machine, form, start)?)?;
        }
        runs += 1;
        if runs > RUNS {
            return None;
        }
    }
    Some(sum)
}

/// The bits that both values have, if they are equal, one is a constant, or they cannot have a bit in common.
fn common(machine: &mut Machine<'_>, a: &Form, b: &Form, bits: u32) -> Option<Form> {
    if a == b {
        return Some(a.clone());
    }
    for (form, other) in [(a, b), (b, a)] {
        if let Some(mask) = other.known() {
            return masked(machine, form, (mask as u64) & ones(bits), bits);
        }
    }
    for (form, other) in [(a, b), (b, a)] {
        let small = machine.world.number(other, bits, false);
        if let Some((0.., most)) = machine.world.range(&small) {
            let width = 128 - most.leading_zeros();
            if form.is_multiple_of(1 << width.min(64)) {
                return Some(Form::number(0));
            }
        }
    }
    by_mask(machine, a, b, bits)
}

/// `form & mask` where the mask is one number for groups of threads: one form for each of a few masks.
fn by_mask(machine: &mut Machine<'_>, a: &Form, b: &Form, bits: u32) -> Option<Form> {
    let (form, masks) = if let Some(Coef::Each(masks)) = b.constant() {
        (a, masks)
    } else {
        (
            b,
            match a.constant()? {
                Coef::Each(masks) => masks,
                Coef::One(_) => return None,
            },
        )
    };
    let mut known: Vec<i128> = masks.to_vec();
    known.sort_small();
    known.dedup();
    if known.len() > RUNS {
        return None;
    }
    let mut sum = Form::number(0);
    for mask in known {
        let part = masked(machine, form, (mask as u64) & ones(bits), bits)?;
        let which: Vec<bool> = masks.iter().map(|own| *own == mask).collect();
        sum = sum.add(&Form::select(&which, &part, &Form::number(0))?)?;
    }
    Some(sum)
}

/// Values of predicates, if these are some.
fn truths(args: &Args<'_>) -> Option<(Cond, Cond)> {
    match (args.values.first()?, args.values.get(1)?) {
        (Value::Truth(a), Value::Truth(b)) => Some((a.clone(), b.clone())),
        _ => None,
    }
}

pub(super) fn and(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    if let Some((a, b)) = truths(args) {
        return Some(Value::Truth(Cond::all([a, b])));
    }
    if let Some(value) = concrete(machine, args, |n| n[0] & n[1]) {
        return Some(value);
    }
    let (a, b) = (args.form(machine, 0)?, args.form(machine, 1)?);
    conjunction(machine, &a, &b, args.bits)
}

fn conjunction(machine: &mut Machine<'_>, a: &Form, b: &Form, bits: u32) -> Option<Value> {
    if let Some(common) = common(machine, a, b, bits) {
        return Some(Value::Bits(common));
    }
    // At most as large as either.
    let (a, b) = (machine.world.number(a, bits, false), machine.world.number(b, bits, false));
    let ((_, x), (_, y)) = (machine.world.range(&a)?, machine.world.range(&b)?);
    let scope = machine.world.scope(&a).max(machine.world.scope(&b));
    Some(Value::Bits(machine.world.unknown((0, x.min(y)), scope)))
}

pub(super) fn or(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    if let Some((a, b)) = truths(args) {
        return Some(Value::Truth(Cond::any([a, b])));
    }
    if let Some(value) = concrete(machine, args, |n| n[0] | n[1]) {
        return Some(value);
    }
    let (a, b) = (args.form(machine, 0)?, args.form(machine, 1)?);
    let found = disjunction(machine, &a, &b, args.bits);
    bits_of(found.or_else(|| bounded_disjunction(machine, [&a, &b], args.bits)))
}

/// A number of which is known that it is no less than either, and no more than their sum: zero where both are.
fn bounded_disjunction(machine: &mut Machine<'_>, both: [&Form; 2], bits: u32) -> Option<Form> {
    let [a, b] = both.map(|form| machine.world.number(form, bits, false));
    let ((low, x), (least, y)) = (machine.world.range(&a)?, machine.world.range(&b)?);
    let most = ((x.max(y) + 1) as u128).next_power_of_two() as i128 - 1;
    let scope = machine.world.scope(&a).max(machine.world.scope(&b));
    let symbol = machine.world.loose((low.max(least), most), scope);
    let found = Form::symbol(symbol);
    let facts = [Cond::le(&a, &found)?, Cond::le(&b, &found)?, Cond::le(&found, &a.add(&b)?)?];
    machine.world.assume(symbol, Cond::all(facts));
    Some(found)
}

fn disjunction(machine: &mut Machine<'_>, a: &Form, b: &Form, bits: u32) -> Option<Form> {
    let common = common(machine, a, b, bits)?;
    a.add(b)?.sub(&common)
}

pub(super) fn xor(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    if let Some((a, b)) = truths(args) {
        return Some(Value::Truth(a.choose(b.negate(), b)));
    }
    if let Some(value) = concrete(machine, args, |n| n[0] ^ n[1]) {
        return Some(value);
    }
    let (a, b) = (args.form(machine, 0)?, args.form(machine, 1)?);
    let common = common(machine, &a, &b, args.bits)?;
    bits_of(a.add(&b)?.sub(&common.scale(2)?))
}

pub(super) fn not(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    if let Some(Value::Truth(cond)) = args.values.first() {
        return Some(Value::Truth(cond.negate()));
    }
    bits_of(args.form(machine, 0)?.scale(-1)?.plus(-1))
}

/// Truth tables that are sums of two steps: of `a`, `b` and `c`.
type Steps = fn(&mut Machine<'_>, [&Form; 3], u32) -> Option<Form>;

const TABLES: [(i128, Steps); 6] = [
    (0xc0, |m, [a, b, _], n| common(m, a, b, n)),
    (0xfc, |m, [a, b, _], n| disjunction(m, a, b, n)),
    (0x3c, |m, [a, b, _], n| {
        let both = common(m, a, b, n)?;
        a.add(b)?.sub(&both.scale(2)?)
    }),
    (0xf8, |m, [a, b, c], n| {
        let both = common(m, b, c, n)?;
        disjunction(m, a, &both, n)
    }),
    (0xea, |m, [a, b, c], n| {
        let both = common(m, a, b, n)?;
        disjunction(m, &both, c, n)
    }),
    (0xfe, |m, [a, b, c], n| {
        let both = disjunction(m, a, b, n)?;
        disjunction(m, &both, c, n)
    }),
];

pub(super) fn lop3(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    if args.values.len() > 4 && args.site.row.operands.len() > 5 {
        return None;
    }
    let table = args.form(machine, 3)?.known()?;
    let logic = |n: &[u64]| {
        (0..8).filter(|row| table >> row & 1 == 1).fold(0, |found, row| {
            let pick = |value: u64, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
            found | pick(n[0], 2) & pick(n[1], 1) & pick(n[2], 0)
        }) & ones(args.bits)
    };
    if let Some(value) = concrete(machine, args, logic) {
        return Some(value);
    }
    let [a, b, c] = [args.form(machine, 0)?, args.form(machine, 1)?, args.form(machine, 2)?];
    let steps = TABLES.iter().find(|(own, _)| *own == table & 0xff)?.1;
    bits_of(steps(machine, [&a, &b, &c], args.bits))
}

pub(super) fn shl(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let n = u64::from(args.bits);
    let shift = move |v: &[u64]| if v[1] < n { v[0] << v[1] & ones(n as u32) } else { 0 };
    if let Some(value) = concrete(machine, args, shift) {
        return Some(value);
    }
    let by = args.number_of(machine, 1, (32, false))?;
    let factor = |by: i128| if by < i128::from(args.bits) { 1i128 << by } else { 0 };
    let factor = Form { terms: Vec::new(), constant: by.constant()?.map(factor) };
    bits_of(args.form(machine, 0)?.mul(&factor))
}

pub(super) fn shr(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let (n, signed) = (args.bits, args.signed);
    let shift = move |v: &[u64]| match signed {
        true => ((v[0] << (64 - n)) as i64 >> (64 - n) >> v[1].min(u64::from(n) - 1)) as u64 & ones(n),
        false if v[1] < u64::from(n) => v[0] >> v[1],
        false => 0,
    };
    if let Some(value) = concrete(machine, args, shift) {
        return Some(value);
    }
    let by = args.number_of(machine, 1, (32, false))?.known()?;
    let number = args.number(machine, 0)?;
    let by = if signed { by.min(i128::from(n) - 1) } else { by };
    if by >= i128::from(n) {
        return Some(Value::Bits(Form::number(0)));
    }
    bits_of(machine.world.floor(&number, 1 << by).map(|(quotient, _)| quotient))
}

/// The two words of a funnel shift as one number, and its distance.
fn funnel(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<(Form, u32)> {
    let by = args.number_of(machine, 2, (32, false))?.known()?;
    let by = if args.site.is("clamp") { by.min(32) } else { by % 32 };
    let (low, high) = (args.number_of(machine, 0, (32, false))?, args.number_of(machine, 1, (32, false))?);
    Some((high.scale(1 << 32)?.add(&low)?, by as u32))
}

pub(super) fn funnel_left(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let (wide, by) = funnel(machine, args)?;
    bits_of(machine.world.floor(&wide.scale(1 << by)?, 1 << 32).map(|(quotient, _)| quotient))
}

pub(super) fn funnel_right(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let (wide, by) = funnel(machine, args)?;
    bits_of(machine.world.floor(&wide, 1 << by).map(|(quotient, _)| quotient))
}

/// A position or length of a field.
fn bound(machine: &mut Machine<'_>, args: &Args<'_>, at: usize) -> Option<u32> {
    let value = args.number_of(machine, at, (32, false))?.known()?;
    u32::try_from(if args.bits == 64 { value.min(0xff) } else { value & 0xff }).ok()
}

pub(super) fn bfe(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let (position, length) = (bound(machine, args, 1)?, bound(machine, args, 2)?);
    if length == 0 {
        return Some(Value::Bits(Form::number(0)));
    }
    if position + length > args.bits {
        return None;
    }
    let form = args.form(machine, 0)?;
    let field = low(machine, &form, position + length)?;
    let (field, _) = machine.world.floor(&field, 1 << position)?;
    match args.signed {
        true => Some(Value::Bits(machine.world.number(&field, length, true))),
        false => Some(Value::Bits(field)),
    }
}

pub(super) fn bfi(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let (position, length) = (bound(machine, args, 2)?, bound(machine, args, 3)?);
    if position + length > args.bits {
        return None;
    }
    let (field, into) = (args.form(machine, 0)?, args.form(machine, 1)?);
    let field = low(machine, &field, length)?;
    let old = masked(machine, &into, ones(length) << position.min(63), args.bits)?;
    bits_of(into.sub(&old)?.add(&field.scale(1 << position)?))
}

pub(super) fn prmt(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    const MODES: [&str; 6] = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];
    if MODES.iter().any(|mode| args.site.is(mode)) {
        return None;
    }
    let selector = args.number_of(machine, 2, (32, false))?.known()?;
    let words = [args.form(machine, 0)?, args.form(machine, 1)?];
    let mut sum = Form::number(0);
    for byte in 0..4 {
        let choice = selector >> (4 * byte) & 15;
        if choice & 8 != 0 {
            return None;
        }
        let (word, at) = (&words[(choice as usize & 7) / 4], choice as u32 & 3);
        let field = low(machine, word, 8 * at + 8)?;
        let (field, _) = machine.world.floor(&field, 1 << (8 * at))?;
        sum = sum.add(&field.scale(1 << (8 * byte))?)?;
    }
    Some(Value::Bits(sum))
}

/// A count of bits.
fn count(machine: &mut Machine<'_>, args: &Args<'_>, f: impl Fn(u64, u32) -> u64) -> Option<Value> {
    let bits = args.bits;
    if let Some(value) = concrete(machine, args, |n| f(n[0], bits)) {
        return Some(value);
    }
    let scope = args.form(machine, 0).map_or(Scope::Thread, |of| machine.world.scope(&of));
    Some(Value::Bits(machine.world.unknown((0, bits.into()), scope)))
}

pub(super) fn popc(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    count(machine, args, |n, _| n.count_ones().into())
}

pub(super) fn clz(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    count(machine, args, |n, bits| u64::from(n.leading_zeros()) + u64::from(bits) - 64)
}

pub(super) fn brev(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    let bits = args.bits;
    concrete(machine, args, |n| n[0].reverse_bits() >> (64 - bits))
}

pub(super) fn bfind(machine: &mut Machine<'_>, args: &Args<'_>) -> Option<Value> {
    if args.signed || args.site.is("shiftamt") {
        return None;
    }
    concrete(machine, args, |n| if n[0] == 0 { ones(32) } else { 63 - u64::from(n[0].leading_zeros()) })
}
