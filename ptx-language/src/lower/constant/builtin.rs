//! Functions and methods of constants: `min`, `div_ceil`, `size_of`, and helpers whose body is a constant expression.

use super::{Evaluated, Fail, Lowerer, not_constant, path_text};
use crate::lower::call::{Callee, Given};
use crate::scope::{Access, Binding};
use crate::tree::{self, BinaryOp, Expr, ExprKind, GenericArg, Ident, Path};
use crate::types::Const;
use crate::types::layout;
use crate::value::Value;
use crate::{rounding, types};
use ptx_core::diag::codes;
use ptx_core::span::Span;

fn method_of_int(name: &str, a: i128, b: Option<i128>) -> Option<Option<i128>> {
    let exponent = b.and_then(|b| u32::try_from(b).ok());
    let up = |b: i128| a.checked_add(b.checked_sub(1)?)?.checked_div_euclid(b);
    Some(match (name, b) {
        ("min", Some(b)) => Some(a.min(b)),
        ("max", Some(b)) => Some(a.max(b)),
        ("pow", Some(_)) => exponent.and_then(|b| a.checked_pow(b)),
        ("div_ceil", Some(b)) => up(b),
        ("next_multiple_of", Some(b)) => up(b).and_then(|n| n.checked_mul(b)),
        ("abs_diff", Some(b)) => a.checked_sub(b).map(i128::abs),
        ("rem_euclid", Some(b)) => a.checked_rem_euclid(b),
        ("ilog2", None) => (a > 0).then(|| i128::from(127 - a.leading_zeros())),
        ("next_power_of_two", None) => u64::try_from(a).ok()?.checked_next_power_of_two().map(i128::from),
        ("abs", None) => a.checked_abs(),
        ("count_ones", None) => Some(i128::from(a.count_ones())),
        ("trailing_zeros", None) => Some(i128::from(a.trailing_zeros())),
        _ => return None,
    })
}

fn method_of_float(name: &str, a: f64, b: Option<f64>) -> Option<f64> {
    match (name, b) {
        ("min", Some(b)) => Some(a.min(b)),
        ("max", Some(b)) => Some(a.max(b)),
        ("sqrt", None) => Some(a.sqrt()),
        ("recip", None) => Some(1.0 / a),
        ("abs", None) => Some(a.abs()),
        _ => None,
    }
}

impl<'a> Lowerer<'a> {
    pub(super) fn constant_method(
        &mut self,
        (receiver, name): (&Expr, &Ident),
        generics: &[GenericArg],
        args: &[Expr],
        span: Span,
    ) -> Evaluated {
        let at = receiver.span;
        let receiver = self.constant_followed(receiver)?;
        let mut args = self.constants(args)?;
        if let Const::Struct(ty, _) = &receiver {
            let Some(callee) = self.method(ty, &name.name).filter(|callee| callee.function.is_method()) else {
                return not_constant(span, format!("`{}` is no method of a constant", name.name));
            };
            args.insert(0, receiver);
            let given: Vec<Given<'_>> = args.into_iter().map(|arg| Given::Value(Value::Const(arg), at)).collect();
            return self.constant_function(callee, generics, &given, span);
        }
        let arg = args.pop();
        match (&receiver, &arg, name.name.as_str()) {
            (Const::Array(items), None, "len") => Ok(Const::Int(items.len() as i128, None)),
            (Const::Str(text), None, "len") => Ok(Const::Int(text.len() as i128, None)),
            (Const::Int(value, _), None, "is_power_of_two") => Ok(Const::Bool(*value > 0 && value & (value - 1) == 0)),
            (Const::Float(value, ty), None, "to_bits") => {
                let (exponent, mantissa) = ty.and_then(types::float_format).unwrap_or((11, 52));
                let ty = types::find(&format!("u{}", 1 + exponent + mantissa));
                Ok(Const::Int(i128::from(rounding::round(*value, exponent, mantissa)), ty))
            }
            (Const::Int(a, ty), b, method) => {
                let (b, other) = match b {
                    Some(Const::Int(b, other)) => (Some(*b), *other),
                    _ => (None, None),
                };
                match method_of_int(method, *a, b) {
                    Some(value) => self.checked(value, ty.or(other.filter(|_| method != "pow")), span),
                    None => self.no_constant_method(name),
                }
            }
            (Const::Float(a, ty), b, method) => {
                let b = match b {
                    Some(Const::Float(b, _)) => Some(*b),
                    _ => None,
                };
                match method_of_float(method, *a, b) {
                    Some(value) => Ok(Const::Float(value, *ty)),
                    None => self.no_constant_method(name),
                }
            }
            _ => self.no_constant_method(name),
        }
    }

