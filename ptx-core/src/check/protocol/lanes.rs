//! Variation of values between the threads of a group: a warp, or a warpgroup. Control flow is `diverge.rs`.
//!
//! A value counts as differing only where that is certain, or where only a number from outside could make it equal
//! after all. Everything else is [`Value::Unknown`], about which nobody complains.

use super::defs::Defs;
use crate::check::access;
use crate::ir::{Base, Function, Inst, Operand, RegId};
use crate::isa::{Access, OperandKind, SpecialRegister};

/// log2 of the threads of a warp.
pub(super) const WARP: u32 = 5;
/// Passes over the function before giving up.
const MOST_PASSES: usize = 32;

/// The known variation of a value over the threads of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing was written yet.
    None,
    /// This number in all threads.
    Number(i64),
    /// The same in all threads.
    Same,
    /// `(t >> shift) + offset`, where `t` counts the threads of the block.
    Lanes {
        /// 0 for the thread number itself.
        shift: u32,
        /// The added constant.
        offset: i64,
    },
    /// The thread number and something from outside that is the same in all threads.
    Based,
    /// Differs, in no known order.
    Varies,
    /// Loaded from an address that differs.
    Data,
    /// A predicate that differs; `certain`: whatever comes from outside.
    Parts {
        /// True if no parameter could make it the same for all.
        certain: bool,
    },
    /// Anything.
    Unknown,
}

use Value::{Based, Data, Lanes, Number, Parts, Same, Unknown, Varies};

/// Effect of an instruction on the variation of its sources; the last argument is log2 of the group's size.
type Effect = fn(&Inst, &[Value], u32) -> Value;

/// The instructions that do more than give the same result for the same sources.
const EFFECTS: &[(&str, Effect)] = &[
    ("mov", copy),
    ("cvt", copy),
    ("cvta", copy),
    ("cvta.to", copy),
    ("not", copy),
    ("add", sum),
    ("sub", difference),
    ("mul.lo", product),
    ("mul.wide", product),
    ("mul24.lo", product),
    ("shl", product),
    ("mad.lo", product_and_sum),
    ("mad.wide", product_and_sum),
    ("shr", shifted_right),
    ("div", divided),
    ("and", masked),
    ("rem", remainder),
    ("or", either),
    ("xor", swapped),
    ("setp", compared),
    ("ld", loaded),
    ("ld.global.nc", loaded),
    ("elect", elected),
    ("vote", agreed),
    ("bar.red", reduced),
    ("barrier.red", reduced),
    ("bar.cta.red", reduced),
    ("barrier.cta.red", reduced),
    ("redux", agreed),
    ("shfl", shuffled),
];

/// Special registers that count the threads of a block of one dimension, or of rows of whole warps.
const COUNTERS: &[&str] = &["%tid", "%laneid"];
/// Special registers that differ inside of a group, or may.
const UNSTEADY: &[&str] =
    &["%warpid", "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"];
const MASKS: &str = "%lanemask";

/// The values of all registers of a function.
pub(super) struct Values {
    of: Vec<Value>,
}

impl Values {
    /// Of the predicates that guard instructions, for groups of `1 << log` threads.
    pub(super) fn new(function: &Function, defs: &Defs, log: u32) -> Values {
        let ids = (0..).take(function.registers.len()).map(RegId);
        let start = |reg| if defs.outside(reg) { Unknown } else { Value::None };
        let mut values = Values { of: ids.map(start).collect() };
        let guards = function.insts.iter().filter_map(|i| i.guard).map(|g| g.register).collect();
        let slice = defs.slice(function, guards, |inst| !matches!(rule(inst), Rule::Unknown));
        let insts: Vec<(&Inst, Rule)> =
            slice.iter().filter_map(|at| function.insts.get(*at)).map(|i| (i, rule(i))).collect();
        let group = Group { log, rows: rows(function, log) };
        for _ in 0..MOST_PASSES {
            let step = |changed, (inst, rule): &(&Inst, Rule)| values.apply(inst, *rule, group) | changed;
            if !insts.iter().fold(false, step) {
                return values;
            }
        }
        Values { of: vec![Unknown; function.registers.len()] }
    }

    /// The value of a register.
    pub(super) fn register(&self, reg: RegId) -> Value {
        self.of.get(reg.index()).copied().unwrap_or(Unknown)
    }

