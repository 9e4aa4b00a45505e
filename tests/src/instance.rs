//! Spells rows of the instruction table: kernels with one instruction each.
//!
//! With no random numbers the operands are of the first kind that the row allows; the modifiers vary one slot at a time, so
//! that each member of each set is written at least once. With them an operand is any that the row allows, and the address
//! is any at all.

use crate::instruction::Instruction;
use crate::random::Random;
use crate::spelling;
use ptx_core::isa::{Access, Class, Count, Member, OperandKind, OperandSpec, Row, Shift, SpaceOf, Type, TypeOf, Value};

/// One spelling of a row.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The row.
    pub row: &'static Row,
    /// Members in its slots.
    pub slots: Vec<Option<&'static Member>>,
    /// As written.
    pub instruction: Instruction,
}

/// All spellings of a row that this module can make: none for calls and branches to tables.
pub fn instances(row: &'static Row) -> Vec<Instance> {
    let optional = row.operands.iter().any(|o| o.group != 0);
    let groups: &[bool] = if optional { &[false, true] } else { &[false] };
    let choices = choices(row);
    let all = choices.iter().flat_map(|slots| groups.iter().map(move |g| (slots, *g)));
    all.filter_map(|(slots, optional)| instance(row, slots, optional)).collect()
}

/// The first members (no optional ones), and from there every other member of every slot.
fn choices(row: &'static Row) -> Vec<Vec<Option<&'static Member>>> {
    let first: Vec<_> = row.slots.iter().map(|s| if s.optional { None } else { s.members.first() }).collect();
    let mut all = vec![first.clone()];
    for (at, slot) in row.slots.iter().enumerate() {
        for member in slot.members.iter().skip(usize::from(!slot.optional)) {
            let mut other = first.clone();
            other[at] = Some(member);
            all.push(other);
        }
    }
    all
}

/// The spelling with these members, with all optional operands or none; `None` for calls and branches to tables.
pub fn instance(row: &'static Row, slots: &[Option<&'static Member>], optional: bool) -> Option<Instance> {
    written(row, slots, optional, None)
}

/// A spelling with these members, whose operands are any that the row allows, calls and branches to tables among them.
pub fn any_instance(
    row: &'static Row,
    slots: &[Option<&'static Member>],
    optional: bool,
    random: &mut Random,
) -> Option<Instance> {
    written(row, slots, optional, Some(random))
}

fn written(
    row: &'static Row,
    slots: &[Option<&'static Member>],
    optional: bool,
    random: Option<&mut Random>,
) -> Option<Instance> {
    let mut writer = Writer { slots, optional, random, registers: Vec::new() };
    let operands: Option<Vec<String>> =
        row.operands.iter().filter(|o| optional || o.group == 0).map(|o| writer.operand(o)).collect();
    let modifiers = slots.iter().flatten().map(|m| m.text);
    let mnemonic = row.name.split('.').chain(modifiers).map(str::to_owned).collect();
    let (operands, registers) = (operands?, writer.registers);
    let instruction = Instruction { registers, guard: String::new(), mnemonic, operands };
    Some(Instance { row, slots: slots.to_vec(), instruction })
}

struct Writer<'a> {
    slots: &'a [Option<&'static Member>],
    optional: bool,
    /// Without: the first that the row allows.
    random: Option<&'a mut Random>,
    registers: Vec<(String, String)>,
}

