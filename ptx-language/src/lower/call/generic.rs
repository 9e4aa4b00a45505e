//! Generic arguments of a helper: written, or found from the types of what is passed.

use super::super::Lowerer;
use super::{Bound, Callee, Given};
use crate::scope::Binding;
use crate::tree::{self, Expr, ExprKind, Function, Generic, GenericArg, Ident, Path, TypeKind};
use crate::types::{self, Argument, Const, Ty};
use crate::value::Value;
use ptx_core::diag::{codes, plural};
use ptx_core::span::Span;

impl<'a> Lowerer<'a> {
    /// The value of each generic parameter of a function in this call.
    pub(in super::super) fn generic_arguments(
        &mut self,
        callee: &Callee<'a>,
        written: &[GenericArg],
        args: &[Given<'_>],
        span: Span,
    ) -> Option<Bound<'a>> {
        let function = callee.function;
        if function.generics.is_empty() && written.is_empty() {
            return Some(Vec::new());
        }
        if written.len() > function.generics.len() {
            let (takes, has) = (function.generics.len(), written.len());
            let message = format!("`{}` takes {}, not {has}", function.name.name, plural(takes, "generic argument"));
            let names: Vec<String> =
                function.generics.iter().map(|generic| format!("`{}`", generic.name.name)).collect();
            let help = match names.as_slice() {
                [] => "remove the `::<…>`".to_owned(),
                names => format!("it takes {}", names.join(", ")),
            };
            self.fail(&codes::P0811, span, message, help);
            return None;
        }
        let mut bound = Vec::new();
        for (at, generic) in function.generics.iter().enumerate() {
            let binding = match written.get(at) {
                Some(arg) => self.generic_argument(generic, arg, callee.home)?,
                None => self.inferred_argument(generic, callee, args, (written.len(), span))?,
            };
            bound.push((generic.name.name.clone(), binding));
        }
        Some(bound)
    }

    /// One argument as it is written, for a parameter that is declared in `home`.
    pub(in super::super) fn generic_argument(
        &mut self,
        generic: &Generic,
        arg: &GenericArg,
        home: usize,
    ) -> Option<Binding<'a>> {
        match (&generic.constant, arg) {
            (Some(ty), GenericArg::Const(expr)) => self.constant_argument(expr, ty, home),
            (Some(ty), GenericArg::Type(tree::Type { kind: TypeKind::Path(path), span })) if !is_type(path) => {
                self.constant_argument(&Expr { kind: ExprKind::Path(path.clone()), span: *span }, ty, home)
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

    fn constant_argument(&mut self, expr: &Expr, ty: &tree::Type, home: usize) -> Option<Binding<'a>> {
        let value = self.require_constant(expr)?;
        self.typed_constant(value, ty, home, expr.span)
    }

    fn typed_constant(&mut self, value: Const, ty: &tree::Type, home: usize, span: Span) -> Option<Binding<'a>> {
        let current = std::mem::replace(&mut self.scopes.current, home);
        let value = self.of_type(value, ty, span);
        self.scopes.current = current;
        value.ok().map(|value| Binding::Value(Value::Const(value)))
    }

    /// An inferred argument, as one of the type that its parameter has.
    pub(in super::super) fn typed_generic(
        &mut self,
        generic: &Generic,
        found: Binding<'a>,
        home: usize,
        span: Span,
    ) -> Option<Binding<'a>> {
        match (&generic.constant, found) {
            (Some(ty), Binding::Value(Value::Const(value))) => self.typed_constant(value, ty, home, span),
            (None, found @ Binding::Type(_)) => Some(found),
            _ => None,
        }
    }

    /// The argument that the types of a call's arguments say.
    pub(in super::super) fn argument_for(
        &mut self,
        generic: &Generic,
        function: &Function,
        args: &[Given<'_>],
    ) -> Option<Binding<'a>> {
        for (param, arg) in function.params.iter().zip(args) {
            let actual = match arg {
                Given::Expr(arg) | Given::Receiver(arg) => self.type_of(arg),
                Given::Value(value, _) => value.ty(),
            };
            if let Some(actual) = actual
                && let Some(binding) = matched(&param.ty, &actual, &generic.name.name)
            {
                return Some(binding);
            }
        }
        None
    }

    fn inferred_argument(
        &mut self,
        generic: &Generic,
        callee: &Callee<'a>,
        args: &[Given<'_>],
        (written, span): (usize, Span),
    ) -> Option<Binding<'a>> {
        let function = callee.function;
        if let Some(found) = self.argument_for(generic, function, args) {
            return self.typed_generic(generic, found, callee.home, span);
        }
        let name = &generic.name.name;
        let own = &function.name.name;
        let message = match written {
            0 => format!("nothing says what `{name}` of `{own}` is"),
            _ => {
                let takes = plural(function.generics.len(), "generic argument");
                format!("`{own}` takes {takes}, not {written}: nothing says what `{name}` is")
            }
        };
        let all: Vec<&str> = function.generics.iter().map(|generic| generic.name.name.as_str()).collect();
        self.fail(&codes::P0811, span, message, format!("write it: `{}::<{}>(…)`", function.name.name, all.join(", ")));
        None
    }
}

