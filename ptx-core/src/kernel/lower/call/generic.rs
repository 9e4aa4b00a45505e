//! Generic arguments of a helper: written, or found from the types of what is passed.

use super::super::Lowerer;
use crate::diag::{codes, plural};
use crate::kernel::scope::Binding;
use crate::kernel::tree::{self, Expr, ExprKind, Function, Generic, GenericArg, Path, TypeKind};
use crate::kernel::types::{self, Ty};
use crate::kernel::value::{Const, Value};
use crate::span::Span;

impl<'a> Lowerer<'a> {
    /// What each generic parameter of a function is in this call.
    pub(in super::super) fn generic_arguments(
        &mut self,
        function: &'a Function,
        path: &Path,
        args: &[Expr],
        span: Span,
    ) -> Option<Vec<(String, Binding<'a>)>> {
        if function.generics.is_empty() && path.args.is_empty() {
            return Some(Vec::new());
        }
        if path.args.len() > function.generics.len() {
            let (takes, has) = (function.generics.len(), path.args.len());
            let message = format!("`{}` takes {}, not {has}", function.name.name, plural(takes, "generic argument"));
            self.fail(&codes::P0811, span, message, "write one for each, or none where the types say them");
            return None;
        }
        let mut bound = Vec::new();
        for (at, generic) in function.generics.iter().enumerate() {
            let binding = match path.args.get(at) {
                Some(arg) => self.generic_argument(generic, arg)?,
                None => self.inferred_argument(generic, function, args, span)?,
            };
            bound.push((generic.name.name.clone(), binding));
        }
        Some(bound)
    }

    /// One argument as it is written.
    pub(in super::super) fn generic_argument(&mut self, generic: &Generic, arg: &GenericArg) -> Option<Binding<'a>> {
        match (&generic.constant, arg) {
            (Some(ty), GenericArg::Const(expr)) => self.constant_argument(expr, ty),
            (Some(ty), GenericArg::Type(tree::Type { kind: TypeKind::Path(path), span })) if !is_type(path) => {
                self.constant_argument(&Expr { kind: ExprKind::Path(path.clone()), span: *span }, ty)
            }
            (None, GenericArg::Type(ty)) => self.ty(ty).map(Binding::Type),
            _ => {
                let kind = if generic.constant.is_some() { "a constant" } else { "a type" };
                let span = match arg {
                    GenericArg::Type(ty) => ty.span,
                    GenericArg::Const(expr) => expr.span,
                };
                let message = format!("the generic parameter `{}` is {kind}", generic.name.name);
                let help = format!("write {kind}; the arguments have the order of the parameters");
                self.fail(&codes::P0811, span, message, help);
                None
            }
        }
    }

    fn constant_argument(&mut self, expr: &Expr, ty: &tree::Type) -> Option<Binding<'a>> {
        let value = self.require_constant(expr)?;
        self.of_type(value, ty, expr.span).ok().map(|value| Binding::Value(Value::Const(value)))
    }

    fn inferred_argument(
        &mut self,
        generic: &Generic,
        function: &Function,
        args: &[Expr],
        span: Span,
    ) -> Option<Binding<'a>> {
        for (param, arg) in function.params.iter().zip(args) {
            if let Some(actual) = self.type_of(arg)
                && let Some(binding) = matched(&param.ty, &actual, &generic.name.name)
            {
                return Some(binding);
            }
        }
        let name = &generic.name.name;
        let message = format!("nothing says what `{name}` of `{}` is", function.name.name);
        self.fail(&codes::P0811, span, message, format!("write it: `{}::<…>(…)`", function.name.name));
        None
    }
}

/// What `name` must be for a parameter of type `written` to hold a value of type `actual`.
fn matched<'a>(written: &tree::Type, actual: &Ty, name: &str) -> Option<Binding<'a>> {
    match (&written.kind, actual) {
        (TypeKind::Path(path), actual) => {
            let lone = matches!(path.segments.as_slice(), [segment] if segment.name == name);
            lone.then(|| Binding::Type(actual.clone()))
        }
        (TypeKind::Array(element, len), Ty::Array(inner, count)) => match &len.kind {
            ExprKind::Path(path) if matches!(path.segments.as_slice(), [segment] if segment.name == name) => {
                Some(Binding::Value(Value::Const(Const::Int(i128::from(*count), None))))
            }
            _ => matched(element, inner, name),
        },
        (TypeKind::Tuple(written), Ty::Tuple(actual)) => {
            written.iter().zip(actual).find_map(|(written, actual)| matched(written, actual, name))
        }
        (TypeKind::Ref(_, inner), actual) => matched(inner, actual, name),
        _ => None,
    }
}

impl Lowerer<'_> {
    /// The type of a call's result.
    pub(in super::super) fn call_type(&mut self, callee: &Expr, args: &[Expr]) -> Option<Ty> {
        let ExprKind::Path(path) = &callee.kind else { return None };
        let found = self.find(path)?;
        let Binding::Function(function) = found.binding else { return None };
        let generics = self.generic_arguments(function, path, args, callee.span)?;
        let caller = self.scopes.current;
        let inner = self.scopes.open(Some(found.scope), true);
        for (name, binding) in generics {
            self.scopes.bind(&name, binding);
        }
        let ty = function.result.as_ref().and_then(|ty| self.ty(ty));
        self.scopes.close(inner, caller);
        ty
    }
}

/// Whether this is the name of a type, and of nothing else.
fn is_type(path: &Path) -> bool {
    matches!(path.segments.as_slice(), [name] if types::find(&name.name).is_some())
}
