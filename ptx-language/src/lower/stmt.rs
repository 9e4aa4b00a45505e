//! Statements: blocks, declarations, assignments.

use super::Lowerer;
use super::access::root;
use super::constant::path_text;
use crate::MOST_REGISTERS;
use crate::address::{Address, Base};
use crate::operators::Op;
use crate::scope::{Access, Binding};
use crate::tree::{BinaryOp, Block, Expr, ExprKind, Let, Path, Pattern, Stmt, StmtKind};
use crate::types::{Const, Ty};
use crate::value::Value;
use ptx_core::diag::codes;
use ptx_core::span::Span;
use std::rc::Rc;

impl<'a> Lowerer<'a> {
    /// A block in a scope of its own; its last expression goes to `dest`.
    pub(super) fn block(&mut self, block: &'a Block, dest: Option<&Value>) -> Value {
        let current = self.scopes.current;
        let scope = self.scopes.open(Some(current), false);
        let value = self.statements(block, dest);
        self.scopes.close(scope, current);
        value
    }

    /// The statements of a block in the scope that is open.
    pub(super) fn statements(&mut self, block: &'a Block, dest: Option<&Value>) -> Value {
        for stmt in &block.stmts {
            self.declare_item(stmt);
        }
        for stmt in &block.stmts {
            if let StmtKind::Impl(item) = &stmt.kind {
                self.declare_impl(item);
            }
        }
        self.declare_labels(block);
        let mut value = Value::unit();
        for (at, stmt) in block.stmts.iter().enumerate() {
            self.line_of(stmt.span);
            let last = at + 1 == block.stmts.len();
            value = match &stmt.kind {
                StmtKind::Annotation(kind, condition) => self.annotation(*kind, condition, (block, at)),
                _ => self.statement(stmt, dest.filter(|_| last)),
            };
            // What an assertion forbids makes errors of its own.
            let forbidden = matches!(stmt.kind, StmtKind::Assert(..)) && value == Value::Error;
            if forbidden || self.f.code.full || self.f.code.dead && self.f.code.decided {
                break;
            }
        }
        value
    }

