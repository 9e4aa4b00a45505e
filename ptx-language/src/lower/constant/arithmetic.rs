//! Arithmetic on constants, as Rust defines it; overflow is an error.

use super::{Evaluated, Fail, Lowerer, not_constant};
use crate::operators::{self, Op};
use crate::tree::{BinaryOp, UnaryOp};
use crate::types::Const;
use crate::{rounding, types};
use ptx_core::diag::codes;
use ptx_core::isa::{Class, Type};
use ptx_core::span::Span;
use std::{f32, f64};

/// Returns true if an integer is a value of a type.
pub(super) fn fits(value: i128, ty: Type) -> bool {
    let bits = ty.bits().min(127);
    match ty.class() {
        Class::Signed => value >= -(1 << (bits - 1)) && value < 1 << (bits - 1),
        Class::Unsigned => value >= 0 && value < 1i128.checked_shl(bits).unwrap_or(i128::MAX),
        // Untyped bits take both readings.
        Class::Bits | Class::Packed => value >= -(1 << (bits - 1)) && (bits == 127 || value < 1 << bits),
        _ => false,
    }
}

/// Returns true if a number is larger than every finite one of the type.
pub(super) fn overflows(value: f64, ty: Type) -> bool {
    value.is_finite() && types::float_format(ty).is_some_and(|format| nearest(value, format).is_infinite())
}

/// `u32::MAX`, `f32::INFINITY` …
pub(super) fn associated(ty: Type, name: &str) -> Option<Const> {
    let bits = ty.bits().min(127);
    let signed = ty.class() == Class::Signed;
    let int = |value| Some(Const::Int(value, Some(ty)));
    let float = |value| types::float_format(ty).map(|_| Const::Float(value, Some(ty)));
    match name {
        "BITS" => Some(Const::Int(i128::from(ty.bits()), Type::find("u32"))),
        "MAX" if types::is_integer(ty) => int(i128::MAX >> (127 - bits + u32::from(signed))),
        "MIN" if types::is_integer(ty) => int(if signed { -(1 << (bits - 1)) } else { 0 }),
        "MAX" if ty.name() == "f32" => float(f64::from(f32::MAX)),
        "MIN" if ty.name() == "f32" => float(f64::from(f32::MIN)),
        "EPSILON" if ty.name() == "f32" => float(f64::from(f32::EPSILON)),
        "MAX" if ty.name() == "f64" => float(f64::MAX),
        "MIN" if ty.name() == "f64" => float(f64::MIN),
        "EPSILON" if ty.name() == "f64" => float(f64::EPSILON),
        "INFINITY" => float(f64::INFINITY),
        "NEG_INFINITY" => float(f64::NEG_INFINITY),
        "NAN" => float(f64::NAN),
        _ => None,
    }
}

/// `std::f32::consts` and `std::f64::consts`.
const NUMBERS: &[(&str, f32, f64)] = &[
    ("PI", f32::consts::PI, f64::consts::PI),
    ("TAU", f32::consts::TAU, f64::consts::TAU),
    ("E", f32::consts::E, f64::consts::E),
    ("LN_2", f32::consts::LN_2, f64::consts::LN_2),
    ("LN_10", f32::consts::LN_10, f64::consts::LN_10),
    ("LOG2_E", f32::consts::LOG2_E, f64::consts::LOG2_E),
    ("LOG2_10", f32::consts::LOG2_10, f64::consts::LOG2_10),
    ("LOG10_E", f32::consts::LOG10_E, f64::consts::LOG10_E),
    ("LOG10_2", f32::consts::LOG10_2, f64::consts::LOG10_2),
    ("SQRT_2", f32::consts::SQRT_2, f64::consts::SQRT_2),
    ("FRAC_1_SQRT_2", f32::consts::FRAC_1_SQRT_2, f64::consts::FRAC_1_SQRT_2),
    ("FRAC_1_PI", f32::consts::FRAC_1_PI, f64::consts::FRAC_1_PI),
    ("FRAC_2_PI", f32::consts::FRAC_2_PI, f64::consts::FRAC_2_PI),
    ("FRAC_2_SQRT_PI", f32::consts::FRAC_2_SQRT_PI, f64::consts::FRAC_2_SQRT_PI),
    ("FRAC_PI_2", f32::consts::FRAC_PI_2, f64::consts::FRAC_PI_2),
    ("FRAC_PI_3", f32::consts::FRAC_PI_3, f64::consts::FRAC_PI_3),
    ("FRAC_PI_4", f32::consts::FRAC_PI_4, f64::consts::FRAC_PI_4),
    ("FRAC_PI_6", f32::consts::FRAC_PI_6, f64::consts::FRAC_PI_6),
    ("FRAC_PI_8", f32::consts::FRAC_PI_8, f64::consts::FRAC_PI_8),
];

