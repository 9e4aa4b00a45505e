//! Evaluating constants: what is known when the macro runs.

mod arithmetic;
mod assertion;
mod builtin;

use super::Lowerer;
use super::structs::Literal;
use crate::scope::Binding;
use crate::tree::{self, BinaryOp, Block, Expr, ExprKind, Path, Pattern, StmtKind, TypeKind};
use crate::types::{self, Argument, Const, Ty};
use crate::value::Value;
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::isa::{Arch, Type};
use ptx_core::span::Span;

/// Why an expression has no value at compile time.
#[derive(Clone, Debug)]
pub(super) enum Fail {
    /// It depends on what is known only at run time.
    NotConstant(Span, String),
    /// It is wrong, and that is reported.
    Reported,
}

/// Constants and calls inside of each other.
const DEEPEST: usize = 256;

/// Scalars in a constant.
const MOST_ELEMENTS: usize = 1 << 20;

/// Evaluations for one constant expression.
const MOST_EVALUATIONS: usize = 1 << 16;

type Evaluated = Result<Const, Fail>;

fn not_constant(span: Span, why: impl Into<String>) -> Evaluated {
    Err(Fail::NotConstant(span, why.into()))
}

impl<'a> Lowerer<'a> {
    /// The value of an expression that must have one.
    pub(super) fn require_constant(&mut self, expr: &Expr) -> Option<Const> {
        match self.constant(expr) {
            Ok(value) => Some(value),
            Err(Fail::Reported) => None,
            Err(Fail::NotConstant(span, why)) => {
                let help = "use literals, `const` items, const generics and variables of `for`";
                self.fail(&codes::P0805, span, format!("this is not known at compile time: {why}"), help);
                None
            }
        }
    }

    /// The value of an expression, if it has one; what is wrong in it stays unreported.
    pub(super) fn constant_quietly(&mut self, expr: &Expr) -> Evaluated {
        let reported = self.errors.found.len();
        let value = self.constant(expr);
        self.errors.take_back(reported);
        value
    }

    /// The same, of a place whose reference is followed.
    pub(super) fn constant_followed_quietly(&mut self, expr: &Expr) -> Evaluated {
        let reported = self.errors.found.len();
        let value = self.constant_followed(expr);
        self.errors.take_back(reported);
        value
    }

    /// The value of an expression, if it has one.
    pub(super) fn constant(&mut self, expr: &Expr) -> Evaluated {
        match &expr.kind {
            ExprKind::Int(value, suffix) => self.int_literal(*value, suffix.as_deref(), expr.span),
            ExprKind::Float(text, suffix) => self.float_literal(text, suffix.as_deref(), expr.span),
            ExprKind::Bool(value) => Ok(Const::Bool(*value)),
            ExprKind::Str(text) => Ok(Const::Str(text.clone())),
            ExprKind::Path(path) => self.constant_path(path, expr.span),
            ExprKind::Field(base, field) => match Value::Const(self.constant_followed(base)?).field(&field.name) {
                Some(Value::Const(part)) => Ok(part),
                _ => not_constant(expr.span, format!("`.{}` is no part of a constant", field.name)),
            },
            ExprKind::Struct(path, fields, base) => {
                self.constant_literal(path, Literal { fields, base: base.as_deref() }, expr.span)
            }
            ExprKind::Deref(inner) => self.constant_followed(inner),
            ExprKind::Index(base, index) => self.constant_index(base, index),
            ExprKind::Unary(op, inner) => {
                let value = self.constant(inner)?;
                self.constant_unary(*op, value, expr.span)
            }
            ExprKind::Binary(op, _, a, b) => self.constant_binary(*op, a, b, expr.span),
            ExprKind::Cast(inner, ty) => self.constant_cast(inner, ty, expr.span),
            ExprKind::Call(callee, args) => self.constant_call(callee, args, expr.span),
            ExprKind::Method(receiver, name, generics, args) => {
                self.constant_method((receiver, name), generics, args, expr.span)
            }
            ExprKind::Array(items) => Ok(Const::Array(self.constants(items)?)),
            ExprKind::Tuple(items) => Ok(Const::Tuple(self.constants(items)?)),
            ExprKind::Repeat(item, len) => self.constant_repeat(item, len),
            ExprKind::Ref(_, inner) => self.constant(inner),
            ExprKind::If(condition, then, otherwise) => {
                self.constant_if(condition, then, otherwise.as_deref(), expr.span)
            }
            ExprKind::Match(matched, arms) => match self.chosen_arm(matched, arms) {
                Some(body) => self.constant(body),
                None => Err(Fail::Reported),
            },
            ExprKind::Block(None, block) => self.constant_block(block),
            ExprKind::Error => Err(Fail::Reported),
            _ => not_constant(expr.span, "it is no constant expression"),
        }
    }

