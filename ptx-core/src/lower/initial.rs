//! Initial values of variables: numbers, and addresses of what lasts.

use super::constant::{self, Constant, Float};
use super::module::Context;
use super::names::Entity;
use super::report;
use crate::ir::{Init, Relocation, Space, Symbol};
use crate::isa::{Class, Type};
use crate::syntax::{ExprId, ExprKind, Tree};

/// The bytes of `{1, 2, {3, 4}}`, of a scalar, or of addresses.
pub(super) fn initializer(cx: &mut Context<'_>, ty: Type, vector: u32, dims: &[u64], id: ExprId) -> Init {
    let mut init = Init::default();
    let empty = matches!(&cx.tree.expr(id).kind, ExprKind::Braces(list) if list.is_empty());
    let says_something = !empty || dims.is_empty();
    if says_something && matches!(ty.name(), "f16" | "f16x2") {
        let text = format!("a `.{}` variable takes no initial value; declare it `.b{}`", ty.name(), ty.bits());
        cx.diagnostics.push(report::initial_value(text, cx.tree.span(&cx.tree.expr(id).tokens)));
    } else if let Err((text, at)) = braces(cx.tree, vector, dims, id) {
        cx.diagnostics.push(report::initial_value(text, cx.tree.span(&cx.tree.expr(at).tokens)));
    }
    element(cx, ty, id, &mut init);
    init
}

/// Checks that braces match the dimensions; returns the fault and its position.
fn braces(tree: &Tree, vector: u32, dims: &[u64], id: ExprId) -> Result<(), (String, ExprId)> {
    let wrong = |text: &str| Err((text.to_owned(), id));
    match (&tree.expr(id).kind, dims) {
        (ExprKind::Braces(list), [room, rest @ ..]) => {
            let list = tree.list(list);
            match list.len() as u64 > *room && *room > 0 {
                true => Err((format!("{} values for {room} elements", list.len()), id)),
                false => list.iter().try_for_each(|e| braces(tree, vector, rest, *e)),
            }
        }
        (ExprKind::Braces(list), []) if vector > 1 => match tree.list(list).len() as u32 == vector {
            true => Ok(()),
            false => Err((format!("a vector of {vector} has {vector} values"), id)),
        },
        (ExprKind::Braces(_), []) => wrong("a variable that is no array has one value, without braces"),
        (_, [_, ..]) => wrong("the values of an array stand in braces"),
        _ if vector > 1 => wrong("the values of a vector stand in braces"),
        _ => Ok(()),
    }
}

fn element(cx: &mut Context<'_>, ty: Type, id: ExprId, init: &mut Init) {
    let tree = cx.tree;
    match &tree.expr(id).kind {
        ExprKind::Braces(list) => tree.list(list).iter().for_each(|e| element(cx, ty, *e, init)),
        _ => {
            let width = usize::try_from(ty.bytes()).unwrap_or(0);
            let at = init.bytes.len();
            let bits = scalar(cx, ty, id, init, at as u64);
            init.bytes.extend(bits.to_le_bytes().into_iter().chain(std::iter::repeat(0)).take(width));
        }
    }
}

fn scalar(cx: &mut Context<'_>, ty: Type, id: ExprId, init: &mut Init, at: u64) -> u64 {
    let tree = cx.tree;
    let span = tree.span(&tree.expr(id).tokens);
    if let Some(constant) = constant::value(tree, id) {
        let (bits, wrong) = match constant {
            Constant::Signed(value) => (value.cast_unsigned(), integer_is_wrong(ty)),
            Constant::Unsigned(value) => (value, integer_is_wrong(ty)),
            Constant::Float(float) => (float_bits(ty, float), float_is_wrong(ty)),
        };
        cx.diagnostics.extend(wrong.map(|what| report::wrong_value(what, ty, span)));
        return bits;
    }
    match relocation(cx, id) {
        Some(found) if !lasts(cx, found.of) => {
            cx.diagnostics.push(report::wrong_value("the address of memory that does not last", ty, span));
        }
        Some(found) if !holds(ty, &found) => cx.diagnostics.push(report::wrong_value("an address", ty, span)),
        Some(found) => init.relocations.push(Relocation { at, width: ty.bits() / 8, ..found }),
        None => cx.diagnostics.push(report::not_constant(span)),
    }
    0
}

/// Returns true if the address is known before a kernel runs: that of a function, of global or of constant memory.
fn lasts(cx: &Context<'_>, of: Symbol) -> bool {
    match of {
        Symbol::Func(_) => true,
        Symbol::Var(var) => {
            let space = cx.module.variables.get(var.index()).map(|v| v.space);
            !matches!(space, Some(Space::Shared | Space::Local | Space::Param))
        }
    }
}

/// ptxas takes a whole address for an unsigned type of 32 or 64 bits, one byte of it for one of 8, too; a function's without
/// an offset.
fn holds(ty: Type, address: &Relocation) -> bool {
    let width = match address.mask {
        Some(mask) => matches!(ty.bits(), 8 | 32 | 64) && (0..8).any(|byte| mask == 0xff << (8 * byte)),
        None => matches!(ty.bits(), 32 | 64),
    };
    let function = matches!(address.of, Symbol::Func(_)) && (address.offset != 0 || address.generic);
    ty.class() == Class::Unsigned && width && !function
}

fn integer_is_wrong(ty: Type) -> Option<&'static str> {
    (ty.class() == Class::Float).then_some("an integer")
}

fn float_is_wrong(ty: Type) -> Option<&'static str> {
    (!matches!(ty.class(), Class::Float | Class::Bits)).then_some("a floating-point number")
}

fn float_bits(ty: Type, float: Float) -> u64 {
    match (float, ty.bits()) {
        (Float::Single(bits), 64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Float::Single(bits), _) => u64::from(bits),
        (Float::Double(bits), 32) => u64::from((f64::from_bits(bits) as f32).to_bits()),
        (Float::Double(bits), _) => bits,
    }
}

/// An address: `x`, `x+4`, `generic(x)+4`, `0xFF(x)`.
fn relocation(cx: &mut Context<'_>, id: ExprId) -> Option<Relocation> {
    let tree = cx.tree;
    match &tree.expr(id).kind {
        ExprKind::Name if tree.expr(id).tokens.len() > 1 => None,
        ExprKind::Name => {
            let token = tree.expr(id).tokens.start;
            let name = tree.source.text(token);
            let own = || cx.declaring.iter().find(|(own, _)| *own == name).map(|(_, var)| Entity::Var(*var));
            let of = match cx.names.find(name, &mut Vec::new()).or_else(own)? {
                Entity::Var(var) => Symbol::Var(var),
                Entity::Func(func) => Symbol::Func(func),
                _ => return None,
            };
            Some(Relocation { at: 0, width: 0, of, offset: 0, generic: false, mask: None })
        }
        // ptxas takes no minus here.
        ExprKind::Binary(op, a, b) if op[0] == b'+' => {
            let delta = constant::integer(tree, *b)?;
            let inner = relocation(cx, *a).filter(|r| r.mask.is_none())?;
            Some(Relocation { offset: inner.offset.wrapping_add(delta), ..inner })
        }
        ExprKind::Apply(name, args) => {
            let [arg] = tree.list(args) else { return None };
            let inner = relocation(cx, *arg)?;
            match tree.source.text(*name) {
                "generic" if inner.offset == 0 => Some(Relocation { generic: true, ..inner }),
                "generic" => None,
                mask => Some(Relocation { mask: Some(crate::parse::integer_value(mask.as_bytes())), ..inner }),
            }
        }
        _ => None,
    }
}