    fn apply(&mut self, inst: &Inst, rule: Rule, group: Group) -> bool {
        let value = self.result(inst, rule, group);
        let mut changed = false;
        access::writes(inst, &mut |reg| {
            if let Some(old) = self.of.get_mut(reg.index()) {
                let new = join(*old, value, group.log);
                changed |= new != *old;
                *old = new;
            }
        });
        changed
    }

    fn result(&self, inst: &Inst, rule: Rule, group: Group) -> Value {
        let operands = inst.row.iter().flat_map(|row| row.operands.iter().zip(&inst.operands));
        let read = operands.filter(|(spec, _)| spec.access == Access::Read);
        let mut sources = Vec::with_capacity(4);
        read.for_each(|(_, o)| self.sources(o, group, &mut sources));
        match rule {
            Rule::Unknown => Unknown,
            _ if sources.contains(&Value::None) => Value::None,
            Rule::Pure => pure(&sources),
            Rule::Effect(effect) => effect(inst, &sources, group.log),
        }
    }

    fn sources(&self, operand: &Operand, group: Group, out: &mut Vec<Value>) {
        out.push(match operand {
            Operand::Absent => return,
            Operand::Vector(list) => return list.iter().for_each(|o| self.sources(o, group, out)),
            Operand::Not(inner) => return self.sources(inner, group, out),
            Operand::Reg(reg) | Operand::Memory { base: Base::Reg(reg), .. } => self.register(*reg),
            Operand::Memory { base: Base::Element(_), .. } => Unknown,
            Operand::Int(value) => Number(value.cast_signed()),
            Operand::F32(_) | Operand::F64(_) | Operand::Symbol(..) | Operand::Memory { .. } => Same,
            Operand::Special(special) => counted(special, group),
            _ => Unknown,
        });
    }
}

/// Which threads are compared.
#[derive(Clone, Copy)]
struct Group {
    /// log2 of their number.
    log: u32,
    /// The rows of threads of a block, as far as the function declares their length.
    rows: Threads,
}

/// The rows of a block's threads.
#[derive(Clone, Copy, PartialEq)]
enum Threads {
    /// There is one, or each has whole groups, or nothing is known.
    Whole,
    /// Several rows of `1 << n` threads make a group.
    Short(u32),
    /// Groups have parts of rows.
    Ragged,
}

/// Rule that derives the result of an instruction from its sources.
#[derive(Clone, Copy)]
enum Rule {
    Effect(Effect),
    /// The same result for the same sources.
    Pure,
    Unknown,
}

fn rule(inst: &Inst) -> Rule {
    let Some(row) = inst.row else { return Rule::Unknown };
    let outside = |kind: &OperandKind| matches!(kind, OperandKind::Memory { .. } | OperandKind::List);
    match EFFECTS.iter().find(|(name, _)| *name == row.name) {
        Some((_, effect)) => Rule::Effect(*effect),
        None if row.operands.iter().any(|o| outside(&o.kind)) => Rule::Unknown,
        None => Rule::Pure,
    }
}

/// The rows of a function's blocks, for groups of `1 << log` threads.
fn rows(function: &Function, log: u32) -> Threads {
    let shape = function.limit("reqntid").map(|l| &l.values);
    let Some(shape) = shape.filter(|v| v.iter().skip(1).any(|n| *n > 1)) else { return Threads::Whole };
    match shape.first().copied().unwrap_or(1) {
        x if x % (1 << log) == 0 => Threads::Whole,
        x if x.is_power_of_two() && shape.get(1).is_some_and(|y| (x * y) % (1 << log) == 0) => {
            Threads::Short(x.trailing_zeros())
        }
        _ => Threads::Ragged,
    }
}

fn counted(special: &SpecialRegister, group: Group) -> Value {
    let Group { log, rows } = group;
    let counter = COUNTERS.contains(&special.name.split('.').next().unwrap_or_default());
    match (special.component, rows) {
        _ if special.name.starts_with(MASKS) => Varies,
        _ if UNSTEADY.contains(&special.name) => Unknown,
        _ if !counter => Same,
        ("x", Threads::Whole) => Lanes { shift: 0, offset: 0 },
        ("x", Threads::Short(_)) => Varies,
        ("y", Threads::Short(long)) => Lanes { shift: long, offset: 0 },
        ("", _) if log == WARP => Lanes { shift: 0, offset: 0 },
        ("", _) if special.name == "%laneid" => Varies,
        ("y" | "z" | "w", Threads::Whole) | ("z" | "w", Threads::Short(_)) => Same,
        _ => Unknown,
    }
}