    /// The value of a place whose reference, if it is one, is followed by itself.
    pub(super) fn constant_followed(&mut self, expr: &Expr) -> Evaluated {
        match (&expr.kind, self.reference(expr)) {
            (ExprKind::Path(path), Some(_)) => match self.find(path).map(|found| found.binding) {
                Some(Binding::Value(Value::Const(value))) => Ok(value),
                _ => not_constant(expr.span, format!("`{}` is a register", path_text(path))),
            },
            _ => self.constant(expr),
        }
    }

    /// The values of several.
    pub(super) fn constants(&mut self, exprs: &[Expr]) -> Result<Vec<Const>, Fail> {
        exprs.iter().map(|expr| self.constant(expr)).collect()
    }

    fn suffix(&mut self, suffix: Option<&str>, like: &str, span: Span) -> Result<Option<Type>, Fail> {
        match suffix {
            None | Some("usize") => Ok(None),
            Some(name) => match types::find(name) {
                Some(ty) => Ok(Some(ty)),
                None => {
                    self.fail(
                        &codes::P0812,
                        span,
                        format!("no literal has the suffix `{name}`"),
                        format!("write {like}"),
                    );
                    Err(Fail::Reported)
                }
            },
        }
    }

    fn int_literal(&mut self, value: u128, suffix: Option<&str>, span: Span) -> Evaluated {
        let ty = self.suffix(suffix, "`u32`, `i64` …", span)?;
        if ty.is_some_and(|ty| types::float_format(ty).is_some()) {
            return Ok(Const::Float(value as f64, ty));
        }
        self.checked(i128::try_from(value).ok(), ty, span)
    }

    fn float_literal(&mut self, text: &str, suffix: Option<&str>, span: Span) -> Evaluated {
        let ty = self.suffix(suffix, "`f32` or `f64`", span)?;
        let value = Const::Float(text.parse().unwrap_or(f64::NAN), None);
        match ty {
            Some(ty) => self.adopt(value, ty, span),
            None => Ok(value),
        }
    }

    /// An integer of a type, if it fits.
    pub(super) fn checked(&mut self, value: Option<i128>, ty: Option<Type>, span: Span) -> Evaluated {
        match (value, ty) {
            (Some(value), Some(ty)) if !arithmetic::fits(value, ty) => {
                let message = format!("{value} does not fit into `{}`", types::name(ty));
                let truth = if ty.name() == "pred" { "write `true` or `false`" } else { SMALLER };
                self.fail(&codes::P0806, span, message, truth);
                Err(Fail::Reported)
            }
            (Some(value), ty) => Ok(Const::Int(value, ty)),
            (None, _) => {
                self.fail(&codes::P0806, span, "this overflows 128 bits", "write a smaller value");
                Err(Fail::Reported)
            }
        }
    }

