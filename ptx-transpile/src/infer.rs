//! The language's output for an expression: the instructions in order, and the type of the value.

use super::body::{Body, Expr, Piece};
use ptx_core::isa::{self, Class, Type};
use ptx_language::{cast, instruction, meet, move_of};

/// The type of an expression, `None` for a literal; the names of its instructions are added.
pub(super) fn lower(body: &Body, expr: &Expr, insts: &mut Vec<String>) -> Option<Option<Type>> {
    let (inst, ty) = match expr {
        Expr::Leaf(piece) => return leaf(body, piece, insts),
        Expr::View(view, a) => {
            let bits = lower(body, a, insts)??.bits();
            return Type::find(&format!("{}{bits}", letter(view))).map(Some);
        }
        Expr::Unary(operator, a) => {
            let ty = lower(body, a, insts)??;
            instruction(operator, 1, ty)?
        }
        Expr::Binary(operator, a, b) => {
            let (left, right) = (lower(body, a, insts)?, lower(body, b, insts)?);
            let untyped = left.is_none_or(|ty| ty.class() == Class::Bits);
            let shift = matches!(*operator, "<<" | ">>");
            let wanted = if shift { Type::find("u32") } else { left };
            if !wanted.zip(right).is_none_or(|(wanted, right)| meet(wanted, right)) {
                return None;
            }
            let ty = if untyped && !shift { right.or(left)? } else { left? };
            let fits = |side: &Expr| !matches!(side, Expr::Leaf(Piece::Int(value)) if !in_range(*value, ty));
            if !(shift || fits(a) && fits(b)) {
                return None;
            }
            instruction(operator, 2, ty)?
        }
        Expr::Cast(a, to) => {
            let (from, to) = (lower(body, a, insts)??, named(to)?);
            (cast(from, to)?.strip_suffix(" {d}, {a}")?.to_owned(), to)
        }
    };
    insts.push(inst);
    Some(Some(ty))
}

fn leaf(body: &Body, piece: &Piece, insts: &mut Vec<String>) -> Option<Option<Type>> {
    match piece {
        Piece::Reg(reg) => named(&body.regs[*reg].ty).map(Some),
        Piece::Element(array, _) => named(&body.regs[*body.arrays[*array].regs.first()?].ty).map(Some),
        Piece::Text(text) => match special(text) {
            Some(ty) => {
                insts.push(move_of(ty)?);
                Some(Some(ty))
            }
            None => Some(None),
        },
        _ => Some(None),
    }
}

/// The type of a special register, by its name without `%`.
pub(super) fn special(text: &str) -> Option<Type> {
    let name = format!("%{text}");
    let specials = &isa::table().specials;
    specials.get(name.as_str()).or_else(|| specials.get(name.split('.').next()?)).map(|special| special.ty)
}

/// The type of this name in the kernel language.
pub(super) fn named(name: &str) -> Option<Type> {
    Type::find(&name.replace('i', "s"))
}

/// The letter of the types that a view gives.
fn letter(view: &str) -> char {
    match view {
        "signed" => 's',
        "unsigned" => 'u',
        _ => 'b',
    }
}

/// Returns true if a type of integers holds a value. Floats are written as their bits, which stays in `ptx!`.
pub(super) fn in_range(value: i64, ty: Type) -> bool {
    let bits = ty.bits();
    match ty.class() {
        Class::Unsigned | Class::Bits => value >= 0 && (bits >= 64 || value < 1 << bits),
        Class::Signed => bits >= 64 || (-(1 << (bits - 1))..1 << (bits - 1)).contains(&value),
        _ => false,
    }
}