fn join(a: Value, b: Value, log: u32) -> Value {
    match (a, b) {
        (Value::None, x) | (x, Value::None) => x,
        (a, b) if a == b => a,
        (Number(_) | Same, Number(_) | Same) => Same,
        (Lanes { shift: s, offset: a }, Lanes { shift: t, offset: b }) if s == t && (a - b) % lanes(s, log) == 0 => {
            Lanes { shift: s, offset: a }
        }
        (Lanes { .. } | Based, Lanes { .. } | Based) => Based,
        (Parts { .. }, Parts { .. }) => Parts { certain: false },
        _ => Unknown,
    }
}

/// Number of different values in a group after that shift.
fn lanes(shift: u32, log: u32) -> i64 {
    1 << log.saturating_sub(shift)
}

fn steady(value: Value) -> bool {
    matches!(value, Same | Number(_))
}

fn pure(sources: &[Value]) -> Value {
    if sources.iter().all(|s| steady(*s)) { Same } else { Unknown }
}

fn copy(_: &Inst, sources: &[Value], _: u32) -> Value {
    if let [one] = sources { *one } else { pure(sources) }
}

fn sum(_: &Inst, sources: &[Value], _: u32) -> Value {
    match *sources {
        [a, b] => plus(a, b),
        _ => pure(sources),
    }
}

fn plus(a: Value, b: Value) -> Value {
    match (a, b) {
        (Number(a), Number(b)) => Number(a.wrapping_add(b)),
        (Lanes { shift, offset }, Number(n)) | (Number(n), Lanes { shift, offset }) => {
            Lanes { shift, offset: offset.wrapping_add(n) % (1 << 32) }
        }
        (Lanes { .. } | Based, x) | (x, Lanes { .. } | Based) if steady(x) => Based,
        (other @ (Varies | Data), x) | (x, other @ (Varies | Data)) if steady(x) => other,
        (a, b) => pure(&[a, b]),
    }
}

fn difference(_: &Inst, sources: &[Value], _: u32) -> Value {
    match *sources {
        [a, Number(n)] => plus(a, Number(n.wrapping_neg())),
        [a, b] if steady(b) => plus(a, b),
        [a, Lanes { .. } | Based | Varies] if steady(a) => Varies,
        _ => pure(sources),
    }
}

fn product(_: &Inst, sources: &[Value], _: u32) -> Value {
    match *sources {
        [a, b] => times(a, b),
        _ => pure(sources),
    }
}

fn times(a: Value, b: Value) -> Value {
    match (a, b) {
        (Lanes { .. } | Based | Varies, x) | (x, Lanes { .. } | Based | Varies) if steady(x) && x != Number(0) => {
            Varies
        }
        (Data, x) | (x, Data) if steady(x) => Data,
        (a, b) => pure(&[a, b]),
    }
}

fn product_and_sum(_: &Inst, sources: &[Value], _: u32) -> Value {
    match *sources {
        [a, b, c] => plus(times(a, b), c),
        _ => pure(sources),
    }
}

fn shifted_right(_: &Inst, sources: &[Value], log: u32) -> Value {
    match *sources {
        [a, Number(n)] => u32::try_from(n).map_or(Unknown, |n| right(a, n, log)),
        _ => pure(sources),
    }
}

fn divided(_: &Inst, sources: &[Value], log: u32) -> Value {
    match *sources {
        [a, Number(n)] if n > 0 && n.count_ones() == 1 => right(a, n.trailing_zeros(), log),
        _ => pure(sources),
    }
}

fn right(value: Value, by: u32, log: u32) -> Value {
    match value {
        Lanes { shift, .. } if shift + by.min(64) >= 64 => Same,
        Lanes { shift, offset } if by < 63 && offset % (1 << by) == 0 && shift + by < log => {
            Lanes { shift: shift + by, offset: offset >> by }
        }
        Lanes { shift, offset } if offset % lanes(shift, log) == 0 && shift + by >= log => Same,
        other => pure(&[other]),
    }
}

fn masked(_: &Inst, sources: &[Value], log: u32) -> Value {
    match *sources {
        [a, Number(mask)] | [Number(mask), a] => low(a, mask, log),
        [Parts { certain }, other] | [other, Parts { certain }] => {
            Parts { certain: certain && matches!(other, Parts { certain: true } | Same | Number(_)) }
        }
        _ => pure(sources),
    }
}

fn remainder(_: &Inst, sources: &[Value], log: u32) -> Value {
    match *sources {
        [a, Number(n)] if n > 0 && n.count_ones() == 1 => low(a, n - 1, log),
        _ => pure(sources),
    }
}

