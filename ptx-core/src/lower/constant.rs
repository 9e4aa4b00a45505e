//! Constant expressions (manual 4.5.4): integers and floats of 64 bits.

use crate::syntax::{ExprId, ExprKind, Tree};
use std::cmp::Ordering;

/// Value of a constant expression. The rules are ptxas's: where they differ from the manual (`?:` converts nothing,
/// and takes no floats; `%` is unsigned), ptxas is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// `.s64`
    Signed(i64),
    /// `.u64`
    Unsigned(u64),
    /// `.f64`, or a literal of 32 bits.
    Float(Float),
}

/// The value of a constant expression; `None` if it is none.
pub fn value(tree: &Tree, id: ExprId) -> Option<Constant> {
    use Constant::{Float, Signed, Unsigned};
    match &tree.expr(id).kind {
        ExprKind::Int(value) => Some(literal(tree, id, *value)),
        ExprKind::Float => float(&tree.compact(&tree.expr(id).tokens)).map(Float),
        ExprKind::Name => is_warp_size(tree, id).then_some(Signed(32)),
        // A sign stands before no `0f3F800000`, but before one in parentheses.
        ExprKind::Unary(_, x) if is_single(tree, *x) => None,
        ExprKind::Unary(op, x) => unary(*op, value(tree, *x)?),
        ExprKind::Binary(_, a, b) if is_single(tree, *a) || is_single(tree, *b) => None,
        ExprKind::Binary(op, a, b) => binary(*op, value(tree, *a)?, value(tree, *b)?),
        ExprKind::Ternary(c, a, b) => {
            let (a, b) = (value(tree, *a)?, value(tree, *b)?);
            let both = a.integer().and(b.integer());
            let chosen = if integer(tree, *c)? == 0 { b } else { a };
            both.map(|_| chosen)
        }
        ExprKind::Cast(ty, x) => match tree.source.text(*ty) {
            ".s64" => integer(tree, *x).map(Signed),
            ".u64" => integer(tree, *x).map(|v| Unsigned(v.cast_unsigned())),
            _ => None,
        },
        ExprKind::Group(list) => match tree.list(list) {
            [only] => value(tree, *only),
            _ => None,
        },
        _ => None,
    }
}

/// The bits of an integer constant expression; `None` if it is none.
pub fn integer(tree: &Tree, id: ExprId) -> Option<i64> {
    value(tree, id)?.integer()
}

impl Constant {
    fn integer(self) -> Option<i64> {
        match self {
            Constant::Signed(value) => Some(value),
            Constant::Unsigned(value) => Some(value.cast_signed()),
            Constant::Float(_) => None,
        }
    }
}

/// The one name that is a number.
pub(super) fn is_warp_size(tree: &Tree, id: ExprId) -> bool {
    let tokens = &tree.expr(id).tokens;
    tokens.len() == 1 && tree.source.text(tokens.start) == "WARP_SZ"
}

fn is_single(tree: &Tree, id: ExprId) -> bool {
    let expr = tree.expr(id);
    matches!(expr.kind, ExprKind::Float) && matches!(float(&tree.compact(&expr.tokens)), Some(Float::Single(_)))
}

/// Signed, if it can be, and has no `U`.
fn literal(tree: &Tree, id: ExprId, value: u64) -> Constant {
    let unsigned = tree.source.text(tree.expr(id).tokens.start).ends_with('U');
    match i64::try_from(value) {
        Ok(value) if !unsigned => Constant::Signed(value),
        _ => Constant::Unsigned(value),
    }
}

/// Bits as the usual conversions have them: unsigned, if one of the operands is.
fn like(a: Constant, b: Constant, bits: i64) -> Constant {
    match (a, b) {
        (Constant::Signed(_), Constant::Signed(_)) => Constant::Signed(bits),
        _ => Constant::Unsigned(bits.cast_unsigned()),
    }
}

