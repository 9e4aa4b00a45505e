//! Spells rows of the instruction table: kernels with one instruction each.
//!
//! The operands are of the first kind that the row allows; the modifiers vary one slot at a time, so that each member
//! of each set is written at least once.

use ptx_core::isa::{Access, Class, Count, Member, OperandKind, OperandSpec, Row, Shift, SpaceOf, Type, TypeOf, Value};

/// One spelling of a row.
#[derive(Clone, Debug)]
pub struct Instance {
    /// The row.
    pub row: &'static Row,
    /// What stands in its slots.
    pub slots: Vec<Option<&'static Member>>,
    /// The registers, with the type that declares them.
    pub registers: Vec<(&'static str, String)>,
    /// What stands before the instruction: nothing, or a guard.
    pub guard: String,
    /// The opcode and the modifiers, without dots.
    pub mnemonic: Vec<String>,
    /// As written.
    pub operands: Vec<String>,
}

impl Instance {
    /// The declarations and the instruction, on one line.
    pub fn body(&self) -> String {
        let registers: String = self.registers.iter().map(|(ty, name)| format!(".reg .{ty} {name}; ")).collect();
        let (guard, mnemonic, operands) = (&self.guard, self.mnemonic.join("."), self.operands.join(", "));
        format!(".shared .align 128 .b8 s[1024]; {registers}L: {guard}{mnemonic} {operands};")
    }
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
    let mut writer = Writer { slots, optional, registers: Vec::new(), used: 0 };
    let operands: Option<Vec<String>> =
        row.operands.iter().filter(|o| optional || o.group == 0).map(|o| writer.operand(o)).collect();
    let modifiers = slots.iter().flatten().map(|m| m.text);
    let mnemonic = row.name.split('.').chain(modifiers).map(str::to_owned).collect();
    let (operands, registers) = (operands?, writer.registers);
    Some(Instance { row, slots: slots.to_vec(), registers, guard: String::new(), mnemonic, operands })
}

struct Writer<'a> {
    slots: &'a [Option<&'static Member>],
    optional: bool,
    registers: Vec<(&'static str, String)>,
    used: usize,
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
            OperandKind::Symbol(_) => Some("s".to_owned()),
            OperandKind::Func | OperandKind::List | OperandKind::Targets => None,
        }
    }

    fn list(&mut self, specs: &[OperandSpec]) -> Option<String> {
        let chosen = specs.iter().filter(|s| s.group == 0 || self.optional && !sampler(s)).collect::<Vec<_>>();
        let words: Option<Vec<String>> = chosen.into_iter().map(|s| self.operand(s)).collect();
        Some(words?.join(", "))
    }

    fn memory(&mut self, space: &SpaceOf, rest: &[OperandSpec]) -> Option<String> {
        let address = match space {
            SpaceOf::Register(ty) => self.register(ty.info().registers.first()?),
            _ => self.register("b64"),
        };
        let rest = self.list(rest)?;
        Some(if rest.is_empty() { format!("[{address}]") } else { format!("[{address}, {rest}]") })
    }

    fn value(&mut self, value: &Value, access: Access) -> Option<String> {
        let ty = self.type_of(&value.ty)?;
        let Some(count) = &value.count else { return self.scalar(value, ty, access) };
        let number = self.number(count);
        let words: Option<Vec<String>> = (0..number).map(|_| self.scalar(value, ty, access)).collect();
        let words = words?.join(", ");
        Some(if number == 1 && !count.braces { words } else { format!("{{{words}}}") })
    }

    fn scalar(&mut self, value: &Value, ty: Type, access: Access) -> Option<String> {
        if !value.register || (access == Access::Read && ty.info().registers.is_empty()) {
            return Some(value.range.map_or(0, |r| r.lo).to_string());
        }
        ty.info().registers.first().map(|class| self.register(class))
    }

    fn register(&mut self, class: &'static str) -> String {
        let name = format!("%r{}", self.used);
        self.used += 1;
        self.registers.push((class, name.clone()));
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