impl Writer<'_> {
    fn operand(&mut self, spec: &OperandSpec) -> Option<String> {
        match &spec.kind {
            OperandKind::Value(value) => self.value(value, spec.access),
            OperandKind::Memory { space, rest, .. } => self.memory(space, rest),
            OperandKind::Pair(a, b) if b.group != 0 && !self.optional => self.operand(a),
            OperandKind::Pair(a, b) => Some(format!("{}|{}", self.operand(a)?, self.operand(b)?)),
            OperandKind::Group(specs) => Some(format!("{{{}}}", self.list(specs)?)),
            OperandKind::Label => Some("L".to_owned()),
            OperandKind::Symbol(_) => Some(self.one_of(&["s", "g", "c", "s+4"])?.to_owned()),
            OperandKind::Func => self.any(&["f", "f1"]).map(str::to_owned),
            OperandKind::Callee if self.random.is_some() => Some(self.register("b64")),
            OperandKind::List => self.arguments(),
            OperandKind::Branches => self.any(&["T"]).map(str::to_owned),
            OperandKind::Callees => self.any(&["C", "P", "P1"]).map(str::to_owned),
            OperandKind::Callee => None,
        }
    }

    fn list(&mut self, specs: &[OperandSpec]) -> Option<String> {
        let chosen = specs.iter().filter(|s| s.group == 0 || self.optional && !sampler(s)).collect::<Vec<_>>();
        let words: Option<Vec<String>> = chosen.into_iter().map(|s| self.operand(s)).collect();
        Some(words?.join(", "))
    }

    fn arguments(&mut self) -> Option<String> {
        let literal = self.any(&["", "", "1"])?;
        let word = if literal.is_empty() { self.register("b32") } else { literal.to_owned() };
        Some(format!("({word})"))
    }

    fn memory(&mut self, space: &SpaceOf, rest: &[OperandSpec]) -> Option<String> {
        let class = match space {
            SpaceOf::Register(ty) => ty.info().registers.first()?,
            _ => self.one_of(&["b64", "b64", "u64", "b32"])?,
        };
        let form = self.one_of(spelling::ADDRESSES)?;
        let address = if form.contains('@') { form.replace('@', &self.register(class)) } else { form.to_owned() };
        let rest = self.list(rest)?;
        Some(if rest.is_empty() { format!("[{address}]") } else { format!("[{address}, {rest}]") })
    }

    fn value(&mut self, value: &Value, access: Access) -> Option<String> {
        let ty = self.type_of(&value.ty)?;
        let Some(count) = &value.count else { return self.scalar(value, ty, access) };
        let number = self.number(count);
        if matches!(number, 2 | 4) && self.once_in(12) {
            return Some(self.register(&format!("v{number} .{}", ty.info().registers.first()?)));
        }
        let words: Option<Vec<String>> = (0..number).map(|_| self.scalar(value, ty, access)).collect();
        let words = words?.join(", ");
        Some(if number == 1 && !count.braces { words } else { format!("{{{words}}}") })
    }

    fn scalar(&mut self, value: &Value, ty: Type, access: Access) -> Option<String> {
        if !value.register || (access == Access::Read && ty.info().registers.is_empty()) {
            let number = value.range.map_or(0, |r| if self.once_in(2) { r.hi } else { r.lo });
            return Some(number.to_string());
        }
        if value.sink && self.once_in(6) {
            return Some("_".to_owned());
        }
        if value.special && self.once_in(4) {
            return self.any(spelling::SPECIAL).map(str::to_owned);
        }
        if value.literal && access == Access::Read && self.once_in(5) {
            return self.any(spelling::LITERALS).map(str::to_owned);
        }
        let class = match value.wider && self.once_in(3) {
            true => self.one_of(spelling::CLASSES)?,
            false => self.one_of(&ty.info().registers)?,
        };
        let register = self.register(class);
        let sign = if value.negatable && self.once_in(3) { self.any(&["!", "-"])? } else { "" };
        let selectors: Vec<&str> = value.selectors.iter().map(|m| m.text).collect();
        let selector = if self.once_in(2) { self.any(&selectors) } else { None };
        Some(format!("{sign}{register}{}", selector.map(|s| format!(".{s}")).unwrap_or_default()))
    }

    /// Any, or the first if nothing is random.
    fn one_of(&mut self, all: &[&'static str]) -> Option<&'static str> {
        match &mut self.random {
            Some(random) => random.pick(all).copied(),
            None => all.first().copied(),
        }
    }

    /// Any, or none if nothing is random.
    fn any<'s>(&mut self, all: &[&'s str]) -> Option<&'s str> {
        self.random.as_mut()?.pick(all).copied()
    }

    fn once_in(&mut self, count: usize) -> bool {
        self.random.as_mut().is_some_and(|r| r.once_in(count))
    }

    fn register(&mut self, class: &str) -> String {
        let name = format!("%r{}", self.registers.len());
        self.registers.push((class.to_owned(), name.clone()));
        name
    }

    fn number(&self, count: &Count) -> u32 {
        let member = count.slot.and_then(|s| self.slots.get(s).copied().flatten());
        (member.map_or(1, |m| m.number) * count.times / count.over).saturating_sub(count.minus)
    }

    fn type_of(&self, ty: &TypeOf) -> Option<Type> {
        let slot = |at: usize| self.slots.get(at).copied().flatten()?.ty;
        match ty {
            TypeOf::Fixed(ty) => Some(*ty),
            TypeOf::Slot(at) => slot(*at),
            TypeOf::Made(shift, at) => made(*shift, slot(*at)?),
        }
    }
}

/// A sampler beside the texture: it needs `.texmode_independent`, which no header here has.
fn sampler(spec: &OperandSpec) -> bool {
    let opaque = |ty: &TypeOf| matches!(ty, TypeOf::Fixed(ty) if ty.class() == Class::Opaque);
    matches!(&spec.kind, OperandKind::Value(value) if opaque(&value.ty))
}

fn made(shift: Shift, ty: Type) -> Option<Type> {
    let class = ty.name().trim_end_matches(|c: char| c.is_ascii_digit());
    let (class, bits) = match shift {
        Shift::Wide => (class, ty.bits() * 2),
        Shift::Bits => ("b", ty.bits()),
        Shift::Signed => ("s", ty.bits()),
        Shift::Unsigned => ("u", ty.bits()),
    };
    Type::find(&format!("{class}{bits}"))
}
