//! Sample instructions made from the rows of the table, to ask which forms the engine decodes.
//!
//! `cargo test -p ptx-tests --test interp forms -- --nocapture` prints the rows without semantics.

use crate::harness::one_in;
use ptx_core::check::check;
use ptx_core::isa::{Access, Count, Member, OperandKind, OperandSpec, Row, Shift, Slot, Type, TypeOf, Value, table};
use ptx_core::lower;
use ptx_core::parse::parse_text;
use ptx_interp::Program;
use std::collections::BTreeMap;

/// Member in each slot.
pub(crate) type Choice = Vec<Option<&'static Member>>;

const TARGETS: [&str; 5] = ["sm_100a", "sm_90a", "sm_120a", "sm_107a", "sm_80"];
const MOST_CHOICES: usize = 600;

/// Spelling of read-only operands: registers, unless this names another.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spelling {
    /// Which of them (counted from 0) is a literal.
    pub literal: Option<usize>,
    /// True if `!` or `-` stands before those that take it.
    pub negated: bool,
    /// True if registers are wider than what they hold, where they may be.
    pub wider: bool,
    /// Source of literals, and of numbers that have to be literals; 0 takes the least.
    pub state: u64,
}

/// A pseudo-random word (xorshift*).
pub(crate) fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// A literal of a type; those of numbers near the ends of its range are as likely as small ones.
fn literal(ty: Type, state: &mut u64) -> String {
    let (r, pick) = (random(state), random(state) >> 16);
    let bits = ty.bits().min(64);
    match ty.name() {
        "f32" => format!("0f{:08X}", crate::inputs::word(pick as usize, state) as u32),
        "f64" => format!("0d{:016X}", crate::inputs::word(pick as usize, state)),
        "pred" => (r & 1).to_string(),
        name => {
            let value = (if pick & 1 == 0 { r >> (pick >> 1 & 63) } else { crate::inputs::word(pick as usize, state) })
                << (64 - bits)
                >> (64 - bits);
            match pick >> 8 & 3 {
                0 if name.starts_with('s') => (((value << (64 - bits)) as i64) >> (64 - bits)).to_string(),
                1 => value.to_string(),
                _ => format!("{value:#x}"),
            }
        }
    }
}

/// The choices of members for a row: all of them where there are no more than `most`, else each member once.
pub(crate) fn choices(row: &'static Row, most: usize) -> Vec<Choice> {
    let options = |slot: &'static Slot| -> Vec<Option<&'static Member>> {
        let absent = slot.optional.then_some(None);
        absent.into_iter().chain(slot.members.iter().map(Some)).collect()
    };
    let slots: Vec<_> = row.slots.iter().map(options).collect();
    if slots.iter().map(Vec::len).product::<usize>() <= most {
        return slots.iter().fold(vec![Vec::new()], |all, slot| {
            all.iter().flat_map(|c| slot.iter().map(|m| [c.as_slice(), &[*m]].concat())).collect()
        });
    }
    let first: Choice = slots.iter().map(|s| s[0]).collect();
    let vary = |at: usize| slots[at].iter().map(move |m| (at, *m));
    let singles = (0..slots.len()).flat_map(vary);
    singles.map(|(at, m)| first.iter().enumerate().map(|(i, f)| if i == at { m } else { *f }).collect()).collect()
}

/// An instruction and the registers it needs.
pub(crate) struct Sample {
    choice: Choice,
    registers: BTreeMap<String, u32>,
    /// Every register with its class, in order, and whether the instruction writes it.
    pub(crate) used: Vec<(String, &'static str, bool)>,
    writes: bool,
    spelling: Spelling,
    /// Operands that are only read, so far.
    reads: usize,
}

impl Sample {
    pub(crate) fn new(choice: &Choice) -> Sample {
        Sample::spelled(choice, Spelling::default())
    }

