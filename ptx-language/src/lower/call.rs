//! Helpers: a call writes the helper's body where it stands; `#[noinline]` makes a `.func` and a `call`.

mod generic;
mod limits;
mod method;
mod outline;

pub(super) use generic::matched;

use super::Lowerer;
use super::access::Passed;
use super::code::Label;
use crate::address::Address;
use crate::scope::{Access, Binding, Found};
use crate::tree::{self, Expr, ExprKind, Param, Path, StmtKind};
use crate::types::{self, Const, Ty};
use crate::value::{Reg, Value};
use crate::{HelperCall, cuda, methods, prelude};
use ptx_core::diag::near::nearest;
use ptx_core::diag::{codes, plural};
use ptx_core::isa;
use ptx_core::span::Span;
use std::rc::Rc;

/// A function whose statements are being written.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Target of `return`; none in an entry or a `.func`, which return.
    pub(super) end: Option<Label>,
    /// Destination of its result.
    pub(super) dest: Option<Value>,
}

impl Frame {
    /// Returns true if `return` is `ret`.
    pub(super) fn returns(&self) -> bool {
        self.end.is_none()
    }
}

/// Generic parameters with their arguments.
type Bound<'a> = Vec<(String, Binding<'a>)>;

/// A function to call.
pub(super) struct Callee<'a> {
    /// The function.
    pub(super) function: &'a tree::Function,
    /// The scope of its declaration.
    pub(super) home: usize,
    /// The generic arguments of its `impl`, and `Self`.
    pub(super) bound: Bound<'a>,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(super) enum Given<'e> {
    /// As written.
    Expr(&'e Expr),
    /// The place in front of a method's dot, which is passed by reference where the method takes a reference.
    Receiver(&'e Expr),
    /// Evaluated: a receiver that is no place, a constant.
    Value(Value, Span),
}

impl Given<'_> {
    /// Its position in the source.
    pub(super) fn span(&self) -> Span {
        match self {
            Given::Expr(expr) | Given::Receiver(expr) => expr.span,
            Given::Value(_, span) => *span,
        }
    }
}

impl<'a> Lowerer<'a> {
    /// `f(a, b)`
    pub(super) fn call(&mut self, callee: &'a Expr, args: &'a [Expr], dest: Option<&Value>, span: Span) -> Value {
        let ExprKind::Path(path) = &callee.kind else {
            return self.fail(&codes::P0813, callee.span, "only functions can be called", "name a helper `fn`");
        };
        let reported = self.errors.reports;
        if let Some(value) = self.address_from(path, args, dest, callee.span) {
            return value;
        }
        let name = super::constant::path_text(path);
        let given: Vec<Given<'a>> = args.iter().map(Given::Expr).collect();
        let wanted = dest.and_then(Value::ty);
        match self.callee(path, &given, wanted.as_ref(), callee.span) {
            Some(function) => self.invoke(function, (&name, callee.span), &path.args, &given, dest, span),
            None if self.errors.reports > reported => Value::Error,
            None if self.find(path).is_some() => {
                self.fail(&codes::P0813, callee.span, format!("`{name}` is no function"), "name a helper `fn`")
            }
            None => match self.unknown_associated(path, callee.span) {
                Some(value) => value,
                None => self.unknown_function(&name, callee.span),
            },
        }
    }

    /// The function that a path names.
    pub(super) fn callee(
        &mut self,
        path: &Path,
        args: &[Given<'_>],
        wanted: Option<&Ty>,
        span: Span,
    ) -> Option<Callee<'a>> {
        match self.find(path) {
            Some(Found { binding: Binding::Function(function), scope, .. }) => {
                Some(Callee { function, home: scope, bound: Vec::new() })
            }
            Some(_) => None,
            None => self.associated(path, args, wanted, span),
        }
    }

    /// The associated function that a path names, if that is clear; nothing is reported.
    pub(super) fn associated_quietly(&mut self, path: &Path, args: &[Given<'_>], span: Span) -> Option<Callee<'a>> {
        let reported = self.errors.found.len();
        let callee = self.associated(path, args, None, span);
        self.errors.take_back(reported);
        callee
    }

    /// Calls a function with arguments of which the receiver is the first.
    pub(super) fn invoke(
        &mut self,
        callee: Callee<'a>,
        (name, at): (&str, Span),
        written: &[tree::GenericArg],
        args: &[Given<'a>],
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let function = callee.function;
        if args.len() != function.params.len() {
            let message = format!("`{name}` takes {}, not {}", plural(function.params.len(), "argument"), args.len());
            return self.fail(&codes::P0811, span, message, format!("it is `fn {}`", signature(function)));
        }
        let address = std::ptr::from_ref(function) as usize;
        if self.expanding.contains(&address) {
            let help = "a helper is written where it is called: use a loop";
            return self.fail(&codes::P0810, span, format!("`{name}` calls itself"), help);
        }
        if self.f.code.full || self.is_too_long(span) {
            return Value::Error;
        }
        if function.cooperative && !self.f.cooperative {
            let message = format!("`{name}` waits for all blocks of the grid, and the launch is not cooperative");
            let help =
                "write `cooperative` in the kernel's attribute: a launch starts all blocks at once then, or fails";
            return self.fail(&codes::P0905, at, message, help);
        }
        let Some(generics) = self.generic_arguments(&callee, written, args, at) else { return Value::Error };
        if function.external && self.errors.over.is_none() && !self.fits_block(name, &generics, at) {
            return Value::Error;
        }
        if self.variant.traced && self.errors.over.is_none() {
            let helper = (!function.external).then_some(function.span);
            self.out.calls.push(HelperCall {
                helper,
                name: written_call(name, &generics),
                left_out: generic::left_out(function, written),
                at: span,
            });
        }
        let caller = self.scopes.current;
        let inner = self.scopes.open(Some(callee.home), true);
        for (name, binding) in callee.bound.into_iter().chain(generics) {
            self.scopes.bind(&name, binding);
        }
        if !function.external {
            self.out.helpers.insert(function.span);
        }
        let value = if function.noinline {
            self.call_outlined(function, (caller, inner), args, dest, span)
        } else {
            self.expand(function, (caller, inner), args, dest, span)
        };
        self.scopes.close(inner, caller);
        value
    }

    /// Runs `write` while a helper counts as one that is being expanded: behind its arguments, which are its caller's.
    fn within<T>(&mut self, function: &'a tree::Function, write: impl FnOnce(&mut Self) -> T) -> T {
        self.expanding.push(std::ptr::from_ref(function) as usize);
        let value = write(self);
        self.expanding.pop();
        value
    }

    fn unknown_function(&mut self, name: &str, span: Span) -> Value {
        match name {
            "wide" => {
                let help = "write `wide(a) * b`, or `a as u64`";
                self.fail(&codes::P0803, span, "`wide` is one side of a `*`: `mul.wide`", help)
            }
            "min" | "max" => {
                let help = format!("write the method, `a.{name}(b)`");
                self.fail(&codes::P0801, span, format!("the function `{name}` is for constants"), help)
            }
            _ => {
                let help = match cuda::here(name) {
                    Some(here) => format!("it is `{here}` here"),
                    None => self.helper_like(name),
                };
                self.fail(&codes::P0801, span, format!("no function here is called `{name}`"), help)
            }
        }
    }

    /// A likely meaning of a function that does not exist.
    fn helper_like(&self, name: &str) -> String {
        let in_library = name.split_once("::").and_then(|(module, function)| {
            if types::find(module).is_some() {
                return Some(Self::method_like(function));
            }
            let Some(source) = prelude::source(module) else { return self.in_module_like(module, function) };
            let helpers = prelude::helpers(source);
            let kin =
                |name: &&str| function.rsplit_once('_').is_some_and(|(kind, _)| name.starts_with(&format!("{kind}_")));
            let all = helpers.iter().map(|helper| helper.name.as_str());
            let found: Vec<&str> = match all.clone().filter(kin).collect::<Vec<_>>() {
                kin if kin.is_empty() => nearest(function, all).into_iter().collect(),
                kin => kin,
            };
            let names: Vec<String> = found.iter().map(|name| format!("`{module}::{name}`")).collect();
            Some(match names.as_slice() {
                [] => format!("`ptx library {module}` shows what it has"),
                [only] => format!("there is {only}"),
                several => format!("there are {}", several.join(", ")),
            })
        });
        let near = || self.scopes.misses.nearest(name, self.scopes.visible()).map(|near| format!("there is `{near}`"));
        in_library.or_else(near).unwrap_or_else(|| {
            let seen = "a kernel calls the functions in its body and in its `#[ptx_module]`";
            format!("{seen}: write `fn {name}(…) {{ … }}` there")
        })
    }

    /// A likely meaning of a path whose module is no module of the library.
    fn in_module_like(&self, module: &str, function: &str) -> Option<String> {
        let own = self.module.modules.iter().map(|(name, inner)| (name.name.as_str(), inner));
        let Some((_, inner)) = own.clone().find(|(name, _)| *name == module) else {
            let names = prelude::FILES.iter().map(|(name, _)| *name).chain(own.map(|(name, _)| name));
            return nearest(module, names).map(|near| format!("there is the module `{near}`"));
        };
        let functions = inner.functions.iter().map(|function| function.name.name.as_str());
        Some(match self.scopes.misses.nearest(function, functions) {
            Some(near) => format!("there is `{module}::{near}`"),
            None => format!("write `fn {function}(…) {{ … }}` in the module `{module}`"),
        })
    }

    /// The help for `f32::NAME`, a function of Rust's library.
    fn method_like(name: &str) -> String {
        if methods::exists(name) { format!("write the method, `a.{name}(…)`") } else { Self::instruction_like(name) }
    }

    /// The help for a mathematical function: one of the library, or an instruction.
    pub(super) fn instruction_like(name: &str) -> String {
        let in_library = prelude::source("math").map(prelude::helpers).into_iter().flatten();
        if in_library.into_iter().any(|helper| helper.name == name) {
            return format!("write `math::{name}(x)`");
        }
        match isa::table().forms(name) {
            [] => "write other instructions in `ptx! { … }`, or a helper `fn`".to_owned(),
            _ => format!("write the instruction in `ptx! {{ … }}`; `ptx isa {name}` shows its forms"),
        }
    }

    /// Writes a helper's body here.
    fn expand(
        &mut self,
        function: &'a tree::Function,
        (caller, inner): (usize, usize),
        args: &[Given<'a>],
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        if !self.arguments(function, (caller, inner), args) {
            return Value::Error;
        }
        let over = self.errors.over;
        if function.external {
            self.errors.over = over.or(Some(span));
        }
        let value = self.within(function, |lowerer| lowerer.body(function, dest, span));
        self.errors.over = over;
        value
    }

    fn body(&mut self, function: &'a tree::Function, dest: Option<&Value>, span: Span) -> Value {
        let result = match &function.result {
            Some(ty) => match self.ty(ty) {
                Some(ty) => Some(ty),
                None => return Value::Error,
            },
            None => None,
        };
        if let (Some(Ty::Struct(of)), Some(place)) = (&result, dest)
            && *place != Value::Error
            && place.ty() != result
        {
            return self.mismatch(&Value::Struct(Rc::clone(of), Vec::new()), place, span);
        }
        let dest = result.map(|ty| match dest {
            Some(dest) => dest.clone(),
            None => self.unnamed(&function.name.name, &ty, span),
        });
        let end = self.f.code.label(&format!("${}_end", function.name.name));
        self.f.frames.push(Frame { end: Some(end), dest: dest.clone() });
        self.statements(&function.body, dest.as_ref());
        self.f.frames.pop();
        if dest.is_some() && !self.gives(function) {
            return self.no_result(function);
        }
        self.place(end, function.span);
        dest.unwrap_or_else(Value::unit)
    }

    /// Returns true if a body that is written ended in a value or a jump.
    fn gives(&self, function: &tree::Function) -> bool {
        self.f.code.dead || matches!(function.body.stmts.last().map(|stmt| &stmt.kind), Some(StmtKind::Expr(_, false)))
    }

    fn no_result(&mut self, function: &tree::Function) -> Value {
        let message = format!("`{}` can end without giving its result", function.name.name);
        let help = "end it with an expression without `;`, or with `return`";
        self.fail(&codes::P0811, function.name.span, message, help)
    }

    /// Gives the parameters their meaning: the registers that are passed, or new ones that hold the value.
    fn arguments(&mut self, function: &'a tree::Function, (caller, inner): (usize, usize), args: &[Given<'a>]) -> bool {
        let mut right = true;
        for (param, arg) in function.params.iter().zip(args) {
            self.scopes.current = caller;
            let binding = self.argument(param, (caller, inner), arg);
            right &= !matches!(binding, Binding::Error);
            self.scopes.current = inner;
            self.scopes.bind_as(&param.name.name, binding, Access::of(param));
        }
        right && self.are_apart(function, args)
    }

    fn argument(&mut self, param: &'a Param, (caller, inner): (usize, usize), arg: &Given<'a>) -> Binding<'a> {
        let place = match arg {
            Given::Value(value, at) => return self.evaluated(param, inner, value, *at),
            _ => self.passing(param, arg),
        };
        let Some(Passed { expr, follows }) = place else { return Binding::Error };
        if let Some(binding) = self.struct_argument(param, expr, inner) {
            return binding;
        }
        if Access::of(param).only_reads()
            && let Ok(value) = if follows { self.constant_followed_quietly(expr) } else { self.constant_quietly(expr) }
        {
            self.scopes.current = inner;
            return match self.of_type(value, &param.ty, expr.span) {
                Ok(value) => Binding::Value(Value::Const(value)),
                Err(_) => Binding::Error,
            };
        }
        self.scopes.current = inner;
        let Some(ty) = self.ty(&param.ty) else { return Binding::Error };
        self.scopes.current = caller;
        let value = match is_place(expr) && !param.mutable && self.special(expr).is_none() {
            true if follows => self.followed(expr),
            true => self.value(expr),
            // The constant in an address travels on.
            false if matches!(ty, Ty::Address(_)) && !param.mutable => self.value(expr),
            false => self.computed(param, &ty, expr),
        };
        self.passed(value, &ty, param, expr.span)
    }

    /// An argument that has its value already: a receiver.
    fn evaluated(&mut self, param: &'a Param, inner: usize, value: &Value, span: Span) -> Binding<'a> {
        self.scopes.current = inner;
        let Some(ty) = self.ty(&param.ty) else { return Binding::Error };
        if param.mutable {
            let copy = self.declare_named(&param.name.name, &ty, span);
            return Binding::Value(self.store(value.clone(), Some(&copy), span));
        }
        match value {
            Value::Const(_) if Access::of(param) == Access::RefMut => {
                self.not_assignable("a constant".to_owned(), span);
                Binding::Error
            }
            Value::Const(constant) => {
                self.of_ty(constant.clone(), &ty, span).map_or(Binding::Error, |c| Binding::Value(Value::Const(c)))
            }
            value => self.passed(value.clone(), &ty, param, span),
        }
    }

    /// A struct parameter of the kernel is passed on as it is.
    fn struct_argument(&mut self, param: &'a Param, arg: &Expr, inner: usize) -> Option<Binding<'a>> {
        let binding = match &arg.kind {
            ExprKind::Path(path) => self.find(path)?.binding,
            _ => Binding::Param(self.argument_field(arg)?),
        };
        let own = match &binding {
            Binding::Param(index) => self.f.params.get(*index)?.structure()?,
            Binding::Arguments(index) => self.arguments_type(*index)?,
            _ => return None,
        };
        let caller = std::mem::replace(&mut self.scopes.current, inner);
        let wanted = self.ty(&param.ty);
        self.scopes.current = caller;
        (wanted == Some(Ty::Struct(own))).then_some(binding)
    }

    fn computed(&mut self, param: &Param, ty: &Ty, arg: &'a Expr) -> Value {
        let dest = self.declare_named(&param.name.name, ty, arg.span);
        self.lower(arg, Some(&dest))
    }

    fn passed(&mut self, value: Value, ty: &Ty, param: &Param, span: Span) -> Binding<'a> {
        self.fitting(value, ty, &param.name.name, span).map_or(Binding::Error, Binding::Value)
    }

    /// A value as one of this type, for the parameter or field `name`.
    pub(super) fn fitting(&mut self, value: Value, ty: &Ty, name: &str, span: Span) -> Option<Value> {
        Some(match (value, ty) {
            (Value::Error, _) => return None,
            (Value::Reg(reg), Ty::Scalar(ty)) if types::meet(reg.ty, *ty) => Value::Reg(Reg { ty: *ty, ..reg }),
            (Value::Address(address), Ty::Address(ty)) if address.ty.becomes(ty) => {
                Value::Address(Address { ty: Rc::clone(ty), ..address })
            }
            (Value::Address(address), Ty::Scalar(ty))
                if Self::holds_address(&address.ty, &Reg { name: String::new(), ty: *ty }) =>
            {
                match address.in_register() {
                    Some(name) => Value::Reg(Reg { name: name.to_owned(), ty: *ty }),
                    None => {
                        let reg = self.register(name, *ty, span);
                        self.materialized(&address, Some(reg.clone()), span);
                        Value::Reg(reg)
                    }
                }
            }
            (value @ (Value::Array(_) | Value::Tuple(_) | Value::Struct(..) | Value::List(..)), ty)
                if value.ty().as_ref() == Some(ty) =>
            {
                value
            }
            (value, ty) => {
                let (from, to) = (value.describe(), ty.name());
                let message = format!("this is {from}, and `{name}` is `{to}`");
                let help = match ty {
                    Ty::Scalar(_) => format!("convert it: `… as {to}`"),
                    Ty::Address(to) => Self::address_help(&value, to),
                    _ => format!("pass a `{to}`"),
                };
                self.fail(&codes::P0802, span, message, help);
                return None;
            }
        })
    }

    /// `return x`
    pub(super) fn return_from(&mut self, value: Option<&'a Expr>, span: Span) -> Value {
        let Some(frame) = self.f.frames.last().cloned() else { return Value::Error };
        match (value, &frame.dest) {
            (Some(value), Some(dest)) => {
                self.lower(value, Some(dest));
            }
            (Some(value), None) => {
                let is_kernel = self.f.frames.len() == 1;
                let (message, help) = match is_kernel {
                    true => {
                        ("a kernel has no result", "write results through a `&mut [T]` parameter, and `return` alone")
                    }
                    false => ("this function has no result", "write its type behind `->`, or `return` alone"),
                };
                return self.fail(&codes::P0811, value.span, message, help);
            }
            (None, Some(_)) => {
                return self.fail(&codes::P0811, span, "this function has a result", "write `return` with a value");
            }
            (None, None) => {}
        }
        match frame.end {
            Some(end) => self.jump(end, "", span),
            None => self.ret(span),
        }
        Value::unit()
    }

    /// `ret`, if anything gets here.
    pub(super) fn ret(&mut self, span: Span) {
        if !self.f.code.dead {
            self.inst("ret", span);
            self.f.code.dead = true;
        }
    }
}

/// Returns true if it names a register, so that it is passed as it is.
pub(super) fn is_place(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Path(_) => true,
        ExprKind::Field(base, _) | ExprKind::Index(base, _) | ExprKind::Ref(_, base) | ExprKind::Deref(base) => {
            is_place(base)
        }
        ExprKind::Tuple(items) => items.iter().all(is_place),
        _ => false,
    }
}

/// `scale::<f32, 4>`
fn written_call(name: &str, generics: &[(String, Binding<'_>)]) -> String {
    let text = |(_, binding): &(String, Binding<'_>)| match binding {
        Binding::Type(ty) => ty.name(),
        Binding::Value(Value::Const(Const::Struct(ty, _))) => format!("{} {{ … }}", ty.name),
        Binding::Value(Value::Const(Const::Str(text))) => format!("\"{text}\""),
        Binding::Value(Value::Const(value)) => value.text(),
        _ => "_".to_owned(),
    };
    let generics: Vec<String> = generics.iter().map(text).collect();
    if generics.is_empty() { name.to_owned() } else { format!("{name}::<{}>", generics.join(", ")) }
}

/// `wait(bar, phase)`
fn signature(function: &tree::Function) -> String {
    let names: Vec<_> = function.params.iter().map(|param| param.name.name.as_str()).collect();
    format!("{}({})", function.name.name, names.join(", "))
}
