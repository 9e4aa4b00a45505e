//! `signed(x)`, `unsigned(x)`, `untyped(x)`: an integer's bits under another type. No instruction: what differs is which
//! one an operator is.

use super::Lowerer;
use crate::tree::{Expr, ExprKind};
use crate::types::{self, Ty};
use crate::value::{Reg, Value};
use ptx_core::diag::codes;
use ptx_core::isa::Type;
use ptx_core::span::Span;

/// The functions, and the letter of the types that they give.
const VIEWS: [(&str, &str); 3] = [("signed", "s"), ("unsigned", "u"), ("untyped", "b")];

impl<'a> Lowerer<'a> {
    /// The argument of a view, and the letter of its types.
    pub(super) fn view<'e>(&self, expr: &'e Expr) -> Option<(&'e Expr, &'static str)> {
        let ExprKind::Call(callee, args) = &expr.kind else { return None };
        let ExprKind::Path(path) = &callee.kind else { return None };
        let ([name], [arg]) = (path.segments.as_slice(), args.as_slice()) else { return None };
        let (_, letter) = VIEWS.iter().find(|(view, _)| *view == name.name)?;
        self.find(path).is_none().then_some((arg, letter))
    }

    /// The view of `inner` under the letter's type. An operator in it writes to `dest` itself.
    pub(super) fn viewed(&mut self, (inner, letter): (&'a Expr, &str), dest: Option<&Value>, span: Span) -> Value {
        let is_place = matches!(inner.kind, ExprKind::Path(_) | ExprKind::Field(..) | ExprKind::Index(..))
            && self.special(inner).is_none();
        if let Some(Value::Reg(dest)) = dest.filter(|_| !is_place) {
            let own = self.type_of(inner).and_then(|ty| ty.scalar()).unwrap_or(dest.ty);
            let wanted = same_width(dest.ty, letter).filter(|wanted| types::meet(*wanted, dest.ty));
            if own.bits() == dest.ty.bits() && types::is_integer(own) && wanted.is_some() {
                self.lower(inner, Some(&Value::Reg(Reg { name: dest.name.clone(), ty: own })));
                return Value::Reg(dest.clone());
            }
        }
        let value = self.value(inner);
        let viewed = match &value {
            Value::Error => return Value::Error,
            Value::Reg(reg) => same_width(reg.ty, letter).map(|ty| Value::Reg(Reg { name: reg.name.clone(), ty })),
            _ => None,
        };
        match viewed {
            Some(viewed) => self.store(viewed, dest, span),
            None => {
                let message = format!("{} is no integer in a register", value.describe());
                self.fail(&codes::P0803, span, message, "views are for registers of 16, 32 and 64 bits")
            }
        }
    }

    /// The type of a view, without writing anything.
    pub(super) fn view_type(&mut self, (inner, letter): (&Expr, &str)) -> Option<Ty> {
        same_width(self.type_of(inner)?.scalar()?, letter).map(Ty::Scalar)
    }
}

/// The integer type of this letter that is as wide.
fn same_width(ty: Type, letter: &str) -> Option<Type> {
    let fits = types::is_integer(ty) && matches!(ty.bits(), 16 | 32 | 64);
    fits.then(|| Type::find(&format!("{letter}{}", ty.bits()))).flatten()
}