    pub(crate) fn spelled(choice: &Choice, spelling: Spelling) -> Sample {
        let (registers, used) = (BTreeMap::new(), Vec::new());
        Sample { choice: choice.clone(), registers, used, writes: false, spelling, reads: 0 }
    }

    /// The instruction's text.
    pub(crate) fn instruction(&mut self, row: &'static Row, groups: bool) -> Option<String> {
        let wanted = row.operands.iter().filter(|o| groups || o.group == 0);
        let operands = wanted.map(|o| self.operand(o)).collect::<Option<Vec<_>>>()?;
        let modifiers: String = self.choice.iter().flatten().map(|m| format!(".{}", m.text)).collect();
        Some(format!("{}{modifiers} {};", row.name, operands.join(", ")))
    }

    /// The declarations of its registers.
    pub(crate) fn declarations(&self) -> String {
        self.registers.iter().map(|(class, n)| format!(".reg .{class} %{class}_<{}>; ", n + 1)).collect()
    }

    fn ty(&self, ty: &TypeOf) -> Option<Type> {
        let slot = |at: usize| self.choice.get(at).copied().flatten().and_then(|m| m.ty);
        match ty {
            TypeOf::Fixed(ty) => Some(*ty),
            TypeOf::Slot(at) => slot(*at),
            TypeOf::Made(shift, at) => {
                let from = slot(*at)?;
                let (class, bits) = match shift {
                    Shift::Wide => (from.name().chars().next()?, 2 * from.bits()),
                    Shift::Bits => ('b', from.bits()),
                    Shift::Signed => ('s', from.bits()),
                    Shift::Unsigned => ('u', from.bits()),
                };
                Type::find(&format!("{class}{bits}"))
            }
        }
    }

    /// A fresh register that may hold a type.
    fn register(&mut self, ty: Type) -> String {
        self.in_class(ty.info().registers.first().copied().unwrap_or("b32"))
    }

    fn in_class(&mut self, class: &'static str) -> String {
        let next = self.registers.entry(class.to_string()).or_default();
        *next += 1;
        let name = format!("%{class}_{next}");
        self.used.push((name.clone(), class, self.writes));
        name
    }

    fn count(&self, count: &Count) -> u32 {
        let number = count.slot.map_or(1, |at| self.choice[at].map_or(1, |m| m.number));
        (number * count.times / count.over).saturating_sub(count.minus)
    }

    fn value(&mut self, value: &Value) -> Option<String> {
        let ty = self.ty(&value.ty)?;
        let Some(count) = &value.count else { return Some(self.scalar(value, ty)) };
        match self.count(count) {
            1 if !count.braces => Some(self.scalar(value, ty)),
            n => Some(format!("{{{}}}", (0..n).map(|_| self.scalar(value, ty)).collect::<Vec<_>>().join(", "))),
        }
    }

    /// A register, or the spelling's operand.
    fn scalar(&mut self, value: &Value, ty: Type) -> String {
        if !value.register {
            return self.number(value);
        }
        if self.spelling.wider && value.wider && ty.name()[1..].parse::<u32>().is_ok() && !ty.name().starts_with('f') {
            return self.in_class(if ty.bits() < 32 { "b32" } else { "b64" });
        }
        if self.writes {
            return self.register(ty);
        }
        self.reads += 1;
        if self.spelling.literal == Some(self.reads - 1) && value.literal {
            return if value.range.is_some() { self.number(value) } else { literal(ty, &mut self.spelling.state) };
        }
        let negated = self.spelling.negated && value.negatable;
        let sign = if !negated {
            ""
        } else if ty.name() == "pred" {
            "!"
        } else {
            "-"
        };
        format!("{sign}{}", self.register(ty))
    }

    /// A number of the range.
    fn number(&mut self, value: &Value) -> String {
        let Some(range) = value.range else { return "0".into() };
        let span = (range.hi - range.lo + 1) as u64;
        let more = if self.spelling.state == 0 { 0 } else { random(&mut self.spelling.state) % span.max(1) };
        (range.lo + more as i64).to_string()
    }

