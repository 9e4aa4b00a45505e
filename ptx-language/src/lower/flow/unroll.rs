//! `for`: the body once for each item, the variable a constant.

use super::{LoopKind, Lowerer};
use crate::MOST_TURNS;
use crate::lower::code::Label;
use crate::lower::constant::Fail;
use crate::lower::constant::path_text;
use crate::scope::{Access, Binding};
use crate::tree::{Block, Expr, ExprKind, Ident, Path, Pattern};
use crate::types::{Const, StructTy, Ty};
use crate::value::{Value, parts};
use ptx_core::diag::codes;
use ptx_core::span::Span;

/// All loops of a kernel together: a turn costs time, even if it writes nothing.
const MOST_IN_ALL: u32 = 1 << 17;

impl<'a> Lowerer<'a> {
    pub(super) fn unroll(
        &mut self,
        name: Option<&Ident>,
        pattern: &'a Pattern,
        items: &'a Expr,
        body: &'a Block,
        span: Span,
    ) -> Value {
        let Some(items) = self.items_of(items) else {
            // Other errors of the body are still worth reading; its variable stays silent.
            self.turn(pattern, Value::Error, body);
            return Value::Error;
        };
        let base = match name {
            Some(name) => format!("${}", name.name),
            None => format!("$for_{}", self.f.code.number("for")),
        };
        let end = self.f.code.label(&format!("{base}_end"));
        for (turn, item) in items.into_iter().enumerate() {
            self.f.turns += 1;
            if self.f.turns > MOST_IN_ALL && !self.f.code.full {
                self.f.code.full = true;
                let message = format!("the loops of this kernel unroll into more than {MOST_IN_ALL} turns");
                self.fail(&codes::P0818, span, message, "write the outer `for` as `while`");
            }
            if self.f.code.full {
                break;
            }
            let next = self.next_label(&base, turn);
            self.enter(name, end, LoopKind::Loop(next));
            self.turn(pattern, item, body);
            self.f.loops.pop();
            self.place(next, span);
        }
        self.place(end, span);
        Value::unit()
    }

    fn next_label(&mut self, base: &str, turn: usize) -> Label {
        self.f.code.label(&format!("{base}_next_{turn}"))
    }

    fn turn(&mut self, pattern: &'a Pattern, item: Value, body: &'a Block) {
        let current = self.scopes.current;
        let scope = self.scopes.open(Some(current), false);
        self.bind_pattern(pattern, item, Access::Item);
        self.block(body, None);
        self.scopes.close(scope, current);
    }

    /// Items of a `for`: a range, with `.rev()` and `.step_by(n)`, or an array.
    fn items_of(&mut self, expr: &'a Expr) -> Option<Vec<Value>> {
        match &expr.kind {
            ExprKind::Range(Some(from), Some(to), inclusive) => self.range(from, to, *inclusive, expr.span),
            ExprKind::Method(receiver, name, _, args) => self.adapted(receiver, name, args),
            ExprKind::Ref(_, inner) => self.items_of(inner),
            _ => match self.value(expr) {
                Value::Error => None,
                value => parts(&value).or_else(|| self.not_items(expr.span)),
            },
        }
    }

    fn adapted(&mut self, receiver: &'a Expr, name: &Ident, args: &'a [Expr]) -> Option<Vec<Value>> {
        let mut items = self.items_of(receiver)?;
        match (name.name.as_str(), args) {
            ("rev", []) => items.reverse(),
            ("iter" | "into_iter" | "copied", []) => {}
            ("enumerate", []) => {
                let pair = |(at, item)| Value::Tuple(vec![Value::Const(Const::Int(at as i128, None)), item]);
                items = items.into_iter().enumerate().map(pair).collect();
            }
            ("step_by", [step]) => match self.count(step)? {
                0 => {
                    self.fail(&codes::P0805, step.span, "a step of 0 never ends", "write a step from 1 on");
                    return None;
                }
                step => items = items.into_iter().step_by(usize::try_from(step).ok()?).collect(),
            },
            _ => return self.not_items(name.span),
        }
        Some(items)
    }

    fn range(&mut self, from: &'a Expr, to: &'a Expr, inclusive: bool, span: Span) -> Option<Vec<Value>> {
        let (from, to) = (self.bound(from)?, self.bound(to)?);
        let ty = from.1.or(to.1);
        let to = to.0.saturating_add(i128::from(inclusive));
        let turns = to.saturating_sub(from.0);
        if turns > MOST_TURNS.into() {
            let message = format!("this unrolls {turns} times");
            self.fail(&codes::P0818, span, message, "`for` always unrolls: write `while` with a counter");
            return None;
        }
        Some((from.0..to).map(|value| Value::Const(Const::Int(value, ty))).collect())
    }