    /// Items are known in the whole block, before and behind them.
    fn declare_item(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Const(item) => self.bind_item(&item.name, Binding::Const(item)),
            StmtKind::Function(item) => self.bind_item(&item.name, Binding::Function(item)),
            StmtKind::Struct(item) => self.bind_item(&item.name, Binding::Struct(item)),
            StmtKind::Static(item) => {
                let value = self.static_item(item);
                self.bind_item(&item.name, Binding::Value(value));
            }
            _ => {}
        }
    }

    fn statement(&mut self, stmt: &'a Stmt, dest: Option<&Value>) -> Value {
        match &stmt.kind {
            StmtKind::Let(item) => self.declaration(item, stmt.span),
            StmtKind::Expr(expr, false) => return self.lower(expr, dest),
            StmtKind::Expr(expr, true) => {
                self.lower(expr, None);
            }
            StmtKind::Ptx(ptx) => self.ptx(ptx),
            StmtKind::Unreachable => self.f.code.dead = true,
            StmtKind::Assert(condition, message) if !self.require_assertion(condition, message.as_deref()) => {
                return Value::Error;
            }
            StmtKind::Const(item) => {
                // Read even if nothing names it, so that what is wrong in it is reported.
                let path = Path::name(item.name.clone());
                let _ = self.constant(&Expr { kind: ExprKind::Path(path), span: item.name.span });
            }
            StmtKind::Static(_) | StmtKind::Function(_) | StmtKind::Struct(_) | StmtKind::Impl(_) => {}
            StmtKind::Assert(..) | StmtKind::Annotation(..) | StmtKind::Error => {}
        }
        Value::unit()
    }

    fn declaration(&mut self, item: &'a Let, span: Span) {
        if let Some(memory) = &item.memory {
            return self.memory(memory, item, span);
        }
        let name = item.pattern.name();
        let ty = match (&item.ty, &item.init) {
            (Some(ty), _) => self.ty(ty),
            (None, Some(init)) => self.inferred(init, name, span),
            (None, None) => {
                let help = format!("write it: `let {name}: u32;`");
                self.fail(&codes::P0804, span, "a register needs a type", help);
                None
            }
        };
        let target = match ty {
            Some(ty) => self.declare(&item.pattern, &ty),
            None => Value::Error,
        };
        if let Some(init) = &item.init {
            self.lower(init, Some(&target));
        }
        let access = if item.init.is_some() { Access::Declared } else { Access::Own };
        self.bind_pattern(&item.pattern, target, access);
    }

    fn inferred(&mut self, init: &'a Expr, name: &str, statement: Span) -> Option<Ty> {
        let reported = self.errors.found.len();
        let ty = self.type_of(init);
        if ty.is_none() && self.errors.found.len() == reported {
            // What is wrong in the value explains more than the missing type.
            let value = self.lower(init, None);
            if value != Value::Error && self.errors.found.len() == reported {
                let unit = value == Value::unit();
                self.report_untyped(&value, if unit { statement } else { init.span }, name);
            }
        }
        ty
    }

    /// Reports a `let` without a type whose value has none either.
    fn report_untyped(&mut self, value: &Value, span: Span, name: &str) {
        const MESSAGE: &str = "the value does not say which type the register has";
        let (message, help) = match value {
            Value::Const(Const::Str(_)) => {
                ("a string is a constant, and no register holds one", "write `const NAME: &str = …;`".to_owned())
            }
            unit if *unit == Value::unit() => {
                ("this has no value", "write it as a statement, without `let`".to_owned())
            }
            Value::Const(value) => (MESSAGE, format!("write it: `let {name}: {} = …;`", value.example())),
            _ => (MESSAGE, format!("write it: `let {name}: u32 = …;`")),
        };
        self.fail(&codes::P0804, span, message, help);
    }

    /// Declares the registers of a pattern. Several names with one type have it each: `let (a, b): f32;`.
    pub(super) fn declare(&mut self, pattern: &Pattern, ty: &Ty) -> Value {
        match (pattern, ty) {
            (Pattern::Name(name, _), ty) => self.declare_named(&name.name, ty, name.span),
            (Pattern::Wild(span), ty) => self.declare_named("unused", ty, *span),
            (Pattern::Tuple(patterns, _), Ty::Tuple(parts)) if patterns.len() == parts.len() => {
                Value::Tuple(patterns.iter().zip(parts).map(|(pattern, ty)| self.declare(pattern, ty)).collect())
            }
            (Pattern::Struct(path, fields, _, span), Ty::Struct(of)) => {
                if !self.is_pattern_of(path, of, *span) {
                    return Value::Error;
                }
                let part = |(name, ty): &(String, Ty)| match fields.iter().find(|(field, _)| field.name == *name) {
                    Some((_, pattern)) => self.declare(pattern, ty),
                    None => self.declare_named("unused", ty, *span),
                };
                let parts = of.fields.iter().map(part).collect();
                Value::Struct(Rc::clone(of), parts)
            }
            (Pattern::Tuple(patterns, _), Ty::Scalar(_) | Ty::Array(..) | Ty::Address(_)) => {
                Value::Tuple(patterns.iter().map(|pattern| self.declare(pattern, ty)).collect())
            }
            (Pattern::Tuple(patterns, span), ty) => {
                let message = format!("{} names for `{}`", patterns.len(), ty.name());
                self.fail(&codes::P0802, *span, message, "write one name for each part of the type")
            }
            (Pattern::Struct(path, _, _, span), ty) => {
                let message = format!("the pattern is of `{}`, and the value is `{}`", path_text(path), ty.name());
                self.fail(&codes::P0802, *span, message, "write a name, or a pattern of the type")
            }
        }
    }

    /// Declares the registers of one name.
    pub(super) fn declare_named(&mut self, name: &str, ty: &Ty, span: Span) -> Value {
        if ty.registers() > MOST_REGISTERS {
            let message = format!("`{}` is {} registers", ty.name(), ty.registers());
            return self.fail(&codes::P0807, span, message, "put it into memory: `#[shared] let` or `#[local] let`");
        }
        match ty {
            Ty::Scalar(ty) => Value::Reg(self.register(name, *ty, span)),
            Ty::Address(of) => match of.space.register() {
                Some(ty) => Value::Address(Address::register(self.register(name, ty, span).name, Rc::clone(of))),
                None => Value::Error,
            },
            Ty::Tuple(parts) => {
                let part = |(at, ty): (usize, &Ty)| self.declare_named(&format!("{name}.{at}"), ty, span);
                Value::Tuple(parts.iter().enumerate().map(part).collect())
            }
            Ty::Struct(of) => {
                let part = |(field, ty): &(String, Ty)| self.declare_named(&format!("{name}.{field}"), ty, span);
                let parts = of.fields.iter().map(part).collect();
                Value::Struct(Rc::clone(of), parts)
            }
            Ty::Array(element, len) => self.declare_array(name, element, *len, ty, span),
        }
    }

    /// Registers for a value that has no name of its own: a temporary, or several registers under a name.
    pub(super) fn unnamed(&mut self, name: &str, ty: &Ty, span: Span) -> Value {
        match ty {
            Ty::Scalar(ty) => Value::Reg(self.temporary(*ty)),
            Ty::Address(of) => match of.space.register() {
                Some(ty) => Value::Address(Address::register(self.temporary(ty).name, Rc::clone(of))),
                None => Value::Error,
            },
            other => self.declare_named(name, other, span),
        }
    }

    fn declare_array(&mut self, name: &str, element: &Ty, len: u64, ty: &Ty, span: Span) -> Value {
        let Ty::Scalar(scalar) = ty.innermost() else {
            let item = |at| self.declare_named(&format!("{name}.{at}"), element, span);
            return Value::List(element.clone(), (0..len).map(item).collect());
        };
        let array = self.named_array(name, element, len);
        let class = crate::types::register(*scalar).unwrap_or("b32");
        self.push(format!("    .reg .{class} {}<{}>;\n", array.base, ty.registers()), span);
        Value::Array(array)
    }

    /// `a = b`
    pub(super) fn assign(&mut self, target: &'a Expr, value: &'a Expr) -> Value {
        if let (ExprKind::Tuple(targets), ExprKind::Tuple(values)) = (&target.kind, &value.kind)
            && targets.len() == values.len()
        {
            return self.assign_together(targets, values);
        }
        let place = self.target(target);
        if place.ty().is_some_and(|ty| ty.registers() > 1) && !super::call::is_place(value) && mentions(value, target) {
            return self.assign_through(&place, value);
        }
        self.lower(value, Some(&place));
        Value::unit()
    }

    /// A value of several registers that is made from its own target is complete before the first of them is written.
    fn assign_through(&mut self, place: &Value, value: &'a Expr) -> Value {
        let Some(ty) = place.ty() else { return Value::Error };
        let keep = self.declare_named("next", &ty, value.span);
        let made = self.lower(value, Some(&keep));
        self.store(made, Some(place), value.span);
        Value::unit()
    }

    /// `(a, b) = (c, d)`: a value that a later one still needs is written last.
    fn assign_together(&mut self, targets: &'a [Expr], values: &'a [Expr]) -> Value {
        let places: Vec<Value> = targets.iter().map(|target| self.target(target)).collect();
        let mut late = Vec::new();
        for (at, (place, value)) in places.iter().zip(values).enumerate() {
            let needed = values.iter().skip(at + 1).any(|later| mentions(later, &targets[at]));
            match (needed, place) {
                (true, Value::Reg(reg)) => {
                    let keep = Value::Reg(self.temporary(reg.ty));
                    self.lower(value, Some(&keep));
                    late.push((place.clone(), keep, value.span));
                }
                _ => {
                    self.lower(value, Some(place));
                }
            }
        }
        for (place, keep, span) in late {
            self.store(keep, Some(&place), span);
        }
        Value::unit()
    }

    /// `a += b`
    pub(super) fn assign_op(&mut self, op: BinaryOp, at: Span, target: &'a Expr, value: &'a Expr, span: Span) -> Value {
        let place = self.target(target);
        let wide = if op == BinaryOp::Mul { self.wide(value) } else { None };
        if wide.is_some() {
            return self.fail(
                &codes::P0803,
                value.span,
                "`wide` gives a wider result than its target",
                "write `x = wide(a) * b`",
            );
        }
        let operand = self.value(value);
        self.operate(Op::Binary(op), at, (&place, target.span), (&operand, value.span), Some(&place), span);
        Value::unit()
    }

    /// A place that can be assigned.
    fn target(&mut self, expr: &'a Expr) -> Value {
        if let ExprKind::Tuple(items) = &expr.kind {
            return Value::Tuple(items.iter().map(|item| self.target(item)).collect());
        }
        if let Some(special) = self.special(expr) {
            return self.not_assignable(format!("the special register `{}`", special.name), expr.span);
        }
        let place = self.place_of(expr);
        if place == Value::Error || !self.may_write(expr) { Value::Error } else { place }
    }

    fn place_of(&mut self, expr: &'a Expr) -> Value {
        let value = match &expr.kind {
            ExprKind::Path(path) if path.segments.iter().any(|s| s.name == "_") => {
                return self.not_assignable("`_`".into(), expr.span);
            }
            ExprKind::Index(base, index) => match self.followed(indexed(base)) {
                Value::Address(address) => return self.stored(&address, ".at(…)", expr.span),
                Value::Reg(reg) if reg.ty.bits() == 64 => {
                    let help = "write `ptx! { st.global.f32 [address], x; }`";
                    return self.fail(&codes::P0808, expr.span, WRITTEN, help);
                }
                _ => {
                    let place = self.followed(base);
                    self.element(place, base.span, index)
                }
            },
            ExprKind::Method(receiver, ..) if matches!(self.type_of(expr), Some(Ty::Address(_))) => {
                match self.followed(receiver) {
                    Value::Address(address) => return self.stored(&address, ".at(…)", expr.span),
                    _ => return Value::Error,
                }
            }
            _ => self.value(expr),
        };
        match value {
            Value::Const(Const::Int(..) | Const::Float(..) | Const::Bool(_) | Const::Str(_)) => {
                self.not_assignable("a constant".into(), expr.span)
            }
            Value::Address(address) if matches!(address.base, Base::Variable(_)) => {
                self.stored(&address, "", expr.span)
            }
            other => other,
        }
    }

    fn stored(&mut self, address: &Address, element: &str, span: Span) -> Value {
        let name = address.text();
        let name = name.trim_start_matches('%');
        let help = match element {
            "" => format!("write `ptx! {{ st.{} [{name}], x; }}`", address.kind()),
            _ => format!("write `let at = {name}{element};` and `ptx! {{ st.{} [at], x; }}`", address.kind()),
        };
        self.fail(&codes::P0808, span, WRITTEN, help)
    }
}