    fn constant_path(&mut self, path: &Path, span: Span) -> Evaluated {
        if let Some(found) = self.find(path) {
            return match found.binding {
                _ if found.access.is_reference() => not_constant(span, format!("`{}` is a reference", path_text(path))),
                Binding::Value(Value::Const(value)) => Ok(value),
                Binding::Const(item) => self.module_const(item, found.scope),
                Binding::Error | Binding::Value(Value::Error) => Err(Fail::Reported),
                _ => not_constant(span, format!("`{}` is a register or has an address", path_text(path))),
            };
        }
        if let Some((item, of, bound)) = self.associated_const(path, span) {
            let current = self.scopes.current;
            let inner = self.scopes.open(Some(of.scope), true);
            for (name, binding) in bound {
                self.scopes.bind(&name, binding);
            }
            let value = self.const_item(item, inner, Some(&of.args));
            self.scopes.close(inner, current);
            return value;
        }
        match path.segments.as_slice() {
            [name] if name.name == "arch" => Ok(Const::Arch(self.variant.arch)),
            [name] => match name.name.parse::<Arch>() {
                Ok(arch) if name.name.starts_with("sm_") => Ok(Const::Arch(arch)),
                _ => not_constant(span, format!("`{}` is no constant", name.name)),
            },
            segments => {
                let value = match segments {
                    [ty, name] => types::find(&ty.name).and_then(|ty| arithmetic::associated(ty, &name.name)),
                    [.., ty, consts, name] if consts.name == "consts" => {
                        types::find(&ty.name).and_then(|ty| arithmetic::number(ty, &name.name))
                    }
                    _ => None,
                };
                value.map_or_else(|| not_constant(span, format!("`{}` is no constant", path_text(path))), Ok)
            }
        }
    }

    /// The value of a `const` item of a module or a body.
    pub(super) fn module_const(&mut self, item: &'a tree::Const, scope: usize) -> Evaluated {
        // That of a body may have another value where the body is expanded again.
        let is_kept = self.constants.contains_key(&(std::ptr::from_ref(item) as usize));
        self.const_item(item, scope, is_kept.then_some(&[]))
    }

    /// Evaluates a `const` item where it stands, once for these arguments of its struct.
    fn const_item(&mut self, item: &'a tree::Const, scope: usize, args: Option<&[Argument]>) -> Evaluated {
        let address = std::ptr::from_ref(item) as usize;
        let known = args.and_then(|args| self.constants.get(&address)?.iter().find(|(of, _)| of == args));
        if let Some((_, known)) = known {
            return Ok(known.clone());
        }
        if self.evaluating.contains(&address) {
            let message = format!("`{}` needs its own value", item.name.name);
            self.fail(&codes::P0810, item.name.span, message, "give it a value that does not name it");
            return Err(Fail::Reported);
        }
        self.begin_evaluation(address, &item.name.name, item.name.span)?;
        let current = std::mem::replace(&mut self.scopes.current, scope);
        let value = match self.require_constant(&item.value) {
            Some(value) if value.elements() > MOST_ELEMENTS => self.too_long(item.value.span),
            Some(value) => self.of_type(value, &item.ty, item.value.span),
            None => Err(Fail::Reported),
        };
        self.scopes.current = current;
        self.evaluating.pop();
        if let (Ok(value), Some(args)) = (&value, args) {
            self.constants.entry(address).or_default().push((args.to_vec(), value.clone()));
        }
        value
    }

    /// Begins to evaluate a constant or a call. It ends with `evaluating.pop()`.
    ///
    /// An expansion happens while somebody types, so that no evaluation may go deeper than the stack, or on for ever.
    pub(super) fn begin_evaluation(&mut self, address: usize, name: &str, span: Span) -> Result<(), Fail> {
        if self.evaluating.is_empty() {
            self.evaluations = 0;
        }
        self.evaluations += 1;
        if self.evaluating.len() >= DEEPEST {
            if !std::mem::replace(&mut self.is_too_deep, true) {
                let message = format!("`{name}` is the last of {DEEPEST} constants or calls that need each other");
                self.fail(&codes::P0810, span, message, "end a recursion with an `if`, or a chain with a number");
            }
            return Err(Fail::Reported);
        }
        if self.evaluations > MOST_EVALUATIONS {
            let message = format!("`{name}` needs more than {MOST_EVALUATIONS} evaluations of constants and calls");
            self.fail(&codes::P0818, span, message, "declare a constant for a value that is needed several times");
            return Err(Fail::Reported);
        }
        self.evaluating.push(address);
        Ok(())
    }

