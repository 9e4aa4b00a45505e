//! Rows as the manual would print them, for help texts and for `docs/language/isa.md`.

mod entry;
mod operands;
mod rule;

pub use entry::{directive, entry, since, special};
pub use operands::operands;
pub use rule::rule;

use super::{Count, OperandKind, OperandSpec, Row, Slot, TypeOf, Value};

/// `add{.sat}.s32 d, a, b;`
pub fn form(row: &Row) -> String {
    let mut text = row.name.to_owned();
    for slot in row.slots {
        let (open, close) = if slot.optional { ("{", "}") } else { ("", "") };
        text.push_str(&format!("{open}.{}{close}", slot.name));
    }
    let operands = list(row, &row.operands);
    if !operands.is_empty() {
        text.push(' ');
        text.push_str(&operands);
    }
    text.push(';');
    text
}

/// `.type = { .u16, .u32 }`, for each slot of a row that is a set; long ones are cut.
pub fn sets(row: &Row, longest: usize) -> Vec<String> {
    let is_set = |slot: &&Slot| slot.members.len() != 1 || slot.members.iter().any(|m| m.text != slot.name);
    let line = |slot: &Slot| {
        let mut members: Vec<String> = slot.members.iter().map(|m| format!(".{}", m.text)).collect();
        if members.len() > longest {
            let last = members.pop().unwrap_or_default();
            members.truncate(longest.saturating_sub(2));
            members.extend(["…".to_owned(), last]);
        }
        format!(".{} = {{ {} }}", slot.name, members.join(", "))
    };
    row.slots.iter().filter(is_set).map(line).collect()
}

fn list(row: &Row, specs: &[OperandSpec]) -> String {
    let mut text = String::new();
    let mut open = 0;
    for (at, spec) in specs.iter().enumerate() {
        if open != 0 && spec.group != open {
            text.push('}');
            open = 0;
        }
        if spec.group != 0 && open == 0 {
            text.push_str(if at == 0 { "{" } else { "{, " });
            open = spec.group;
        } else if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&operand(row, spec));
    }
    if open != 0 {
        text.push('}');
    }
    text
}

fn operand(row: &Row, spec: &OperandSpec) -> String {
    match &spec.kind {
        OperandKind::Memory { rest, .. } if rest.is_empty() => format!("[{}]", spec.name),
        OperandKind::Memory { rest, .. } => format!("[{}, {}]", spec.name, list(row, rest)),
        OperandKind::Pair(a, b) if b.group != 0 => format!("{}{{|{}}}", operand(row, a), operand(row, b)),
        OperandKind::Pair(a, b) => format!("{}|{}", operand(row, a), operand(row, b)),
        OperandKind::Group(specs) => format!("{{{}}}", list(row, specs)),
        OperandKind::List => format!("({})", spec.name),
        OperandKind::Value(value) => vector(row, spec.name, value),
        OperandKind::Label
        | OperandKind::Func
        | OperandKind::Callee
        | OperandKind::Branches
        | OperandKind::Callees
        | OperandKind::Symbol(_) => spec.name.to_owned(),
    }
}

/// `{d × .f32 · 4}`: vectors of a fixed count show it, others the slot it comes from.
fn vector(row: &Row, name: &str, value: &Value) -> String {
    let negation = if value.negatable { "{!}" } else { "" };
    match &value.count {
        None => format!("{negation}{name}"),
        Some(count) => format!("{{{name} × {}}}", elements(row, count, &value.ty)),
    }
}

fn elements(row: &Row, count: &Count, ty: &TypeOf) -> String {
    let slot_name = |at: usize| row.slots.get(at).map_or("", |s| s.name);
    let number = match (count.slot, count.times, count.over) {
        (None, times, over) => (times / over.max(1)).to_string(),
        (Some(at), 1, 1) => format!(".{}", slot_name(at)),
        (Some(at), times, 1) => format!(".{}·{times}", slot_name(at)),
        (Some(at), 1, over) => format!(".{}/{over}", slot_name(at)),
        (Some(at), times, over) => format!(".{}·{times}/{over}", slot_name(at)),
    };
    match ty {
        TypeOf::Fixed(ty) => format!("{number} .{}", ty.name()),
        TypeOf::Slot(at) | TypeOf::Made(_, at) => format!("{number} .{}", slot_name(*at)),
    }
}
