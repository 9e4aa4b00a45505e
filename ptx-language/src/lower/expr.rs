//! Expressions: one instruction for each operator and each special register that is read.

use super::Lowerer;
use super::constant::Fail;
use super::ptx::Meant;
use super::structs::Literal;
use crate::operators::{self, Op, Operator};
use crate::scope::Binding;
use crate::tree::{BinaryOp, Expr, ExprKind, Path, UnaryOp};
use crate::types::{self, Const, Space, Ty};
use crate::value::{Array, Value, count_parts, parts};
use ptx_core::diag::{Diagnostic, codes, plural};
use ptx_core::isa::{SpecialRegister, Type};
use ptx_core::span::Span;

/// The help for a value of several registers: name one of them.
pub(super) fn one_of(value: &Value) -> String {
    match value.ty() {
        Some(Ty::Struct(of)) => {
            of.field_names().first().map_or_else(String::new, |field| format!("name one field: `.{field}`"))
        }
        Some(Ty::Address(of)) => Lowerer::number_help(&of),
        _ => "name one element: `a[0]`".to_owned(),
    }
}

impl<'a> Lowerer<'a> {
    /// The value of an expression, wherever it is: no instruction for a register, a constant, the name of an array.
    pub(super) fn value(&mut self, expr: &'a Expr) -> Value {
        self.lower(expr, None)
    }

    /// The value of an expression, written to `dest` if there is one.
    pub(super) fn lower(&mut self, expr: &'a Expr, dest: Option<&Value>) -> Value {
        let value = self.lower_any(expr, dest);
        self.given(value, dest, expr.span)
    }

    /// A value that was to be written to `dest`: what has none is an error, unless nothing gets behind it.
    pub(super) fn given(&mut self, value: Value, dest: Option<&Value>, span: Span) -> Value {
        match dest {
            Some(dest) if value == Value::unit() && *dest != value && *dest != Value::Error && !self.f.code.dead => {
                let message = format!("this gives no value, and what it is written to is {}", dest.describe());
                self.fail(
                    &codes::P0802,
                    span,
                    message,
                    "end each branch with an expression without `;`, or leave: `return`, `break`",
                )
            }
            _ => value,
        }
    }

    fn lower_any(&mut self, expr: &'a Expr, dest: Option<&Value>) -> Value {
        if let ExprKind::Ref(_, of) = &expr.kind {
            return self.no_reference(of, expr.span);
        }
        if let Some(special) = self.special(expr) {
            return self.read_special(special, dest, expr.span);
        }
        match self.constant(expr) {
            Ok(value) => return self.store(Value::Const(value), dest, expr.span),
            Err(Fail::Reported) => return Value::Error,
            Err(Fail::NotConstant(..)) => {}
        }
        match &expr.kind {
            ExprKind::Path(path) => {
                let value = self.name(path, expr.span);
                self.store(value, dest, expr.span)
            }
            ExprKind::Field(..) | ExprKind::Index(..) => {
                let value = self.part(expr);
                self.store(value, dest, expr.span)
            }
            ExprKind::Unary(op, inner) => self.unary(*op, inner, dest, expr.span),
            ExprKind::Binary(op, at, a, b) => self.binary(*op, *at, (a, b), dest, expr.span),
            ExprKind::Cast(inner, ty) => self.cast(inner, ty, dest, expr.span),
            ExprKind::Call(callee, args) => match self.view(expr) {
                Some(view) => self.viewed(view, dest, expr.span),
                None => self.call(callee, args, dest, expr.span),
            },
            ExprKind::Tuple(items) | ExprKind::Array(items) => self.items(items, dest, expr.span),
            ExprKind::Repeat(item, len) => self.repeat(item, len, dest, expr.span),
            ExprKind::Range(..) => {
                self.no_value("a range", "use it in `for i in 0..4` or in `ptx! { {acc[0..4]} }`", expr.span)
            }
            ExprKind::Method(receiver, name, generics, args) => {
                self.method_call((receiver, name), generics, args, dest, expr.span)
            }
            ExprKind::Struct(path, fields, base) => {
                self.struct_literal(path, Literal { fields, base: base.as_deref() }, dest, expr.span)
            }
            ExprKind::Deref(inner) => {
                let value = self.dereferenced(inner, expr.span);
                self.store(value, dest, expr.span)
            }
            _ => self.flow(expr, dest),
        }
    }

    fn no_value(&mut self, what: &str, help: &str, span: Span) -> Value {
        self.fail(&codes::P0813, span, format!("{what} is no value of a register"), help)
    }

