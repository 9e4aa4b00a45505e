//! The operands of a row in words: `d: register of `.type`, written`.

use crate::isa::typed::Shift;
use crate::isa::{Access, Class, OperandKind, OperandSpec, Row, SpaceOf, Type, TypeOf, Value};

/// The operands of a row with what each may be; neighbors that may be the same share a piece.
pub fn operands(row: &Row) -> String {
    let mut pieces: Vec<(Vec<&str>, String)> = Vec::new();
    for operand in &row.operands {
        operand.each(&mut |operand| {
            let Some(words) = words(row, operand) else { return };
            match pieces.last_mut().filter(|(_, last)| *last == words) {
                Some((names, _)) => names.push(operand.name),
                None => pieces.push((vec![operand.name], words)),
            }
        });
    }
    pieces.iter().map(|(names, words)| format!("{}: {words}", names.join(", "))).collect::<Vec<_>>().join("; ")
}

/// Meaning of one operand; `None` for one that consists of others.
fn words(row: &Row, operand: &OperandSpec) -> Option<String> {
    let text = match &operand.kind {
        OperandKind::Pair(..) | OperandKind::Group(_) => return None,
        OperandKind::Value(value) => self::value(row, value),
        OperandKind::Memory { space, .. } => match space {
            SpaceOf::Register(ty) if ty.class() == Class::Opaque => handle(*ty),
            SpaceOf::Register(ty) => format!("address in tensor memory, in a register of .{}", ty.name()),
            space => format!("address{}", place(row, space)),
        },
        OperandKind::Symbol(space) => format!("name of a variable{}", place(row, space)),
        OperandKind::Label => "label".to_owned(),
        OperandKind::Func => "name of a function".to_owned(),
        OperandKind::Callee => "register with the address of a function".to_owned(),
        OperandKind::List => "list in parentheses".to_owned(),
        OperandKind::Branches => "label of .branchtargets".to_owned(),
        OperandKind::Callees => "label of .calltargets or .callprototype".to_owned(),
    };
    Some(match operand.access {
        Access::Read => text,
        Access::Write => text + ", written",
        Access::ReadWrite => text + ", read and written",
    })
}

fn value(row: &Row, value: &Value) -> String {
    if let TypeOf::Fixed(ty) = &value.ty
        && ty.class() == Class::Opaque
    {
        return handle(*ty);
    }
    let what = match (value.register, value.literal) {
        (true, true) => "register or literal",
        (false, true) => "literal",
        _ => "register",
    };
    let several = value.count.as_ref().is_some_and(|count| !count.is_one());
    let mut text = format!("{}{what} of {}", if several { "vector, each element a " } else { "" }, ty(row, &value.ty));
    let more =
        [(value.wider, " or a wider type"), (value.special, ", or a special register"), (value.sink, ", or `_`")];
    more.iter().filter(|(is, _)| *is).for_each(|(_, words)| text.push_str(words));
    if let Some(range) = value.range {
        text.push_str(&format!(" (literals: {range})"));
    }
    if let Some(first) = value.selectors.first() {
        text.push_str(&format!(", perhaps with a selector such as .{}", first.text));
    }
    text
}

fn handle(ty: Type) -> String {
    format!("variable of .{}, or register with its handle", ty.name())
}

fn ty(row: &Row, ty: &TypeOf) -> String {
    let slot = |at: usize| row.slots.get(at).map_or("", |slot| slot.name);
    match ty {
        TypeOf::Fixed(ty) => format!(".{}", ty.name()),
        TypeOf::Slot(at) => format!(".{}", slot(*at)),
        TypeOf::Made(shift, at) => {
            let how = match shift {
                Shift::Wide => "twice the width",
                Shift::Bits => "untyped bits of the width",
                Shift::Signed => "signed integers of the width",
                Shift::Unsigned => "unsigned integers of the width",
            };
            format!("{how} of .{}", slot(*at))
        }
    }
}

fn place(row: &Row, space: &SpaceOf) -> String {
    match space {
        SpaceOf::Fixed(names) => format!(" in .{}", names.join(" or .")),
        SpaceOf::Slot(at, _) => format!(" in .{}", row.slots.get(*at).map_or("", |slot| slot.name)),
        SpaceOf::Generic | SpaceOf::Register(_) => String::new(),
    }
}
