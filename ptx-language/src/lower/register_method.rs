//! `a.max(b)`, `p.select(a, b)`: methods of registers, one instruction each.

use super::Lowerer;
use crate::methods;
use crate::tree::{Expr, Ident};
use crate::types::{self, AddressTy, Ty};
use crate::value::Value;
use ptx_core::diag::{codes, plural};
use ptx_core::isa::Type;
use ptx_core::span::Span;

impl<'a> Lowerer<'a> {
    /// A method on a register or a number; `receiver` is its value.
    pub(super) fn register_method(
        &mut self,
        (receiver, at): (&Value, Span),
        name: &Ident,
        args: &'a [Expr],
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let Some(own) = self.scalar_of(receiver, at) else { return Value::Error };
        if name.name == methods::SELECT && own.name() == "pred" {
            return self.select(receiver, (name, args), dest, span);
        }
        let Some(method) = methods::find(&name.name, own) else { return self.no_method(&name.name, own, name.span) };
        if method.arguments != args.len() {
            return self.wrong_count(name, method.arguments, args.len());
        }
        let Some(mut operands) = self.operand(receiver, own, at) else { return Value::Error };
        for arg in args {
            let value = self.value(arg);
            let Some(operand) = self.operand_of(&value, own, arg.span) else { return Value::Error };
            operands = format!("{operands}, {operand}");
        }
        let Some(reg) = self.destination(dest, own, span) else { return Value::Error };
        self.inst(&format!("{} {}, {operands}", method.text(own), reg.name), span);
        Value::Reg(reg)
    }

    /// `p.select(a, b)`
    fn select(&mut self, p: &Value, (name, args): (&Ident, &'a [Expr]), dest: Option<&Value>, span: Span) -> Value {
        let [a, b] = args else { return self.wrong_count(name, 2, args.len()) };
        let (x, y) = (self.value(a), self.value(b));
        if matches!((&x, &y), (Value::Address(_), _) | (_, Value::Address(_))) {
            return self.select_address(p, (&x, a.span), (&y, b.span), (name.span, dest), span);
        }
        let expected = dest.and_then(Value::ty);
        let Some(ty) = [x.ty(), y.ty(), expected].into_iter().flatten().find_map(|ty| ty.scalar()) else {
            if x != Value::Error && y != Value::Error {
                let help = "write the type of one: `p.select(1u32, 0)`";
                self.fail(&codes::P0804, name.span, "nothing says which type is selected", help);
            }
            return Value::Error;
        };
        let Some(suffix) = types::moved(ty).filter(|_| ty.name() != "pred") else {
            let message = format!("no instruction selects between `{}`s", types::name(ty));
            return self.fail(&codes::P0803, name.span, message, "select between values of 16, 32 or 64 bits");
        };
        let (Some(x), Some(y)) = (self.operand_of(&x, ty, a.span), self.operand_of(&y, ty, b.span)) else {
            return Value::Error;
        };
        let Value::Reg(p) = p else { return Value::Error };
        let Some(reg) = self.destination(dest, ty, span) else { return Value::Error };
        self.inst(&format!("selp.{suffix} {}, {x}, {y}, {}", reg.name, p.name), span);
        Value::Reg(reg)
    }

    /// A value as an operand of exactly this type.
    fn operand_of(&mut self, value: &Value, ty: Type, span: Span) -> Option<String> {
        match value.ty().map(|own| own.scalar()) {
            None => self.operand(value, ty, span),
            Some(Some(own)) if types::meet(own, ty) => self.operand(value, ty, span),
            _ => {
                let message = format!("this is {}, and the other value is `{}`", value.describe(), types::name(ty));
                self.fail(&codes::P0802, span, message, format!("convert it: `… as {}`", types::name(ty)));
                None
            }
        }
    }

    fn wrong_count(&mut self, name: &Ident, takes: usize, has: usize) -> Value {
        let message = format!("`{}` takes {}, not {has}", name.name, plural(takes, "argument"));
        self.fail(&codes::P0811, name.span, message, "`ptx library` and docs/language/operators.md show the methods")
    }

    fn no_method(&mut self, name: &str, ty: Type, span: Span) -> Value {
        let own = types::name(ty);
        let names = methods::names(ty);
        let help = match names.as_slice() {
            _ if methods::exists(name) => {
                format!("convert it first with `as`, or write the instruction for `.{}` in `ptx! {{ … }}`", ty.name())
            }
            [] => Self::instruction_like(name),
            names => format!("there are `{}`; {}", names.join("`, `"), Self::instruction_like(name)),
        };
        self.fail(&codes::P0813, span, format!("`{own}` has no method `{name}`"), help)
    }

    /// The type of a method's result.
    pub(super) fn register_method_type(&mut self, ty: Type, name: &str, args: &[Expr]) -> Option<Ty> {
        match (name, args) {
            (methods::SELECT, [a, b]) => match (self.type_of(a), self.type_of(b)) {
                (Some(Ty::Address(a)), Some(Ty::Address(b))) => AddressTy::common(&a, &b).map(Ty::Address),
                (a, b) => a.or(b),
            },
            _ => methods::find(name, ty).map(|_| Ty::Scalar(ty)),
        }
    }
}