    fn bound(&mut self, expr: &'a Expr) -> Option<(i128, Option<ptx_core::isa::Type>)> {
        match self.constant(expr) {
            Ok(Const::Int(value, ty)) => Some((value, ty)),
            Ok(_) => self.not_items(expr.span),
            Err(Fail::Reported) => None,
            Err(Fail::NotConstant(span, why)) => {
                let help = "`for` is unrolled: for a loop at run time write `while i < n { …; i += 1; }`";
                self.fail(&codes::P0805, span, format!("this is not known at compile time: {why}"), help);
                None
            }
        }
    }

    fn not_items<T>(&mut self, span: Span) -> Option<T> {
        let help = "write a range, `0..4`, with `.rev()` or `.step_by(2)`, or a constant array";
        self.fail(&codes::P0813, span, "`for` cannot run over this", help);
        None
    }

    /// Gives the names of a pattern their values.
    pub(in super::super) fn bind_pattern(&mut self, pattern: &'a Pattern, value: Value, access: Access) {
        match pattern {
            Pattern::Wild(_) => {}
            Pattern::Name(name, mutable) => {
                let access = if *mutable { Access::Own } else { access };
                self.scopes.bind_as(&name.name, Binding::Value(value), access);
            }
            Pattern::Struct(path, fields, rest, span) => self.bind_fields((path, fields, *rest), &value, access, *span),
            Pattern::Tuple(patterns, span) => {
                let found = parts(&value).filter(|parts| parts.len() == patterns.len());
                if found.is_none() && value != Value::Error {
                    let message = format!("{} names for {}", patterns.len(), value.describe());
                    self.fail(&codes::P0802, *span, message, "write one name for each part");
                }
                let mut found = found.unwrap_or_default().into_iter();
                for pattern in patterns {
                    self.bind_pattern(pattern, found.next().unwrap_or(Value::Error), access);
                }
            }
        }
    }

    /// `Pair { first, second: y }`
    fn bind_fields(
        &mut self,
        (path, fields, rest): (&'a Path, &'a [(Ident, Pattern)], bool),
        value: &Value,
        access: Access,
        span: Span,
    ) {
        let of = match value.ty() {
            Some(Ty::Struct(of)) if self.is_pattern_of(path, &of, span) => of,
            _ if *value == Value::Error => return self.bind_errors(fields),
            Some(Ty::Struct(_)) => return self.bind_errors(fields),
            _ => {
                let message = format!("the pattern is of `{}`, and the value is {}", path_text(path), value.describe());
                self.fail(&codes::P0802, span, message, "write a name, or a pattern of the type");
                return self.bind_errors(fields);
            }
        };
        for (name, pattern) in fields {
            let part = match value.field(&name.name) {
                Some(part) => part,
                None => self.no_such_field(&of, &name.name, name.span),
            };
            self.bind_pattern(pattern, part, access);
        }
        let named = |field: &&str| fields.iter().any(|(name, _)| name.name == *field);
        let missing: Vec<&str> = of.field_names().into_iter().filter(|field| !named(field)).collect();
        if !rest && !missing.is_empty() {
            let message = format!("the pattern does not name `{}`", missing.join("`, `"));
            self.fail(&codes::P0817, span, message, "name every field, or end with `..`");
        }
    }

    fn bind_errors(&mut self, fields: &'a [(Ident, Pattern)]) {
        fields.iter().for_each(|(_, pattern)| self.bind_pattern(pattern, Value::Error, Access::Own));
    }

    /// Returns true if a pattern's path names this struct; reports it otherwise.
    pub(in super::super) fn is_pattern_of(&mut self, path: &Path, of: &StructTy, span: Span) -> bool {
        let item = match self.find(path).map(|found| found.binding) {
            Some(Binding::Struct(item)) => Some(std::ptr::from_ref(item) as usize),
            Some(Binding::Type(Ty::Struct(ty))) => Some(ty.item),
            _ => None,
        };
        if item != Some(of.item) {
            let message = format!("the pattern is of `{}`, and the value is `{}`", path_text(path), of.name);
            self.fail(&codes::P0802, span, message, "write a name, or a pattern of the type");
        }
        item == Some(of.item)
    }
}