    pub(crate) fn operand(&mut self, spec: &OperandSpec) -> Option<String> {
        self.writes = spec.access != Access::Read;
        match &spec.kind {
            OperandKind::Value(value) => self.value(value),
            OperandKind::Memory { rest, .. } => {
                let rest = rest.iter().filter(|o| o.group == 0).map(|o| self.operand(o)).collect::<Option<Vec<_>>>()?;
                let address = self.register(Type::find("u64")?);
                Some(format!("[{}]", [vec![address], rest].concat().join(", ")))
            }
            OperandKind::Pair(a, b) => Some(format!("{}|{}", self.operand(a)?, self.operand(b)?)),
            OperandKind::Group(all) => {
                let all = all.iter().map(|o| self.operand(o)).collect::<Option<Vec<_>>>()?;
                Some(format!("{{{}}}", all.join(", ")))
            }
            OperandKind::Label => Some("L".into()),
            OperandKind::Func => Some("f".into()),
            OperandKind::List => Some("()".into()),
            OperandKind::Branches | OperandKind::Callees => Some("T".into()),
            OperandKind::Callee => None,
            OperandKind::Symbol(_) => Some("g".into()),
        }
    }
}

/// A module with one instruction of this form, with the optional operands of `groups`.
fn module(row: &'static Row, choice: &Choice, groups: bool, target: &str) -> Option<String> {
    let mut sample = Sample::new(choice);
    let instruction = sample.instruction(row, groups)?;
    Some(format!(
        ".version 9.3\n.target {target}\n.address_size 64\n.global .u32 g;\n.func f() {{ ret; }}\n\
         .entry k() {{ {} T: .branchtargets L; L: {instruction} ret; }}\n",
        sample.declarations()
    ))
}

/// The engine's verdict on a form; `None` if it is not a valid form.
fn decodes(row: &'static Row, choice: &Choice) -> Option<Result<(), String>> {
    for (target, groups) in TARGETS.iter().flat_map(|t| [(t, false), (t, true)]) {
        let text = module(row, choice, groups, target)?;
        let (tree, errors) = parse_text(text.as_bytes());
        let (checked, _) = check(tree, errors, &lower::Options::default());
        if let Some(checked) = checked {
            return Some(Program::new(&checked).map(drop).map_err(|e| e[0].message.clone()));
        }
    }
    None
}

/// The files whose every form must run.
const SCALAR: [&str; 8] =
    ["integer.isa", "float.isa", "half.isa", "compare.isa", "logic.isa", "atomic.isa", "control.isa", "warp.isa"];

#[test]
fn forms_without_semantics() {
    let (mut forms, mut missing) = (BTreeMap::new(), BTreeMap::new());
    for row in table().rows() {
        let results: Vec<_> =
            choices(row, MOST_CHOICES).iter().step_by(one_in(8)).filter_map(|c| decodes(row, c)).collect();
        *forms.entry(row.file).or_insert(0) += results.len();
        for message in results.into_iter().filter_map(Result::err) {
            *missing.entry((row.file, message)).or_insert(0) += 1;
        }
    }
    for (file, total) in &forms {
        let without: usize = missing.iter().filter(|((f, _), _)| f == file).map(|(_, n)| n).sum();
        println!("{file}: {} of {total} sampled forms decode", total - without);
    }
    for ((file, message), count) in &missing {
        println!("{file}: {count} × {message}");
    }
    // No document defines what ptxas makes of a `testp` without a test: the CPU device refuses it rather than guess.
    let unsaid = ["a test that `testp` does not have"];
    let known = |message: &str| unsaid.iter().any(|u| message.contains(u));
    let scalar: Vec<_> = missing.keys().filter(|(file, m)| SCALAR.contains(file) && !known(m)).collect();
    assert!(scalar.is_empty(), "scalar forms that do not decode: {scalar:#?}");
}