    fn read_special(&mut self, special: &SpecialRegister, dest: Option<&Value>, span: Span) -> Value {
        if special.vector {
            let name = special.name.trim_start_matches('%');
            let help = format!("name a component: `{name}.x`");
            return self.fail(&codes::P0803, span, format!("`{name}` is a vector, which no register holds"), help);
        }
        let Some(reg) = self.destination(dest, special.ty, span) else { return Value::Error };
        self.mov(&reg, special.name, span);
        Value::Reg(reg)
    }

    /// Writes a value to where it is wanted: `mov`, once for each register.
    pub(super) fn store(&mut self, value: Value, dest: Option<&Value>, span: Span) -> Value {
        let Some(dest) = dest else { return value };
        match (&value, dest) {
            (Value::Error, _) | (_, Value::Error) => return Value::Error,
            (Value::Const(constant), Value::Reg(reg)) => {
                if let Some(text) = self.immediate(constant, reg.ty, span) {
                    self.mov(reg, &text, span);
                }
            }
            (_, Value::Reg(reg)) => self.store_register(&value, reg, span),
            (Value::Address(from), Value::Address(to)) if from.ty.becomes(&to.ty) => {
                let Some(reg) = self.address_register(to) else { return self.not_assignable(dest.describe(), span) };
                self.materialized(from, Some(reg), span);
            }
            (_, Value::Address(_)) => return self.mismatch(&value, dest, span),
            (_, Value::Struct(..)) if value.ty() != dest.ty() => return self.mismatch(&value, dest, span),
            (_, Value::Tuple(_) | Value::Array(_) | Value::Struct(..) | Value::List(..)) => {
                match (parts(&value), parts(dest)) {
                    (Some(from), Some(to)) if from.len() == to.len() => {
                        for (from, to) in from.into_iter().zip(&to) {
                            self.store(from, Some(to), span);
                        }
                    }
                    _ => return self.mismatch(&value, dest, span),
                }
            }
            _ => return self.not_assignable(dest.describe(), span),
        }
        dest.clone()
    }

    fn store_register(&mut self, value: &Value, reg: &crate::value::Reg, span: Span) {
        match value {
            Value::Reg(from) if types::meet(from.ty, reg.ty) => {
                let suffix = if from.ty == reg.ty { reg.clone() } else { self.untyped(reg) };
                self.mov(&suffix, &from.name, span);
            }
            Value::Address(address) if Self::holds_address(&address.ty, reg) => {
                self.materialized(address, Some(reg.clone()), span);
            }
            _ => {
                self.mismatch(value, &Value::Reg(reg.clone()), span);
            }
        }
    }

    /// The same register, moved as bits.
    fn untyped(&self, reg: &crate::value::Reg) -> crate::value::Reg {
        let ty = Type::find(&types::bits(reg.ty)).unwrap_or(reg.ty);
        crate::value::Reg { name: reg.name.clone(), ty }
    }

    pub(super) fn mismatch(&mut self, value: &Value, dest: &Value, span: Span) -> Value {
        let (from, to) = (value.describe(), dest.describe());
        let help = match (dest.ty(), value) {
            (Some(Ty::Scalar(_)), Value::Address(address)) => Self::number_help(&address.ty),
            (Some(Ty::Scalar(ty)), _) => {
                format!("convert it, `… as {}`, or declare the register with the type of the value", types::name(ty))
            }
            (Some(Ty::Address(to)), _) => Self::address_help(value, &to),
            (Some(Ty::Array(_, len)), _) if count_parts(value) > 0 => {
                format!("write {}", plural(len as usize, "element"))
            }
            _ => "write a value of the same shape".to_owned(),
        };
        self.fail(&codes::P0802, span, format!("this is {from}, and what it is written to is {to}"), help)
    }

    pub(super) fn not_assignable(&mut self, what: String, span: Span) -> Value {
        let help = "assign to a register: `let mut x: u32 = …;`";
        self.fail(&codes::P0808, span, format!("{what} cannot be written to"), help)
    }

    /// The value of a name.
    fn name(&mut self, path: &Path, span: Span) -> Value {
        let text = super::constant::path_text(path);
        let Some(found) = self.find(path) else { return self.unknown(&text, Meant::unsaid(), span) };
        match found.binding {
            Binding::Value(Value::Error) => Value::Error,
            _ if found.access.is_reference() && !found.outside => self.not_followed(&text, span),
            Binding::Value(value) if value.is_anywhere() => value,
            _ if found.outside
                && matches!(found.binding, Binding::Value(_) | Binding::Param(_) | Binding::Arguments(_)) =>
            {
                let message = format!("`{text}` is a register of the function around this one");
                self.fail(&codes::P0801, span, message, "pass it as an argument")
            }
            Binding::Value(value) => value,
            Binding::Param(index) => self.param_value(index, span),
            Binding::Arguments(index) => self.arguments_value(index, span),
            Binding::Error | Binding::Const(_) => Value::Error,
            Binding::Function(_) => self.no_value(&format!("the function `{text}`"), "call it", span),
            Binding::Type(_) | Binding::Struct(_) => {
                self.no_value(&format!("the type `{text}`"), "name a register", span)
            }
            Binding::Module(_) => self.no_value(&format!("the module `{text}`"), "name one of its items", span),
        }
    }

