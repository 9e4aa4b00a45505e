//! The right to write: Rust's rules for `mut`, `&` and `&mut`, which cost no instruction.

use super::Lowerer;
use super::call::Given;
use crate::address::{Address, Base};
use crate::scope::{Access, Binding};
use crate::tree::{Expr, ExprKind, Function, Param, Path, TypeKind};
use crate::types::Ty;
use crate::uses::{Addressed, Fixed};
use crate::value::{Array, Value};
use ptx_core::diag::{Diagnostic, codes};
use ptx_core::span::Span;

/// An argument that is passed as its parameter takes it.
pub(super) struct Passed<'e> {
    /// Without `&` and `&mut`.
    pub(super) expr: &'e Expr,
    /// True if it is a place that the parameter refers to: a reference in it is followed by itself.
    pub(super) follows: bool,
}

impl<'a> Lowerer<'a> {
    /// Reports a place that may not be written; returns true if it may.
    pub(super) fn may_write(&mut self, place: &Expr) -> bool {
        let Some(path) = root(place) else { return true };
        let Some(found) = self.find(path) else { return true };
        let Some(name) = path.segments.last() else { return true };
        match found.binding {
            Binding::Value(Value::Error) | Binding::Error => true,
            binding => match refusal(found.access, &name.name) {
                None if matches!(binding, Binding::Const(_) | Binding::Value(Value::Const(_))) => {
                    self.not_assignable(format!("the constant `{}`", name.name), place.span);
                    false
                }
                None => true,
                Some((message, help)) => {
                    self.fail(&codes::P0808, place.span, message, help);
                    false
                }
            },
        }
    }

    /// The access of a name that stands for a reference.
    pub(super) fn reference(&self, expr: &Expr) -> Option<Access> {
        let ExprKind::Path(path) = &expr.kind else { return None };
        self.find(path).map(|found| found.access).filter(|access| access.is_reference())
    }

    /// The value of a place whose reference, if it is one, is followed by itself: in front of `.field`, `[index]`,
    /// `.method()`, and behind `&`, where `a[0..4]` is a place too.
    pub(super) fn followed(&mut self, expr: &'a Expr) -> Value {
        match &expr.kind {
            ExprKind::Path(path) if self.reference(expr).is_some() => self.referred(path),
            ExprKind::Index(base, range) if matches!(range.kind, ExprKind::Range(..)) => self.slice(base, range),
            _ => self.value(expr),
        }
    }

    /// `a[0..4]`: some of an array's registers.
    fn slice(&mut self, base: &'a Expr, range: &'a Expr) -> Value {
        let ExprKind::Range(from, to, inclusive) = &range.kind else { return Value::Error };
        let array = match self.followed(base) {
            Value::Array(array) => array,
            Value::Error => return Value::Error,
            other => {
                let message = format!("{} has no range of registers", other.describe());
                return self.fail(&codes::P0807, base.span, message, "name an array of numbers");
            }
        };
        let from = from.as_ref().map_or(Some(0), |from| self.count(from));
        let to = to.as_ref().map_or(Some(array.len), |to| self.count(to));
        let (Some(from), Some(to)) = (from, to) else { return Value::Error };
        let to = to + u64::from(*inclusive);
        if from > to || to > array.len {
            return self.range_past_the_end(from, to, array.len, range.span);
        }
        let start = array.start + from * array.element.registers();
        Value::Array(Array { start, len: to - from, ..array })
    }

    /// The registers that a reference stands for.
    fn referred(&mut self, path: &Path) -> Value {
        match self.find(path).map(|found| found.binding) {
            Some(Binding::Value(value)) => value,
            Some(Binding::Arguments(index)) => {
                self.arguments_value(index, path.segments.last().map_or(Span::default(), |s| s.span))
            }
            Some(Binding::Param(index)) => {
                self.param_value(index, path.segments.last().map_or(Span::default(), |s| s.span))
            }
            _ => Value::Error,
        }
    }