    /// A constant as a value of the type that its declaration names.
    pub(super) fn of_type(&mut self, value: Const, ty: &tree::Type, span: Span) -> Evaluated {
        match (&ty.kind, value) {
            (TypeKind::Ref(_, inner), value) => self.of_type(value, inner, span),
            (TypeKind::Array(element, _) | TypeKind::Slice(element), Const::Array(items)) => {
                let items = items.into_iter().map(|item| self.of_type(item, element, span));
                Ok(Const::Array(items.collect::<Result<_, _>>()?))
            }
            (TypeKind::Tuple(parts), Const::Tuple(items)) if parts.len() == items.len() => {
                let items = items.into_iter().zip(parts).map(|(item, ty)| self.of_type(item, ty, span));
                Ok(Const::Tuple(items.collect::<Result<_, _>>()?))
            }
            (TypeKind::Path(path), value) => match (path.segments.first().map(|s| s.name.as_str()), value) {
                (Some("bool" | "pred"), value @ Const::Bool(_)) | (Some("str"), value @ Const::Str(_)) => Ok(value),
                (Some("usize"), Const::Int(value, _)) => Ok(Const::Int(value, None)),
                (_, value) => self.of_scalar(value, ty, span),
            },
            (_, value) => self.mistyped(&value, span),
        }
    }

    fn of_scalar(&mut self, value: Const, ty: &tree::Type, span: Span) -> Evaluated {
        match self.ty(ty) {
            Some(ty) => self.of_ty(value, &ty, span),
            None => Err(Fail::Reported),
        }
    }

    /// A constant as a value of this type: a bare literal adopts it.
    pub(super) fn adopt(&mut self, value: Const, ty: Type, span: Span) -> Evaluated {
        match value {
            Const::Int(value, None) if types::float_format(ty).is_some() => Ok(Const::Float(value as f64, Some(ty))),
            Const::Int(value, None) => self.checked(Some(value), Some(ty), span),
            Const::Float(value, None) if arithmetic::overflows(value, ty) => {
                let message = format!("{value:?} does not fit into `{}`", types::name(ty));
                self.fail(&codes::P0806, span, message, SMALLER);
                Err(Fail::Reported)
            }
            Const::Float(value, None) if types::float_format(ty).is_some() => Ok(Const::Float(value, Some(ty))),
            Const::Bool(value) if ty.name() == "pred" => Ok(Const::Bool(value)),
            Const::Int(value, Some(own)) if types::meet(own, ty) => Ok(Const::Int(value, Some(ty))),
            Const::Float(value, Some(own)) if types::meet(own, ty) => Ok(Const::Float(value, Some(own))),
            other => {
                let (from, to) = (other.describe(), types::name(ty));
                let help = match other {
                    Const::Float(_, None) => "write an integer; `x as f32` converts one to a float".to_owned(),
                    _ => format!("convert it, `… as {to}`, or write a literal of that type"),
                };
                self.report(Diagnostic::error(&codes::P0802, span, format!("this is {from}, not `{to}`")).help(help));
                Err(Fail::Reported)
            }
        }
    }

    fn mistyped(&mut self, value: &Const, span: Span) -> Evaluated {
        let message = format!("this is {}, which is not what the declaration says", value.describe());
        self.fail(&codes::P0802, span, message, "write the type of the value, or a value of the type");
        Err(Fail::Reported)
    }

    fn constant_index(&mut self, base: &Expr, index: &Expr) -> Evaluated {
        let items = match self.constant_followed(base)? {
            Const::Array(items) => items,
            _ => return not_constant(base.span, "it is no array"),
        };
        match self.constant(index)? {
            Const::Int(at, _) => match usize::try_from(at).ok().and_then(|at| items.get(at)) {
                Some(item) => Ok(item.clone()),
                None => {
                    let message = format!("the index {at} is past the end: there are {} elements", items.len());
                    self.fail(&codes::P0807, index.span, message, "write a smaller index");
                    Err(Fail::Reported)
                }
            },
            _ => not_constant(index.span, "an index is an integer"),
        }
    }

    fn constant_repeat(&mut self, item: &Expr, len: &Expr) -> Evaluated {
        let value = self.constant(item)?;
        let len = self.count(len).ok_or(Fail::Reported)?;
        match usize::try_from(len) {
            Ok(len) if len.saturating_mul(value.elements()) <= MOST_ELEMENTS => Ok(Const::Array(vec![value; len])),
            _ => self.too_long(item.span),
        }
    }