    /// `acc[3]`, `pair.0`, `params.scale`
    pub(super) fn part(&mut self, expr: &'a Expr) -> Value {
        match &expr.kind {
            ExprKind::Index(base, index) => {
                let base_value = self.followed(base);
                self.element(base_value, base.span, index)
            }
            ExprKind::Field(base, field) => {
                if let Some(index) = self.argument_field(expr) {
                    return self.param_value(index, expr.span);
                }
                if let Some(found) = self.struct_field(expr) {
                    return self.field_value(&found, expr.span);
                }
                if let ExprKind::Path(path) = &base.kind
                    && let Some(Binding::Param(index)) = self.find(path).map(|found| found.binding)
                    && self.f.params.get(index).is_some_and(|param| param.structure().is_some())
                {
                    return self.unknown_field(index, &field.name, field.span);
                }
                if let ExprKind::Path(path) = &base.kind
                    && self.find(path).is_none()
                {
                    let text = format!("{}.{}", super::constant::path_text(path), field.name);
                    return self.unknown(&text, Meant::unsaid(), expr.span);
                }
                let value = self.followed(base);
                match value.field(&field.name) {
                    Some(part) => part,
                    None => self.no_field(&value, &field.name, field.span),
                }
            }
            _ => self.value(expr),
        }
    }

    pub(super) fn no_field(&mut self, value: &Value, field: &str, span: Span) -> Value {
        if *value == Value::Error {
            return Value::Error;
        }
        if let Some(Ty::Struct(of)) = value.ty() {
            return self.no_such_field(&of, field, span);
        }
        let message = format!("{} has no field `{field}`", value.describe());
        self.fail(&codes::P0817, span, message, "fields belong to structs, and `.0`, `.1` to tuples")
    }

    pub(super) fn element(&mut self, base: Value, span: Span, index: &'a Expr) -> Value {
        let array = match base {
            Value::Array(array) => array,
            Value::List(_, items) => return self.item(&items, index),
            Value::Error => return Value::Error,
            Value::Reg(_) => {
                let help = "to load from memory write `ptx! { ld.global.f32 d, [address]; }`";
                return self.fail(&codes::P0807, span, "a register has no elements", help);
            }
            Value::Address(address) => {
                let help = match address.ty.space {
                    Space::Tensor => "write `tcgen05.ld` in `ptx! { … }`".to_owned(),
                    _ => format!(
                        "write `let at = p.at(i); let d: {}; ptx! {{ ld.{} d, [at]; }}`",
                        address.register_name(),
                        address.kind()
                    ),
                };
                return self.fail(&codes::P0807, span, "memory is read with an instruction", help);
            }
            other => {
                return self.fail(
                    &codes::P0807,
                    span,
                    format!("{} has no elements", other.describe()),
                    "index an array",
                );
            }
        };
        match self.index(index) {
            Some(at) => self.element_at(&array, at, index.span),
            None => Value::Error,
        }
    }

    /// An index among registers.
    fn index(&mut self, index: &Expr) -> Option<i128> {
        match self.constant(index) {
            Ok(Const::Int(at, _)) => return Some(at),
            Ok(_) => self.fail(&codes::P0807, index.span, "an index is an integer", "write a constant integer"),
            Err(Fail::Reported) => Value::Error,
            Err(Fail::NotConstant(..)) => {
                let help = "index with a constant or the variable of a `for`; what must be indexed at run time belongs into memory";
                self.fail(&codes::P0807, index.span, "registers cannot be indexed at run time", help)
            }
        };
        None
    }

    /// An element of a list of structs or tuples.
    fn item(&mut self, items: &[Value], index: &Expr) -> Value {
        let Some(at) = self.index(index) else { return Value::Error };
        let item = usize::try_from(at).ok().and_then(|at| items.get(at)).cloned();
        item.unwrap_or_else(|| self.past_the_end(at, items.len() as u64, index.span))
    }