/// `std::f32::consts::PI` and the others.
pub(super) fn number(ty: Type, name: &str) -> Option<Const> {
    let (_, narrow, wide) = NUMBERS.iter().find(|(known, ..)| *known == name)?;
    match ty.name() {
        "f32" => Some(Const::Float(f64::from(*narrow), Some(ty))),
        "f64" => Some(Const::Float(*wide, Some(ty))),
        _ => None,
    }
}

/// Without its type, so that it adopts one.
pub(super) fn untyped(value: Const) -> Const {
    match value {
        Const::Int(value, _) => Const::Int(value, None),
        other => other,
    }
}

/// `as`: wraps, truncates, rounds and saturates like Rust's.
pub(super) fn cast(value: &Const, ty: Type) -> Option<Const> {
    match (value, types::float_format(ty)) {
        (Const::Int(value, _), Some(format)) => Some(Const::Float(nearest(*value as f64, format), Some(ty))),
        (Const::Float(value, _), Some(format)) => Some(Const::Float(nearest(*value, format), Some(ty))),
        (Const::Int(value, _), None) if ty.class() != Class::Pred => Some(Const::Int(wrap(*value, ty), Some(ty))),
        (Const::Float(value, _), None) if types::is_integer(ty) => Some(Const::Int(saturate(*value, ty), Some(ty))),
        (Const::Bool(value), None) if types::is_integer(ty) => Some(Const::Int(i128::from(*value), Some(ty))),
        _ => None,
    }
}

fn wrap(value: i128, ty: Type) -> i128 {
    let bits = ty.bits().min(127);
    let low = value & ((1i128 << bits).wrapping_sub(1));
    let negative = ty.class() == Class::Signed && low >> (bits - 1) & 1 == 1;
    if negative { low - (1 << bits) } else { low }
}

fn saturate(value: f64, ty: Type) -> i128 {
    let bound = |name| match associated(ty, name) {
        Some(Const::Int(bound, _)) => bound,
        _ => 0,
    };
    (value as i128).clamp(bound("MIN"), bound("MAX"))
}

/// The value that a format holds for `value`.
fn nearest(value: f64, (exponent, mantissa): (u32, u32)) -> f64 {
    match (exponent, mantissa) {
        (11, 52) => value,
        (8, 23) => f64::from(value as f32),
        (8, 7) => f64::from(f32::from_bits((rounding::round(value, 8, 7) as u32) << 16)),
        _ => half(rounding::round(value, exponent, mantissa) as u16),
    }
}

fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

fn integers(op: BinaryOp, a: i128, b: i128) -> Option<i128> {
    let shift = u32::try_from(b).ok();
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::And => Some(a & b),
        BinaryOp::Or => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        BinaryOp::Shl => a.checked_mul(1i128.checked_shl(shift?)?),
        BinaryOp::Shr => a.checked_shr(shift?),
        _ => None,
    }
}

fn floats(op: BinaryOp, a: f64, b: f64) -> Option<f64> {
    match op {
        BinaryOp::Add => Some(a + b),
        BinaryOp::Sub => Some(a - b),
        BinaryOp::Mul => Some(a * b),
        BinaryOp::Div => Some(a / b),
        BinaryOp::Rem => Some(a % b),
        _ => None,
    }
}

fn compare<T: PartialOrd + ?Sized>(op: BinaryOp, a: &T, b: &T) -> Option<bool> {
    match op {
        BinaryOp::Eq => Some(a == b),
        BinaryOp::Ne => Some(a != b),
        BinaryOp::Lt => Some(a < b),
        BinaryOp::Le => Some(a <= b),
        BinaryOp::Gt => Some(a > b),
        BinaryOp::Ge => Some(a >= b),
        _ => None,
    }
}

fn booleans(op: BinaryOp, a: bool, b: bool) -> Option<bool> {
    match op {
        BinaryOp::And | BinaryOp::LogicalAnd => Some(a & b),
        BinaryOp::Or | BinaryOp::LogicalOr => Some(a | b),
        BinaryOp::Xor => Some(a ^ b),
        _ => compare(op, &a, &b),
    }
}