/// The bits of `mask`.
fn low(value: Value, mask: i64, log: u32) -> Value {
    match value {
        Lanes { shift, offset } => {
            let most = lanes(shift, log) - 1;
            match (mask & most, offset & most) {
                (0, 0) => Same,
                (kept, 0) if kept == most => Lanes { shift, offset: 0 },
                (0, _) => Unknown,
                _ => Varies,
            }
        }
        other => pure(&[other]),
    }
}

fn either(_: &Inst, sources: &[Value], _: u32) -> Value {
    match *sources {
        [Parts { .. }, Parts { .. }] => Parts { certain: false },
        [Parts { certain }, x] | [x, Parts { certain }] if steady(x) => Parts { certain },
        [Lanes { .. } | Based | Varies, x] | [x, Lanes { .. } | Based | Varies] if steady(x) => Varies,
        _ => pure(sources),
    }
}

fn swapped(_: &Inst, sources: &[Value], _: u32) -> Value {
    match *sources {
        [Lanes { .. } | Based | Varies, x] | [x, Lanes { .. } | Based | Varies] if steady(x) => Varies,
        _ => pure(sources),
    }
}

/// Comparisons whose boundary lies in front of the number (`true`) or behind it, when the number stands to the right.
const ORDERED: &[(&str, bool)] = &[
    ("lt", true),
    ("ge", true),
    ("lo", true),
    ("hs", true),
    ("le", false),
    ("gt", false),
    ("ls", false),
    ("hi", false),
];

fn compared(inst: &Inst, sources: &[Value], log: u32) -> Value {
    let (a, b, rest) = match *sources {
        [a, b] => (a, b, Same),
        [a, b, c] => (a, b, c),
        _ => return pure(sources),
    };
    let order = ORDERED.iter().find(|(name, _)| inst.has(name)).map(|(_, before)| *before);
    let here = match (steady(a), steady(b)) {
        (false, true) => against(a, b, order, log),
        (true, false) => against(b, a, order.map(|before| !before), log),
        _ => pure(&[a, b]),
    };
    if steady(rest) { here } else { Unknown }
}

/// A differing value against a steady one; `order` is `None` for equality.
fn against(value: Value, bound: Value, order: Option<bool>, log: u32) -> Value {
    match (value, bound, order) {
        (Lanes { shift, offset }, Number(n), Some(before)) => {
            let boundary = n.wrapping_sub(offset).wrapping_add(i64::from(!before));
            if boundary % lanes(shift, log) == 0 { Same } else { Parts { certain: true } }
        }
        (Lanes { .. } | Varies, Number(_), None) => Parts { certain: true },
        (Lanes { .. } | Based | Varies, _, None) | (Lanes { .. } | Based, _, Some(_)) => Parts { certain: false },
        (Data, ..) => Parts { certain: false },
        _ => Unknown,
    }
}

/// Parameters of an entry are the same for all; a value of global memory varies as its address does.
fn loaded(inst: &Inst, sources: &[Value], _: u32) -> Value {
    let of_param = inst.slots.iter().flatten().any(|m| m.text.starts_with("param"));
    let differs = matches!(sources.first(), Some(Lanes { .. } | Based | Varies));
    match (of_param, differs && inst.has("global")) {
        (true, _) => pure(sources),
        (_, true) => Data,
        _ => Unknown,
    }
}

fn elected(_: &Inst, _: &[Value], _: u32) -> Value {
    Parts { certain: true }
}

/// The same in all threads of a warp. Warps of a larger group have votes of their own, which differ unless the sources are the same for all.
fn agreed(inst: &Inst, sources: &[Value], log: u32) -> Value {
    if log == WARP || sources.iter().all(|s| steady(*s)) {
        return Same;
    }
    if inst.has("pred") { Parts { certain: false } } else { Data }
}

/// The same in all threads that come to one barrier.
fn reduced(_: &Inst, sources: &[Value], log: u32) -> Value {
    if log == WARP || sources.first().is_some_and(|barrier| steady(*barrier)) { Same } else { Unknown }
}

/// `shfl.idx` from one lane gives all of a warp its value, which is already that of the whole warp behind a shift. The values of several warps differ.
fn shuffled(inst: &Inst, sources: &[Value], log: u32) -> Value {
    match *sources {
        [value, from, ..] if inst.has("idx") && steady(from) => match value {
            _ if log == WARP => Same,
            Lanes { shift, .. } if shift >= WARP => value,
            Lanes { .. } | Based => Varies,
            _ => Unknown,
        },
        _ => Unknown,
    }
}