fn unary(op: u8, x: Constant) -> Option<Constant> {
    if let Constant::Float(x) = x {
        let sign = match op {
            b'-' => -1.0,
            b'+' => 1.0,
            _ => return None,
        };
        return Some(Constant::Float(Float::double(sign * x.number())));
    }
    let bits = x.integer()?;
    Some(match op {
        b'-' => like(x, x, bits.wrapping_neg()),
        b'+' => x,
        b'~' => Constant::Unsigned((!bits).cast_unsigned()),
        b'!' => Constant::Signed(i64::from(bits == 0)),
        _ => return None,
    })
}

fn binary(op: [u8; 2], a: Constant, b: Constant) -> Option<Constant> {
    if let (Constant::Float(a), Constant::Float(b)) = (a, b) {
        return floats(op, a.number(), b.number());
    }
    let (x, y) = (a.integer()?, b.integer()?);
    let (ux, uy) = (x.cast_unsigned(), y.cast_unsigned());
    let signed = matches!(like(a, b, 0), Constant::Signed(_));
    let order = if signed { x.cmp(&y) } else { ux.cmp(&uy) };
    if let Some(holds) = logical(op, x != 0, y != 0).or_else(|| compared(op, order)) {
        return Some(Constant::Signed(i64::from(holds)));
    }
    let places = y as u32; // of these, only the lower six bits count
    Some(match &op {
        b"<<" => like(a, a, x.wrapping_shl(places)),
        b">>" if matches!(a, Constant::Signed(_)) => Constant::Signed(x.wrapping_shr(places)),
        b">>" => Constant::Unsigned(ux.wrapping_shr(places)),
        b"%\0" => Constant::Unsigned(ux.checked_rem(uy)?),
        b"/\0" if !signed => Constant::Unsigned(ux.checked_div(uy)?),
        b"/\0" => Constant::Signed(x.checked_div(y)?),
        _ => like(a, b, bitwise(op, x, y)?),
    })
}

fn bitwise(op: [u8; 2], x: i64, y: i64) -> Option<i64> {
    Some(match &op {
        b"+\0" => x.wrapping_add(y),
        b"-\0" => x.wrapping_sub(y),
        b"*\0" => x.wrapping_mul(y),
        b"&\0" => x & y,
        b"|\0" => x | y,
        b"^\0" => x ^ y,
        _ => return None,
    })
}

fn logical(op: [u8; 2], x: bool, y: bool) -> Option<bool> {
    match &op {
        b"&&" => Some(x && y),
        b"||" => Some(x || y),
        _ => None,
    }
}

fn compared(op: [u8; 2], order: Ordering) -> Option<bool> {
    Some(match &op {
        b"==" => order.is_eq(),
        b"!=" => order.is_ne(),
        b"<=" => order.is_le(),
        b">=" => order.is_ge(),
        b"<\0" => order.is_lt(),
        b">\0" => order.is_gt(),
        _ => return None,
    })
}

fn floats(op: [u8; 2], x: f64, y: f64) -> Option<Constant> {
    let number = match &op {
        b"+\0" => x + y,
        b"-\0" => x - y,
        b"*\0" => x * y,
        b"/\0" if y != 0.0 => x / y,
        _ => return x.partial_cmp(&y).and_then(|o| compared(op, o)).map(|holds| Constant::Signed(i64::from(holds))),
    };
    Some(Constant::Float(Float::double(number)))
}

/// A float literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Float {
    /// `0f3F800000`: single-precision bits.
    Single(u32),
    /// `1.5`, `0d3FF8000000000000`: double-precision bits.
    Double(u64),
}

/// Reads a float literal.
pub(crate) fn float(text: &str) -> Option<Float> {
    if let Some(hex) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F")) {
        return u32::from_str_radix(hex, 16).ok().map(Float::Single);
    }
    if let Some(hex) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0D")) {
        return u64::from_str_radix(hex, 16).ok().map(Float::Double);
    }
    text.parse::<f64>().ok().map(|f| Float::Double(f.to_bits()))
}

impl Float {
    fn double(number: f64) -> Float {
        Float::Double(number.to_bits())
    }

    fn number(self) -> f64 {
        match self {
            Float::Single(bits) => f64::from(f32::from_bits(bits)),
            Float::Double(bits) => f64::from_bits(bits),
        }
    }
}