    fn no_constant_method(&mut self, name: &Ident) -> Evaluated {
        let message = format!("constants have no method `{}`", name.name);
        let help = "there are `min`, `max`, `pow`, `div_ceil`, `next_multiple_of`, `ilog2`, `is_power_of_two`, \
                    `next_power_of_two`, `abs`, `count_ones`, `trailing_zeros`, `len`, `to_bits`, `sqrt`, `recip`";
        self.fail(&codes::P0813, name.span, message, help);
        Err(Fail::Reported)
    }

    pub(super) fn constant_call(&mut self, callee: &Expr, args: &[Expr], span: Span) -> Evaluated {
        let ExprKind::Path(path) = &callee.kind else { return not_constant(span, "this is no function") };
        if let Some(found) = self.find(path) {
            return match found.binding {
                Binding::Function(function) => {
                    let callee = Callee { function, home: found.scope, bound: Vec::new() };
                    self.constant_given(callee, path, args, span)
                }
                _ => not_constant(span, format!("`{}` is no function", path_text(path))),
            };
        }
        let given: Vec<Given<'_>> = args.iter().map(Given::Expr).collect();
        if let Some(callee) = self.associated_quietly(path, &given, span) {
            return self.constant_given(callee, path, args, span);
        }
        match (path.segments.last().map(|s| s.name.as_str()), args) {
            (Some("size_of"), []) => self.size_of(path, span),
            (Some("type_name"), []) => self.type_name(path, span),
            (Some(name @ ("min" | "max")), [a, b]) => {
                let (a, b) = (self.constant(a)?, self.constant(b)?);
                let less = self.constant_operation(BinaryOp::Lt, a.clone(), b.clone(), span)?;
                Ok(if (less == Const::Bool(true)) == (name == "min") { a } else { b })
            }
            _ => not_constant(span, format!("`{}` is no constant function", path_text(path))),
        }
    }

    fn size_of(&mut self, path: &Path, span: Span) -> Evaluated {
        let Some(GenericArg::Type(ty)) = path.args.first() else {
            return not_constant(span, "`size_of` needs a type: `size_of::<f32>()`");
        };
        let ty = self.ty(ty).ok_or(Fail::Reported)?;
        match layout::size_of(&ty) {
            Some(size) => Ok(Const::Int(i128::from(size), None)),
            None => not_constant(span, format!("memory holds no `{}`", ty.name())),
        }
    }

    /// The name that a type has in the kernel language: `"bf16"`.
    fn type_name(&mut self, path: &Path, span: Span) -> Evaluated {
        let Some(GenericArg::Type(ty)) = path.args.first() else {
            return not_constant(span, "`type_name` needs a type: `type_name::<f32>()`");
        };
        let ty = self.ty(ty).ok_or(Fail::Reported)?;
        Ok(Const::Str(ty.name()))
    }

    /// A call whose arguments must all be constants.
    fn constant_given(&mut self, callee: Callee<'a>, path: &Path, args: &[Expr], span: Span) -> Evaluated {
        if args.len() != callee.function.params.len() || callee.function.result.is_none() {
            return not_constant(span, format!("`{}` gives no constant", callee.function.name.name));
        }
        let values = self.constants(args)?;
        let given = values.into_iter().zip(args).map(|(value, arg)| Given::Value(Value::Const(value), arg.span));
        self.constant_function(callee, &path.args, &given.collect::<Vec<_>>(), span)
    }

    fn constant_function(
        &mut self,
        callee: Callee<'a>,
        written: &[GenericArg],
        args: &[Given<'_>],
        span: Span,
    ) -> Evaluated {
        let function = callee.function;
        if args.len() != function.params.len() || function.result.is_none() {
            return not_constant(span, format!("`{}` gives no constant", function.name.name));
        }
        let Some(generics) = self.generic_arguments(&callee, written, args, span) else { return Err(Fail::Reported) };
        if !function.external {
            self.out.helpers.insert(function.span);
        }
        self.begin_evaluation(0, &function.name.name, span)?;
        let current = self.scopes.current;
        let inner = self.scopes.open(Some(callee.home), true);
        for (name, binding) in callee.bound.into_iter().chain(generics) {
            self.scopes.bind(&name, binding);
        }
        let over = self.errors.over;
        if function.external {
            self.errors.over = over.or(Some(span));
        }
        let value = self.constant_body(function, args);
        self.errors.over = over;
        self.scopes.close(inner, current);
        self.evaluating.pop();
        value
    }

    fn constant_body(&mut self, function: &'a tree::Function, args: &[Given<'_>]) -> Evaluated {
        for (param, arg) in function.params.iter().zip(args) {
            let Given::Value(Value::Const(value), at) = arg else {
                return not_constant(param.name.span, "an argument");
            };
            let value = self.of_type(value.clone(), &param.ty, *at)?;
            self.scopes.bind_as(&param.name.name, Binding::Value(Value::Const(value)), Access::of(param));
        }
        let value = self.constant_block(&function.body)?;
        match &function.result {
            Some(ty) => self.of_type(value, ty, function.body.span),
            None => Ok(value),
        }
    }
}