    /// `*x`
    pub(super) fn dereferenced(&mut self, inner: &'a Expr, span: Span) -> Value {
        if let (ExprKind::Path(path), Some(_)) = (&inner.kind, self.reference(inner)) {
            return self.referred(path);
        }
        match self.value(inner) {
            Value::Error => Value::Error,
            _ => {
                let help =
                    "a register is written as it is, `x`; memory is read and written by `ld` and `st` in `ptx! { }`";
                self.fail(&codes::P0850, span, "only a `&` or `&mut` parameter can be dereferenced", help)
            }
        }
    }

    /// Reports a reference that is used as a value.
    pub(super) fn not_followed(&mut self, name: &str, span: Span) -> Value {
        let message = format!("`{name}` is a reference to a register, not its value");
        self.fail(&codes::P0802, span, message, format!("write `*{name}`"))
    }

    /// Checks that an argument is written as its parameter takes it: `x`, `&x` or `&mut x`; a method's receiver is taken as it
    /// is. Reports it otherwise.
    pub(super) fn passing<'e>(&mut self, param: &Param, arg: &Given<'e>) -> Option<Passed<'e>> {
        if matches!(&param.ty.kind, TypeKind::Ref(_, inner) if matches!(inner.kind, TypeKind::Slice(_))) {
            // Reports that helpers take no slices.
            let _: Option<Ty> = self.ty(&param.ty);
            return None;
        }
        let (name, wanted) = (&param.name.name, Access::of(param));
        let (arg, given) = match arg {
            Given::Value(..) => return None,
            Given::Receiver(expr) if wanted == Access::RefMut => {
                return self.may_write(expr).then_some(Passed { expr, follows: true });
            }
            Given::Receiver(expr) => return Some(Passed { expr, follows: true }),
            Given::Expr(arg) => (*arg, self.written_reference(arg)),
        };
        let (message, help) = match (wanted, given) {
            (Access::RefMut, Some((expr, Access::RefMut))) => {
                return self.may_write(expr).then_some(Passed { expr, follows: true });
            }
            (Access::Ref, Some((expr, _))) => return Some(Passed { expr, follows: true }),
            (Access::RefMut, None) => (format!("the call may change `{name}`"), in_front("&mut ", arg)),
            (Access::RefMut, Some((expr, _))) => {
                (format!("the call may change `{name}`, and `&` allows no change"), in_front("&mut ", expr))
            }
            (Access::Ref, None) => (format!("`{name}` is passed by reference"), in_front("&", arg)),
            (_, Some(_)) if matches!(arg.kind, ExprKind::Ref(..)) => {
                (format!("`{name}` is passed by value"), "remove the `&`".to_owned())
            }
            _ => return Some(Passed { expr: arg, follows: false }),
        };
        self.fail(&codes::P0811, arg.span, message, help);
        None
    }

    /// The place in `&x` or `&mut x`, or a reference that is passed on, with the right that it gives.
    fn written_reference<'e>(&self, arg: &'e Expr) -> Option<(&'e Expr, Access)> {
        match &arg.kind {
            ExprKind::Ref(true, inner) => Some((inner, Access::RefMut)),
            ExprKind::Ref(false, inner) => Some((inner, Access::Ref)),
            _ => self.reference(arg).map(|access| (arg, access)),
        }
    }

    /// Reports an argument that holds registers which the call may change through another one.
    pub(super) fn are_apart(&mut self, function: &Function, args: &[Given<'_>]) -> bool {
        let params = &function.params;
        for (at, param) in params.iter().enumerate().filter(|(_, param)| Access::of(param) == Access::RefMut) {
            let changed = self.passed_value(param);
            let changed = ranges(&changed);
            for (other, arg) in args.iter().enumerate().filter(|(other, _)| *other != at) {
                let value = params.get(other).map_or(Value::Error, |param| self.passed_value(param));
                if ranges(&value).iter().any(|range| changed.iter().any(|own| own.touches(range))) {
                    let message = format!("this is also passed as `{}`, which the call may change", param.name.name);
                    self.fail(&codes::P0811, arg.span(), message, "pass a copy: `let before = …;`");
                    return false;
                }
            }
        }
        true
    }

    /// The value that a parameter has in the innermost scope.
    fn passed_value(&self, param: &Param) -> Value {
        match self.scopes.find_in(self.scopes.current, &param.name.name) {
            Some(Binding::Value(value)) => value,
            _ => Value::Error,
        }
    }

    /// Notes an address in the brackets of `ptx!`; the checks know what an instruction does there.
    pub(super) fn note_address(&mut self, address: &Address, span: Span) {
        if self.errors.over.is_none() && matches!(address.base, Base::Register(_)) {
            let ty = std::rc::Rc::clone(&address.ty);
            self.out.addressed.entry(span).or_insert(Addressed { span, ty });
        }
    }

    /// Notes a name in `ptx!` that no instruction may write; the checks know which operands are written.
    pub(super) fn note_fixed(&mut self, name: &str, access: Access, span: Span) {
        // An unrolled loop comes here again and again.
        if self.errors.over.is_some() || self.out.fixed.contains_key(&span) {
            return;
        }
        if let Some((message, help)) = refusal(access, name) {
            let diagnostic = Diagnostic::error(&codes::P0808, span, message).help(help);
            self.out.fixed.insert(span, Fixed { span, diagnostic });
        }
    }
}