    fn too_long(&mut self, span: Span) -> Evaluated {
        self.fail(&codes::P0806, span, "this constant has over a million elements", "write a shorter array");
        Err(Fail::Reported)
    }

    fn constant_binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Evaluated {
        let a = self.constant(a)?;
        match (op, &a) {
            (BinaryOp::LogicalAnd, Const::Bool(false)) | (BinaryOp::LogicalOr, Const::Bool(true)) => return Ok(a),
            _ => {}
        }
        let b = self.constant(b)?;
        self.constant_operation(op, a, b, span)
    }

    fn constant_cast(&mut self, inner: &Expr, ty: &tree::Type, span: Span) -> Evaluated {
        let value = self.constant(inner)?;
        if matches!(&ty.kind, TypeKind::Path(path) if path.segments.last().is_some_and(|s| s.name == "usize")) {
            return Ok(arithmetic::untyped(value));
        }
        let Some(Ty::Scalar(ty)) = self.ty(ty) else { return Err(Fail::Reported) };
        match arithmetic::cast(&value, ty) {
            Some(value) => Ok(value),
            None => not_constant(span, format!("{} cannot become `{}`", value.describe(), types::name(ty))),
        }
    }

    fn constant_if(&mut self, condition: &Expr, then: &Block, otherwise: Option<&Expr>, span: Span) -> Evaluated {
        match (self.constant(condition)?, otherwise) {
            (Const::Bool(true), _) => self.constant_block(then),
            (Const::Bool(false), Some(otherwise)) => self.constant(otherwise),
            _ => not_constant(span, "the `if` has no value"),
        }
    }

    /// The arm that a `match` takes: it compares constants, so that one arm is all that is written.
    pub(super) fn chosen_arm<'e>(&mut self, matched: &Expr, arms: &'e [tree::Arm]) -> Option<&'e Expr> {
        let value = match self.constant(matched) {
            Ok(value) => value,
            Err(Fail::Reported) => return None,
            Err(Fail::NotConstant(span, why)) => {
                let help = "`match` chooses at compile time: for a choice at run time write `if … else if …`";
                self.fail(&codes::P0805, span, format!("this is not known at compile time: {why}"), help);
                return None;
            }
        };
        for arm in arms {
            for pattern in &arm.values {
                let other = self.require_constant(pattern)?;
                if self.constant_operation(BinaryOp::Eq, value.clone(), other, pattern.span).ok()? == Const::Bool(true)
                {
                    return Some(&arm.body);
                }
            }
            if arm.values.is_empty() {
                return Some(&arm.body);
            }
        }
        let message = format!("no arm is for `{}`", value.text());
        self.fail(&codes::P0815, matched.span, message, "add an arm for it, or `_ => …`");
        None
    }

    /// Declarations of constants, and a last expression.
    pub(super) fn constant_block(&mut self, block: &Block) -> Evaluated {
        let current = self.scopes.current;
        let scope = self.scopes.open(Some(current), false);
        let value = self.constant_statements(block);
        self.scopes.close(scope, current);
        value
    }

    fn constant_statements(&mut self, block: &Block) -> Evaluated {
        for stmt in &block.stmts {
            match &stmt.kind {
                StmtKind::Let(tree::Let { memory: None, pattern: Pattern::Name(name, _), ty, init: Some(init) }) => {
                    let value = self.constant(init)?;
                    let value = match ty {
                        Some(ty) => self.of_type(value, ty, init.span)?,
                        None => value,
                    };
                    self.scopes.bind(&name.name, Binding::Value(Value::Const(value)));
                }
                StmtKind::Assert(condition, message) => self.assertion(condition, message.as_deref())?,
                StmtKind::Expr(expr, false) => return self.constant(expr),
                StmtKind::Expr(Expr { kind: ExprKind::Return(Some(value)), .. }, _) => return self.constant(value),
                _ => return not_constant(stmt.span, "the statement is more than a constant"),
            }
        }
        not_constant(block.span, "the block has no value")
    }
}

const SMALLER: &str = "write a wider type, or a smaller value";

/// `a::b`
pub(super) fn path_text(path: &Path) -> String {
    match &path.segments[..] {
        [one] => one.name.clone(),
        several => several.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>().join("::"),
    }
}
