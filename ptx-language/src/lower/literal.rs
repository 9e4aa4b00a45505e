//! Constants as PTX text: immediates, initializers.

use super::Lowerer;
use super::constant::Fail;
use crate::types::Const;
use crate::{rounding, types};
use ptx_core::isa::{Class, Type};
use ptx_core::span::Span;

impl Lowerer<'_> {
    /// A constant as a literal of this type. Floats are written by their bits, so that none is rounded twice.
    pub(super) fn immediate(&mut self, value: &Const, ty: Type, span: Span) -> Option<String> {
        match self.adopt(value.clone(), ty, span) {
            Ok(value) => Some(text(&value, ty)),
            Err(Fail::Reported | Fail::NotConstant(..)) => None,
        }
    }
}

/// A constant in `ptx!`, where only itself can say what it is.
pub(super) fn spliced(value: &Const) -> String {
    match (value, value.scalar()) {
        (Const::Bool(value), _) => u8::from(*value).to_string(),
        (Const::Float(..), Some(ty)) => text(value, ty),
        (Const::Float(float, None), _) => format!("0d{:016X}", float.to_bits()),
        _ => value.text(),
    }
}

fn text(value: &Const, ty: Type) -> String {
    match (value, types::float_format(ty).or_else(|| types::float_format(value.scalar()?))) {
        (Const::Float(value, _), Some((exponent, mantissa))) => {
            let bits = rounding::round(*value, exponent, mantissa);
            match exponent + mantissa {
                63 => format!("0d{bits:016X}"),
                31 => format!("0f{bits:08X}"),
                _ => format!("0x{bits:04X}"),
            }
        }
        (Const::Bool(value), _) => u8::from(*value).to_string(),
        (Const::Int(value, _), _) if ty.class() == Class::Unsigned && *value > i128::from(i64::MAX) => {
            format!("{value:#x}")
        }
        _ => value.text(),
    }
}