/// The reason why nothing may be written through a name, and what to write instead.
fn refusal(access: Access, name: &str) -> Option<(String, String)> {
    let (why, help) = match access {
        Access::Own | Access::RefMut => return None,
        Access::Declared => ("is declared with a value and without `mut`", format!("declare it `let mut {name}`")),
        Access::Item => ("is the item of a `for`", "name the element itself: `a[i] = …`".to_owned()),
        Access::Launched => ("is a parameter without `mut`", format!("write `mut {name}: …`")),
        Access::Value if name == "self" => {
            ("is passed by value", "write `&mut self`, or `mut self` for a copy".to_owned())
        }
        Access::Ref if name == "self" => ("is passed by `&`", "write `&mut self`".to_owned()),
        Access::Value => {
            let help = format!("write `{name}: &mut …` to change the caller's register, or `mut {name}: …` for a copy");
            ("is passed by value", help)
        }
        Access::Ref => ("is passed by `&`", format!("write `{name}: &mut …`")),
    };
    Some((format!("cannot write to `{name}`, which {why}"), help))
}

/// Help that names the argument, where it has a name: "write `&mut x`".
fn in_front(sign: &str, arg: &Expr) -> String {
    let name = root(arg).and_then(|path| path.segments.last()).map_or("…", |name| name.name.as_str());
    match &arg.kind {
        ExprKind::Path(_) => format!("write `{sign}{name}`"),
        _ => format!("write `{sign}` in front of it"),
    }
}

/// The name that a place starts with.
pub(super) fn root(expr: &Expr) -> Option<&Path> {
    match &expr.kind {
        ExprKind::Path(path) => Some(path),
        ExprKind::Index(base, _) | ExprKind::Field(base, _) | ExprKind::Deref(base) | ExprKind::Ref(_, base) => {
            root(base)
        }
        _ => None,
    }
}

/// Registers `%base<start>` to `%base<end - 1>`; a lone register is the range `0..1` of its name.
struct Range<'v> {
    base: &'v str,
    start: u64,
    end: u64,
}

impl Range<'_> {
    fn touches(&self, other: &Range<'_>) -> bool {
        self.base == other.base && self.start < other.end && other.start < self.end
    }
}

/// A lone register, which may be one of an array's.
fn register_range(name: &str) -> Vec<Range<'_>> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match name.get(base.len()..).and_then(|number| number.parse::<u64>().ok()) {
        Some(number) => vec![Range { base, start: number, end: number.saturating_add(1) }],
        None => vec![Range { base: name, start: 0, end: 1 }],
    }
}

/// The registers of a value.
fn ranges(value: &Value) -> Vec<Range<'_>> {
    match value {
        Value::Reg(reg) => register_range(&reg.name),
        Value::Array(array) => {
            let end = array.start + array.len * array.element.registers();
            vec![Range { base: &array.base, start: array.start, end }]
        }
        Value::Tuple(parts) | Value::Struct(_, parts) | Value::List(_, parts) => {
            parts.iter().flat_map(ranges).collect()
        }
        Value::Address(address) => match &address.base {
            Base::Register(name) => register_range(name),
            Base::Variable(_) => Vec::new(),
        },
        Value::Const(_) | Value::Error => Vec::new(),
    }
}
