//! The type an expression will have, without writing anything: for `let` without a type and for generics.

use super::Lowerer;
use super::structs::Literal;
use crate::operators::{self, Op};
use crate::scope::Binding;
use crate::tree::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::{self, AddressTy, Ty};
use crate::value::Value;
use ptx_core::isa::{Class, Type};
use std::rc::Rc;

impl Lowerer<'_> {
    /// The type of an expression; `None` for a bare literal and for what is wrong.
    pub(super) fn type_of(&mut self, expr: &Expr) -> Option<Ty> {
        if let Some(special) = self.special(expr) {
            return Some(Ty::Scalar(special.ty));
        }
        if let Ok(value) = self.constant_quietly(expr) {
            return Value::Const(value).ty();
        }
        match &expr.kind {
            ExprKind::Path(_) | ExprKind::Field(..) | ExprKind::Index(..) => self.place_type(expr),
            ExprKind::Unary(op, inner) => self.unary_type(*op, inner),
            ExprKind::Binary(op, _, a, b) => {
                if let Some(ty) = self.address_operation_type(*op, a, b) {
                    return Some(ty);
                }
                let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
                let ty = self.operands_type(a, b, shift)?;
                let op = if self.wide(a).is_some() || self.wide(b).is_some() { Op::Wide } else { Op::Binary(*op) };
                operators::find(op, ty)?.result(ty).map(Ty::Scalar)
            }
            ExprKind::Cast(_, ty) => self.ty(ty),
            ExprKind::Match(matched, arms) => {
                let body = self.chosen_arm(matched, arms)?;
                self.type_of(body)
            }
            ExprKind::Tuple(parts) => parts.iter().map(|part| self.type_of(part)).collect::<Option<_>>().map(Ty::Tuple),
            ExprKind::Array(items) => {
                let element = items.iter().find_map(|item| self.type_of(item))?;
                Some(Ty::Array(Box::new(element), items.len() as u64))
            }
            ExprKind::Repeat(item, len) => {
                let (element, len) = (self.type_of(item)?, self.count(len)?);
                Some(Ty::Array(Box::new(element), len))
            }
            ExprKind::Call(callee, args) => match self.view(expr) {
                Some(view) => self.view_type(view),
                None => self.call_type(callee, args),
            },
            ExprKind::Ref(_, inner) | ExprKind::Deref(inner) => self.type_of(inner),
            ExprKind::Struct(path, fields, base) => {
                self.literal_type_of(path, Literal { fields, base: base.as_deref() }, expr.span)
            }
            ExprKind::Method(receiver, name, generics, args) => self.method_type((receiver, name), generics, args),
            _ => None,
        }
    }

    /// The type of an operation on an address, if it is one.
    fn address_operation_type(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Ty> {
        match (self.type_of(a), self.type_of(b)) {
            (Some(Ty::Address(_)), Some(Ty::Address(_))) if operators::is_comparison(op) => {
                types::find("pred").map(Ty::Scalar)
            }
            (Some(Ty::Address(ty)), Some(Ty::Address(_))) => ty.space.register().map(Ty::Scalar),
            (Some(ty @ Ty::Address(_)), _) | (_, Some(ty @ Ty::Address(_))) => Some(ty),
            _ => None,
        }
    }

    fn unary_type(&mut self, op: UnaryOp, inner: &Expr) -> Option<Ty> {
        let ty = self.type_of(inner)?.scalar()?;
        operators::find(Op::Unary(op), ty)?.result(ty).map(Ty::Scalar)
    }

    /// The type of an operator's operands: where one is untyped the other determines it, but for a shift.
    fn operands_type(&mut self, a: &Expr, b: &Expr, shift: bool) -> Option<Type> {
        let a = self.wide(a).unwrap_or(a);
        let b = self.wide(b).unwrap_or(b);
        let left = self.type_of(a).and_then(|ty| ty.scalar());
        match left {
            Some(left) if shift || left.class() != Class::Bits => Some(left),
            _ => self.type_of(b).and_then(|ty| ty.scalar()).or(left),
        }
    }

    /// The type of what a name, a field or an index stands for.
    fn place_type(&mut self, expr: &Expr) -> Option<Ty> {
        match &expr.kind {
            ExprKind::Path(path) => match self.find(path)?.binding {
                Binding::Value(value) => value.ty(),
                Binding::Arguments(index) => self.arguments_type(index).map(Ty::Struct),
                Binding::Param(index) => {
                    let param = self.f.params.get(index)?;
                    param.ty.clone().or_else(|| param.structure().map(Ty::Struct))
                }
                _ => None,
            },
            ExprKind::Index(base, _) => match self.type_of(base)? {
                Ty::Array(element, _) => Some(*element),
                _ => None,
            },
            ExprKind::Field(base, field) => match self.type_of(base) {
                Some(Ty::Address(ty)) => {
                    let Ty::Struct(of) = &ty.element else { return None };
                    let element = of.fields.get(of.field(&field.name)?).map(|(_, ty)| ty.clone())?;
                    Some(Ty::Address(Rc::new(AddressTy { element, ..(*ty).clone() })))
                }
                Some(Ty::Tuple(parts)) => parts.get(field.name.parse::<usize>().ok()?).cloned(),
                Some(Ty::Struct(of)) => of.fields.get(of.field(&field.name)?).map(|(_, ty)| ty.clone()),
                _ => self.struct_field(expr).map(|field| field.ty),
            },
            _ => None,
        }
    }
}