const WRITTEN: &str = "memory is written with an instruction";

/// The innermost indexed expression: `a` in `a[1][2]`.
fn indexed(expr: &Expr) -> &Expr {
    match &expr.kind {
        ExprKind::Index(base, _) => indexed(base),
        _ => expr,
    }
}

/// Returns true if an expression may read what `target` names.
fn mentions(expr: &Expr, target: &Expr) -> bool {
    if let ExprKind::Tuple(targets) = &target.kind {
        return targets.iter().any(|target| mentions(expr, target));
    }
    let (Some(name), false) = (root_name(target), same(expr, target)) else { return true };
    let any = |exprs: &[Expr]| exprs.iter().any(|expr| mentions(expr, target));
    match &expr.kind {
        ExprKind::Path(path) => path.segments.first().is_some_and(|s| s.name == name),
        ExprKind::Int(..) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Str(_) => false,
        ExprKind::Field(inner, _)
        | ExprKind::Unary(_, inner)
        | ExprKind::Cast(inner, _)
        | ExprKind::Ref(_, inner)
        | ExprKind::Deref(inner) => mentions(inner, target),
        ExprKind::Index(a, b) | ExprKind::Binary(_, _, a, b) | ExprKind::Repeat(a, b) => {
            mentions(a, target) || mentions(b, target)
        }
        ExprKind::Call(_, args) | ExprKind::Tuple(args) | ExprKind::Array(args) => any(args),
        ExprKind::Method(receiver, _, _, args) => mentions(receiver, target) || any(args),
        ExprKind::Struct(_, fields, base) => {
            fields.iter().map(|(_, value)| value).chain(base.as_deref()).any(|value| mentions(value, target))
        }
        _ => true,
    }
}

fn same(a: &Expr, b: &Expr) -> bool {
    matches!((&a.kind, &b.kind), (ExprKind::Path(a), ExprKind::Path(b))
        if a.segments.len() == 1 && a.segments.first().map(|s| &s.name) == b.segments.first().map(|s| &s.name))
}

fn root_name(expr: &Expr) -> Option<&str> {
    root(expr)?.segments.first().map(|segment| segment.name.as_str())
}
