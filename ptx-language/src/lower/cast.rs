//! `x as T`: one instruction for each pair of types.

use super::Lowerer;
use crate::rounding;
use crate::tree::{self, Expr};
use crate::types::{self, Ty};
use crate::value::Value;
use ptx_core::diag::codes;
use ptx_core::isa::{Class, Type};
use ptx_core::span::Span;

/// The instruction that converts, with `{d}` and `{a}`; `None` where no single one does.
///
/// Integers wrap or extend; floats round to nearest, ties to even; a float becomes an integer by truncation and
/// saturates; the same width on both sides is a `mov` of the bits.
pub fn instruction(from: Type, to: Type) -> Option<String> {
    let (source, target) = (unsigned(from), unsigned(to));
    let same_width = from.bits() == to.bits() && from.bits() >= 16;
    match (types::float_format(from), types::float_format(to)) {
        _ if from == to => Some(format!("mov.{} {{d}}, {{a}}", types::moved(to)?)),
        _ if from.class() == Class::Pred => predicate(to),
        _ if to.class() == Class::Pred => None,
        (Some(a), Some(b)) if a.0 <= b.0 && a.1 <= b.1 => Some(format!("cvt.{target}.{source} {{d}}, {{a}}")),
        (Some(_), Some(_)) => Some(format!("cvt.rn.{target}.{source} {{d}}, {{a}}")),
        _ if same_width && bits_move(from, to) => Some(format!("mov.{} {{d}}, {{a}}", types::bits(to))),
        (None, Some(_)) if types::is_integer(from) => Some(format!("cvt.rn.{target}.{source} {{d}}, {{a}}")),
        (Some(_), None) if types::is_integer(to) => Some(format!("cvt.rzi.{target}.{source} {{d}}, {{a}}")),
        _ if types::is_integer(from) && types::is_integer(to) && to.bits() <= 64 && from.bits() <= 64 => {
            Some(format!("cvt.{target}.{source} {{d}}, {{a}}"))
        }
        _ => None,
    }
}

/// Returns true if one type's bits may be taken for the other's.
fn bits_move(from: Type, to: Type) -> bool {
    let untyped = |ty: Type| matches!(ty.class(), Class::Bits | Class::Packed);
    untyped(from) || untyped(to) || (types::is_integer(from) && types::is_integer(to))
}

/// 1 where it is true, 0 where not.
fn predicate(to: Type) -> Option<String> {
    let suffix = types::moved(to)?;
    let one = match types::float_format(to) {
        None if types::is_integer(to) => "1".to_owned(),
        Some((8, 23)) => "0f3F800000".to_owned(),
        Some((11, 52)) => "0d3FF0000000000000".to_owned(),
        Some((exponent, mantissa)) => format!("{:#06X}", rounding::round(1.0, exponent, mantissa)).replace('X', "x"),
        None => return None,
    };
    let zero = one.chars().enumerate().map(|(at, c)| if at < 2 && one.len() > 1 { c } else { '0' });
    Some(format!("selp.{suffix} {{d}}, {one}, {}, {{a}}", zero.collect::<String>()))
}

/// The type in `cvt`, which has no untyped integers.
fn unsigned(ty: Type) -> String {
    if ty.class() == Class::Bits { format!("u{}", ty.bits()) } else { ty.name().to_owned() }
}

impl<'a> Lowerer<'a> {
    /// `x as T`
    pub(super) fn cast(&mut self, inner: &'a Expr, ty: &tree::Type, dest: Option<&Value>, span: Span) -> Value {
        let Some(Ty::Scalar(to)) = self.ty(ty) else { return Value::Error };
        let value = self.value(inner);
        if let Value::Address(address) = &value
            && address.ty.space.register().is_some_and(|own| own.bits() == to.bits() && types::is_integer(to))
        {
            let Some(reg) = self.destination(dest, to, span) else { return Value::Error };
            self.materialized(address, Some(reg.clone()), span);
            return Value::Reg(reg);
        }
        let Some(Ty::Scalar(from)) = value.ty() else { return self.no_cast(&value, to, span) };
        let Some(inst) = instruction(from, to) else { return self.no_cast(&value, to, span) };
        let Some(operand) = self.operand(&value, from, inner.span) else { return Value::Error };
        let Some(reg) = self.destination(dest, to, span) else { return Value::Error };
        self.inst(&inst.replace("{d}", &reg.name).replace("{a}", &operand), span);
        Value::Reg(reg)
    }

    fn no_cast(&mut self, value: &Value, to: Type, span: Span) -> Value {
        if *value == Value::Error {
            return Value::Error;
        }
        let message = format!("no single instruction converts {} to `{}`", value.describe(), types::name(to));
        let help = match (value, to.class()) {
            (Value::Address(address), _) => Self::number_help(&address.ty),
            (_, Class::Pred) => "compare it: `x != 0`, which is `setp.ne`".to_owned(),
            _ => format!("write the `cvt` instructions in `ptx! {{ cvt….{} … }}`", to.name()),
        };
        self.fail(&codes::P0803, span, message, help)
    }
}
