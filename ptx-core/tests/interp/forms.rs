//! Sample instructions made from the rows of the table, to ask which forms the engine decodes.
//!
//! `cargo test -p ptx-core --features interp --test interp forms -- --nocapture` prints the rows without semantics.

use ptx_core::check::check;
use ptx_core::interp::Program;
use ptx_core::isa::{Access, Count, Member, OperandKind, OperandSpec, Row, Shift, Slot, Type, TypeOf, Value, table};
use ptx_core::lower;
use ptx_core::parse::parse_text;
use std::collections::BTreeMap;

/// What stands in each slot.
pub(crate) type Choice = Vec<Option<&'static Member>>;

const TARGETS: [&str; 5] = ["sm_100a", "sm_90a", "sm_120a", "sm_107a", "sm_80"];
const MOST_CHOICES: usize = 600;

/// The choices of members for a row: all of them where they are few, else each member once.
pub(crate) fn choices(row: &'static Row) -> Vec<Choice> {
    let options = |slot: &'static Slot| -> Vec<Option<&'static Member>> {
        let absent = slot.optional.then_some(None);
        absent.into_iter().chain(slot.members.iter().map(Some)).collect()
    };
    let slots: Vec<_> = row.slots.iter().map(options).collect();
    if slots.iter().map(Vec::len).product::<usize>() <= MOST_CHOICES {
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
}

impl Sample {
    pub(crate) fn new(choice: &Choice) -> Sample {
        Sample { choice: choice.clone(), registers: BTreeMap::new(), used: Vec::new(), writes: false }
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
        let class = ty.info().registers.first().copied().unwrap_or("b32");
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
        let one = |s: &mut Sample| match (value.register, value.range) {
            (false, Some(range)) => range.lo.to_string(),
            (false, None) => "0".into(),
            _ => s.register(ty),
        };
        let Some(count) = &value.count else { return Some(one(self)) };
        match self.count(count) {
            1 if !count.braces => Some(one(self)),
            n => Some(format!("{{{}}}", (0..n).map(|_| one(self)).collect::<Vec<_>>().join(", "))),
        }
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

/// Whether the engine decodes a form; `None` if it is no valid form.
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
        let results: Vec<_> = choices(row).iter().filter_map(|c| decodes(row, c)).collect();
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
    // Nothing says what ptxas makes of a `testp` without a test: the CPU device refuses it rather than guess.
    let unsaid = ["a test that `testp` does not have"];
    let known = |message: &str| unsaid.iter().any(|u| message.contains(u));
    let scalar: Vec<_> = missing.keys().filter(|(file, m)| SCALAR.contains(file) && !known(m)).collect();
    assert!(scalar.is_empty(), "scalar forms that do not decode: {scalar:#?}");
}