/// The generic parameters that a call names and those that it leaves to the types of its arguments, if there are both.
pub(super) fn left_out(function: &Function, written: &[GenericArg]) -> Option<(String, String)> {
    let names: Vec<String> = function.generics.iter().map(|generic| format!("`{}`", generic.name.name)).collect();
    let (named, left) = names.split_at_checked(written.len())?;
    (!named.is_empty() && !left.is_empty()).then(|| (named.join(", "), left.join(", ")))
}

/// The value of `name` with which a parameter of type `written` holds a value of type `actual`.
pub(in super::super) fn matched<'a>(written: &tree::Type, actual: &Ty, name: &str) -> Option<Binding<'a>> {
    match (&written.kind, actual) {
        (TypeKind::Path(path), Ty::Struct(of)) if !path.args.is_empty() => {
            path.args.iter().zip(&of.args).find_map(|(written, actual)| matched_argument(written, actual, name))
        }
        (TypeKind::Path(path), Ty::Address(of)) if !path.args.is_empty() => match path.args.as_slice() {
            [GenericArg::Type(written)] => matched(written, &of.element, name),
            _ => None,
        },
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

/// The same for a generic argument of a struct.
fn matched_argument<'a>(written: &GenericArg, actual: &Argument, name: &str) -> Option<Binding<'a>> {
    let lone = |path: &Path| matches!(path.segments.as_slice(), [segment] if segment.name == name);
    match (written, actual) {
        (GenericArg::Type(ty), Argument::Type(actual)) => matched(ty, actual, name),
        (GenericArg::Type(tree::Type { kind: TypeKind::Path(path), .. }), Argument::Const(value))
        | (GenericArg::Const(Expr { kind: ExprKind::Path(path), .. }), Argument::Const(value))
            if lone(path) =>
        {
            Some(Binding::Value(Value::Const(value.clone())))
        }
        _ => None,
    }
}

impl<'a> Lowerer<'a> {
    /// The type of a call's result.
    pub(in super::super) fn call_type(&mut self, callee: &Expr, args: &[Expr]) -> Option<Ty> {
        let ExprKind::Path(path) = &callee.kind else { return None };
        if let Some(ty) = self.address_from_type(path, callee.span) {
            return Some(ty);
        }
        let given: Vec<Given<'_>> = args.iter().map(Given::Expr).collect();
        let called = self.callee(path, &given, None, callee.span)?;
        self.result_type(called, &path.args, &given, callee.span)
    }

    /// The type of a method's result.
    pub(in super::super) fn method_type(
        &mut self,
        (receiver, name): (&Expr, &Ident),
        generics: &[GenericArg],
        args: &[Expr],
    ) -> Option<Ty> {
        let callee = match self.type_of(receiver)? {
            Ty::Struct(ty) => self.method(&ty, &name.name)?,
            Ty::Address(ty) => match self.address_callee(&ty, &name.name) {
                Some(callee) => callee,
                None => return self.address_method_type(&ty, &name.name, generics, args.len()),
            },
            Ty::Scalar(ty) => return self.register_method_type(ty, &name.name, args),
            _ => return None,
        };
        let given: Vec<Given<'_>> = std::iter::once(receiver).chain(args).map(Given::Expr).collect();
        self.result_type(callee, generics, &given, name.span)
    }

    fn result_type(
        &mut self,
        callee: Callee<'a>,
        written: &[GenericArg],
        args: &[Given<'_>],
        span: Span,
    ) -> Option<Ty> {
        let generics = self.generic_arguments(&callee, written, args, span)?;
        let caller = self.scopes.current;
        let inner = self.scopes.open(Some(callee.home), true);
        for (name, binding) in callee.bound.into_iter().chain(generics) {
            self.scopes.bind(&name, binding);
        }
        let ty = callee.function.result.as_ref().and_then(|ty| self.ty(ty));
        self.scopes.close(inner, caller);
        ty
    }
}

/// Returns true if this is the name of a type, and of nothing else.
fn is_type(path: &Path) -> bool {
    matches!(path.segments.as_slice(), [name] if types::find(&name.name).is_some())
}