    /// The element of an array.
    pub(super) fn element_at(&mut self, array: &Array, index: i128, span: Span) -> Value {
        match u64::try_from(index) {
            Ok(index) if index < array.len => array.at(index),
            _ => self.past_the_end(index, array.len, span),
        }
    }

    pub(super) fn past_the_end(&mut self, index: i128, len: u64, span: Span) -> Value {
        let message = format!("the index {index} is past the end: there are {len} elements");
        self.fail(&codes::P0807, span, message, "write a smaller index")
    }

    /// Reports a range of elements that are not all there.
    pub(super) fn range_past_the_end(&mut self, from: u64, to: u64, len: u64, span: Span) -> Value {
        let message = format!("{from}..{to} is past the end: there are {len} elements");
        self.fail(&codes::P0807, span, message, "write a range inside the array")
    }

    fn no_reference(&mut self, of: &'a Expr, span: Span) -> Value {
        let in_memory = |lowerer: &mut Self, base| matches!(lowerer.type_of(base), Some(Ty::Address(_)));
        let help = match &of.kind {
            ExprKind::Index(base, _) if in_memory(self, base) => "the address of an element is `p.at(i)`",
            _ => "registers have no address: name the register, or declare a `#[shared]` or `#[local]` array",
        };
        self.fail(&codes::P0850, span, "`&` and `&mut` stand only in front of an argument of a helper", help)
    }