impl Lowerer<'_> {
    pub(super) fn constant_unary(&mut self, op: UnaryOp, value: Const, span: Span) -> Evaluated {
        match (op, value) {
            (UnaryOp::Neg, Const::Int(value, ty)) => self.checked(value.checked_neg(), ty, span),
            (UnaryOp::Neg, Const::Float(value, ty)) => Ok(Const::Float(-value, ty)),
            (UnaryOp::Not, Const::Bool(value)) => Ok(Const::Bool(!value)),
            (UnaryOp::Not, Const::Int(value, Some(ty))) => Ok(Const::Int(wrap(!value, ty), Some(ty))),
            (UnaryOp::Not, Const::Int(value, None)) => Ok(Const::Int(!value, None)),
            (_, other) => self.no_operation(&other, span),
        }
    }

    pub(super) fn constant_operation(&mut self, op: BinaryOp, a: Const, b: Const, span: Span) -> Evaluated {
        match (a, b) {
            (Const::Int(a, s), Const::Int(b, t)) => self.int_operation(op, (a, s), (b, t), span),
            (Const::Float(a, s), Const::Float(b, t)) => self.float_operation(op, (a, s), (b, t), span),
            (Const::Float(a, s), Const::Int(b, None)) => self.float_operation(op, (a, s), (b as f64, None), span),
            (Const::Int(a, None), Const::Float(b, t)) => self.float_operation(op, (a as f64, None), (b, t), span),
            (Const::Bool(a), Const::Bool(b)) => booleans(op, a, b).map(Const::Bool).ok_or(Fail::Reported),
            (Const::Str(a), Const::Str(b)) => compare(op, &a, &b).map(Const::Bool).ok_or(Fail::Reported),
            (Const::Arch(a), Const::Arch(b)) => {
                // `arch >= sm_90a` tests whether the target has what sm_90a has.
                let has = match op {
                    BinaryOp::Ge => a.provides(b),
                    BinaryOp::Lt => !a.provides(b),
                    BinaryOp::Eq => a == b,
                    BinaryOp::Ne => a != b,
                    _ => return not_constant(span, "targets are compared with `>=`, `<`, `==` and `!=`"),
                };
                Ok(Const::Bool(has))
            }
            (a, b) => self.mixed(&a.describe(), &b.describe(), op, span),
        }
    }

    fn int_operation(
        &mut self,
        op: BinaryOp,
        a: (i128, Option<Type>),
        b: (i128, Option<Type>),
        span: Span,
    ) -> Evaluated {
        let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        if let (Some(s), Some(t), false) = (a.1, b.1, shift)
            && s != t
        {
            return self.mixed(&format!("`{}`", types::name(s)), &format!("`{}`", types::name(t)), op, span);
        }
        if let Some(answer) = compare(op, &a.0, &b.0) {
            return Ok(Const::Bool(answer));
        }
        let ty = if shift { a.1 } else { a.1.or(b.1) };
        let value = match (op, ty) {
            (BinaryOp::Shl, Some(ty)) if b.0 < i128::from(ty.bits()) => {
                integers(op, a.0, b.0).map(|value| wrap(value, ty))
            }
            _ => integers(op, a.0, b.0),
        };
        if value.is_none() && b.0 == 0 {
            self.fail(&codes::P0806, span, "this divides by zero", "write another divisor");
            return Err(Fail::Reported);
        }
        self.checked(value, ty, span)
    }

    fn float_operation(
        &mut self,
        op: BinaryOp,
        a: (f64, Option<Type>),
        b: (f64, Option<Type>),
        span: Span,
    ) -> Evaluated {
        if let (Some(s), Some(t)) = (a.1, b.1)
            && s != t
        {
            return self.mixed(&format!("`{}`", types::name(s)), &format!("`{}`", types::name(t)), op, span);
        }
        if let Some(answer) = compare(op, &a.0, &b.0) {
            return Ok(Const::Bool(answer));
        }
        let ty = a.1.or(b.1);
        let round = |value| match ty.and_then(types::float_format) {
            Some(format) => nearest(value, format),
            None => value,
        };
        match floats(op, round(a.0), round(b.0)) {
            Some(value) => Ok(Const::Float(round(value), ty)),
            None => self.no_operation(&Const::Float(a.0, ty), span),
        }
    }

    fn no_operation(&mut self, value: &Const, span: Span) -> Evaluated {
        let message = format!("{} has no such operator", value.describe());
        self.fail(&codes::P0803, span, message, "convert it first with `as`");
        Err(Fail::Reported)
    }

    fn mixed(&mut self, a: &str, b: &str, op: BinaryOp, span: Span) -> Evaluated {
        let message = format!("{a} {} {b}: both sides must have one type", operators::symbol(Op::Binary(op)));
        self.fail(&codes::P0802, span, message, "convert one side with `as`");
        Err(Fail::Reported)
    }
}
