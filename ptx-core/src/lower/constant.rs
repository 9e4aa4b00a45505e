//! Constant expressions (manual 4.5.4): 64-bit integers, and floats as literals.

use crate::syntax::{ExprId, ExprKind, Tree};

/// The value of an integer constant expression; `None` if it is none.
pub(crate) fn integer(tree: &Tree, id: ExprId) -> Option<i64> {
    match &tree.expr(id).kind {
        ExprKind::Int(value) => Some(value.cast_signed()),
        ExprKind::Name => is_warp_size(tree, id).then_some(32),
        ExprKind::Unary(op, x) => unary(*op, integer(tree, *x)?),
        ExprKind::Binary(op, a, b) => binary(*op, integer(tree, *a)?, integer(tree, *b)?),
        ExprKind::Ternary(c, a, b) => integer(tree, if integer(tree, *c)? != 0 { *a } else { *b }),
        ExprKind::Cast(ty, x) if matches!(tree.source.text(*ty), ".s64" | ".u64") => integer(tree, *x),
        ExprKind::Group(list) => match tree.list(list) {
            [only] => integer(tree, *only),
            _ => None,
        },
        _ => None,
    }
}

/// The one name that is a number.
pub(super) fn is_warp_size(tree: &Tree, id: ExprId) -> bool {
    tree.source.text(tree.expr(id).tokens.start) == "WARP_SZ"
}

fn unary(op: u8, x: i64) -> Option<i64> {
    match op {
        b'-' => Some(x.wrapping_neg()),
        b'+' => Some(x),
        b'~' => Some(!x),
        b'!' => Some(i64::from(x == 0)),
        _ => None,
    }
}

fn binary(op: [u8; 2], a: i64, b: i64) -> Option<i64> {
    let shift = u32::try_from(b).unwrap_or(64);
    Some(match &op {
        b"+\0" => a.wrapping_add(b),
        b"-\0" => a.wrapping_sub(b),
        b"*\0" => a.wrapping_mul(b),
        b"/\0" => a.checked_div(b)?,
        b"%\0" => a.checked_rem(b)?,
        b"&\0" => a & b,
        b"|\0" => a | b,
        b"^\0" => a ^ b,
        b"<<" => a.checked_shl(shift).unwrap_or(0),
        b">>" => a.checked_shr(shift).unwrap_or(a >> 63),
        b"==" => i64::from(a == b),
        b"!=" => i64::from(a != b),
        b"<=" => i64::from(a <= b),
        b">=" => i64::from(a >= b),
        b"<\0" => i64::from(a < b),
        b">\0" => i64::from(a > b),
        b"&&" => i64::from(a != 0 && b != 0),
        b"||" => i64::from(a != 0 || b != 0),
        _ => return None,
    })
}

/// A float literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Float {
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
    /// With its sign turned.
    pub(crate) fn negated(self) -> Float {
        match self {
            Float::Single(bits) => Float::Single(bits ^ 1 << 31),
            Float::Double(bits) => Float::Double(bits ^ 1 << 63),
        }
    }
}