    /// The argument of `wide(…)`.
    pub(super) fn wide<'e>(&self, expr: &'e Expr) -> Option<&'e Expr> {
        let ExprKind::Call(callee, args) = &expr.kind else { return None };
        let ExprKind::Path(path) = &callee.kind else { return None };
        match (path.segments.as_slice(), args.as_slice()) {
            ([name], [arg]) if name.name == "wide" && self.find(path).is_none() => Some(arg),
            _ => None,
        }
    }

    fn unary(&mut self, op: UnaryOp, inner: &'a Expr, dest: Option<&Value>, span: Span) -> Value {
        let value = self.value(inner);
        let Some(ty) = self.scalar_of(&value, inner.span) else { return Value::Error };
        let Some((row, result)) = self.operator(Op::Unary(op), ty, span) else { return Value::Error };
        let Some(a) = self.operand(&value, ty, inner.span) else { return Value::Error };
        let Some(reg) = self.destination(dest, result, span) else { return Value::Error };
        self.inst(&format!("{} {}, {a}", row.text(ty), reg.name), span);
        Value::Reg(reg)
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        at: Span,
        (a, b): (&'a Expr, &'a Expr),
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let wide = op == BinaryOp::Mul && (self.wide(a).is_some() || self.wide(b).is_some());
        let (a, b) = if wide { (self.wide(a).unwrap_or(a), self.wide(b).unwrap_or(b)) } else { (a, b) };
        let (x, y) = (self.value(a), self.value(b));
        let op = if wide { Op::Wide } else { Op::Binary(op) };
        self.operate(op, at, (&x, a.span), (&y, b.span), dest, span)
    }

    /// One operator on two values.
    pub(super) fn operate(
        &mut self,
        op: Op,
        at: Span,
        (a, a_span): (&Value, Span),
        (b, b_span): (&Value, Span),
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        if matches!(a, Value::Address(_)) || matches!(b, Value::Address(_)) {
            return self.operate_on_address(op, at, (a, a_span), (b, b_span), dest, span);
        }
        let shift = matches!(op, Op::Binary(BinaryOp::Shl | BinaryOp::Shr));
        let Some((left, right)) = self.operand_types(op, (a, a_span), (b, b_span), shift, at) else {
            return Value::Error;
        };
        if matches!(op, Op::Binary(BinaryOp::Div | BinaryOp::Rem)) && matches!(b, Value::Const(Const::Int(0, _))) {
            return self.fail(&codes::P0806, b_span, "this divides by zero", "write another divisor");
        }
        let Some((row, result)) = self.operator(op, left, at) else { return Value::Error };
        let Some(a) = self.operand(a, left, a_span) else { return Value::Error };
        let Some(text) = self.operand(b, right, b_span) else { return Value::Error };
        let instead = match b {
            Value::Const(Const::Int(divisor, _)) => operators::by_power_of_two(op, left, *divisor),
            _ => None,
        };
        let (row, b) = instead.map_or((row, text), |(row, right)| (row, right.to_string()));
        let Some(reg) = self.destination(dest, result, span) else { return Value::Error };
        self.inst(&format!("{} {}, {a}, {b}", row.text(left), reg.name), span);
        Value::Reg(reg)
    }

    /// The type of each side: they are one, except that a shift takes its distance as `u32`; a literal adopts it.
    fn operand_types(
        &mut self,
        op: Op,
        (a, a_span): (&Value, Span),
        (b, b_span): (&Value, Span),
        shift: bool,
        at: Span,
    ) -> Option<(Type, Type)> {
        if *a == Value::Error || *b == Value::Error {
            return None;
        }
        let (x, y) = (a.ty().map(|ty| ty.scalar()), b.ty().map(|ty| ty.scalar()));
        match (x, y) {
            (Some(None), _) => self.not_scalar(a, a_span),
            (_, Some(None)) => self.not_scalar(b, b_span),
            (Some(Some(x)), y) if shift => {
                let distance = types::find("u32")?;
                match y.flatten() {
                    Some(y) if !types::meet(y, distance) => self.differ(op, a, b, at),
                    _ => Some((x, distance)),
                }
            }
            (Some(Some(x)), Some(Some(y))) if x == y => Some((x, y)),
            (Some(Some(x)), Some(Some(y))) if types::meet(x, y) => {
                // One side is untyped: the operator is the typed side's.
                let ty = if x.class() == ptx_core::isa::Class::Bits { y } else { x };
                Some((ty, ty))
            }
            (Some(Some(x)), None) => Some((x, x)),
            (None, Some(Some(y))) => Some((y, y)),
            _ => self.differ(op, a, b, at),
        }
    }

    fn not_scalar<T>(&mut self, value: &Value, span: Span) -> Option<T> {
        let message = format!("{} is no operand of an operator", value.describe());
        self.fail(&codes::P0803, span, message, one_of(value));
        None
    }

    fn differ<T>(&mut self, op: Op, a: &Value, b: &Value, at: Span) -> Option<T> {
        let (x, y) = (a.describe(), b.describe());
        let message = format!("{x} {} {y}: no instruction mixes these types", operators::symbol(op));
        let help = match (a.ty(), b.ty()) {
            (Some(Ty::Scalar(a)), Some(Ty::Scalar(b)))
                if op == Op::Binary(BinaryOp::Add) && a.bits() == 2 * b.bits() =>
            {
                format!("convert the right side, `(…) as {}`; an offset of elements is `wide(i) * 4`", types::name(a))
            }
            (Some(Ty::Scalar(a)), _) if op != Op::Binary(BinaryOp::Shl) => {
                format!("convert one side: `… as {}`", types::name(a))
            }
            _ => "convert the right side: `… as u32`".to_owned(),
        };
        self.report(Diagnostic::error(&codes::P0802, at, message).help(help));
        None
    }

    /// The scalar type of a value that must have one.
    pub(super) fn scalar_of(&mut self, value: &Value, span: Span) -> Option<Type> {
        match (value, value.ty()) {
            (Value::Error, _) => None,
            (_, Some(Ty::Scalar(ty))) => Some(ty),
            _ => self.not_scalar(value, span),
        }
    }

    fn operator(&mut self, op: Op, ty: Type, span: Span) -> Option<(&'static Operator, Type)> {
        if let Some(row) = operators::find(op, ty)
            && let Some(result) = row.result(ty)
        {
            return Some((row, result));
        }
        let message = format!("no single instruction is `{}` on `{}`", operators::symbol(op), types::name(ty));
        self.fail(&codes::P0803, span, message, operators::instead(op, ty));
        None
    }

    fn items(&mut self, items: &'a [Expr], dest: Option<&Value>, span: Span) -> Value {
        let Some(dest) = dest else {
            return Value::Tuple(items.iter().map(|item| self.value(item)).collect());
        };
        match parts(dest) {
            Some(targets) if targets.len() == items.len() => {
                for (item, target) in items.iter().zip(&targets) {
                    self.lower(item, Some(target));
                }
                dest.clone()
            }
            _ if *dest == Value::Error => Value::Error,
            _ => {
                let message = format!("there are {} values for {}", items.len(), dest.describe());
                self.fail(&codes::P0802, span, message, "write one value for each")
            }
        }
    }

    fn repeat(&mut self, item: &'a Expr, len: &'a Expr, dest: Option<&Value>, span: Span) -> Value {
        let Some(len) = self.count(len) else { return Value::Error };
        match dest {
            Some(dest @ (Value::Array(_) | Value::List(..)))
                if parts(dest).is_some_and(|all| all.len() as u64 == len) =>
            {
                for place in parts(dest).unwrap_or_default() {
                    self.lower(item, Some(&place));
                }
                dest.clone()
            }
            Some(Value::Error) => Value::Error,
            _ => self.no_value("`[x; n]`", "declare an array of that length: `let a: [f32; 4] = [0.0; 4];`", span),
        }
    }
}
