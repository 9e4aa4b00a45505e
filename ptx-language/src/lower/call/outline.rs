//! `#[noinline]`: the helper as a `.func` of its own, with registers as parameters, and `call`.

use super::{Frame, Given, Lowerer};
use crate::address::{Address, Base};
use crate::lower::access::Passed;
use crate::lower::kernel::frame_text;
use crate::scope::{Access, Binding};
use crate::tree::{Function, Param};
use crate::types::{self, Ty};
use crate::value::{Reg, Value};
use ptx_core::diag::codes;
use ptx_core::isa::Type;
use ptx_core::span::Span;
use std::rc::Rc;

impl<'a> Lowerer<'a> {
    /// `call (result), f, (a, b);`
    pub(super) fn call_outlined(
        &mut self,
        function: &'a Function,
        (caller, inner): (usize, usize),
        args: &[Given<'a>],
        dest: Option<&Value>,
        span: Span,
    ) -> Value {
        let Some((params, result)) = self.outline_types(function) else { return Value::Error };
        let Some(name) = self.within(function, |lowerer| lowerer.outlined(function, inner)) else {
            return Value::Error;
        };
        self.scopes.current = caller;
        let mut passed = Vec::new();
        for ((param, ty), arg) in function.params.iter().zip(&params).zip(args) {
            let Some(value) = self.outlined_argument(&function.name.name, (param, ty), arg) else {
                return Value::Error;
            };
            registers(&value, &mut passed);
        }
        let result = result.map(|ty| match dest {
            Some(dest) => dest.clone(),
            None => self.unnamed(&function.name.name, &ty, span),
        });
        let mut returned = Vec::new();
        result.iter().for_each(|value| registers(value, &mut returned));
        let returned = if returned.is_empty() { String::new() } else { format!("({}), ", list(&returned)) };
        let passed = if passed.is_empty() { String::new() } else { format!(", ({})", list(&passed)) };
        self.inst(&format!("call {returned}{name}{passed}"), span);
        result.unwrap_or_else(Value::unit)
    }

    /// An argument in registers: those that hold it already, or new ones.
    fn outlined_argument(&mut self, name: &str, (param, ty): (&Param, &Ty), arg: &Given<'a>) -> Option<Value> {
        let (value, at) = match arg {
            Given::Value(value, at) => (value.clone(), *at),
            _ => {
                let Passed { expr, .. } = self.passing(param, arg)?;
                if !super::is_place(expr) || self.special(expr).is_some() {
                    let dest = self.unnamed(name, ty, expr.span);
                    return Some(self.lower(expr, Some(&dest)));
                }
                (self.followed(expr), expr.span)
            }
        };
        let fits = match (&value, ty) {
            (Value::Reg(reg), Ty::Scalar(ty)) => types::meet(reg.ty, *ty),
            (Value::Const(_), _) => false,
            (Value::Address(address), Ty::Address(ty)) => address.in_register().is_some() && address.ty.becomes(ty),
            (Value::Address(_), _) => false,
            _ => value.ty().as_ref() == Some(ty),
        };
        if fits {
            return Some(value);
        }
        let dest = self.unnamed(name, ty, at);
        Some(self.store(value, Some(&dest), at))
    }

    /// The name of the `.func`, written at its first call.
    pub(in super::super) fn outlined(&mut self, function: &'a Function, inner: usize) -> Option<String> {
        let generics: Vec<String> = function
            .generics
            .iter()
            .filter_map(|generic| self.scopes.find_in(inner, &generic.name.name))
            .map(|binding| match binding {
                Binding::Type(ty) => ty.name(),
                Binding::Value(Value::Const(value)) => value.text(),
                _ => String::new(),
            })
            .collect();
        let key = (std::ptr::from_ref(function) as usize, generics.join("_"));
        if let Some(name) = self.out.called.get(&key) {
            return Some(name.clone());
        }
        let suffix = if generics.is_empty() { String::new() } else { format!("_{}", generics.join("_")) };
        let plain = format!("{}{suffix}", function.name.name);
        let name =
            Rc::make_mut(&mut self.out.symbols).unique(&plain.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        self.out.called.insert(key, name.clone());
        self.write_function(function, &name, inner)?;
        Some(name)
    }

    fn outline_types(&mut self, function: &'a Function) -> Option<(Vec<Ty>, Option<Ty>)> {
        if let Some(changed) = function.params.iter().find(|param| Access::of(param) == Access::RefMut) {
            let message = "a `#[noinline]` helper has registers of its own, and cannot change its caller's";
            self.fail(
                &codes::P0811,
                changed.ty.span,
                message,
                "give the value back as the result, or inline the helper",
            );
            return None;
        }
        let params: Vec<Ty> = function.params.iter().map(|param| self.ty(&param.ty)).collect::<Option<_>>()?;
        let result = match &function.result {
            Some(ty) => Some(self.ty(ty)?),
            None => None,
        };
        let mut all = Vec::new();
        params.iter().chain(&result).for_each(|ty| scalars(ty, &mut all));
        if let Some(small) = all.iter().find(|ty| ty.bits() < 32) {
            let message = format!("a `{}` cannot be passed to a `.func`", types::name(*small));
            self.fail(&codes::P0811, function.name.span, message, "pass a `u32`, or inline the helper");
            return None;
        }
        Some((params, result))
    }

    fn write_function(&mut self, function: &'a Function, name: &str, inner: usize) -> Option<()> {
        let (params, result) = self.outline_types(function)?;
        let body = self.new_body(self.f.lineinfo);
        let outer = std::mem::replace(&mut self.f, body);
        let loops_over = self.errors.over;
        self.scopes.current = inner;
        let result = result.map(|ty| self.declare_named(&function.name.name, &ty, function.name.span));
        let result_count = self.f.code.text.len();
        for (param, ty) in function.params.iter().zip(&params) {
            let value = self.declare_named(&param.name.name, ty, param.name.span);
            self.scopes.bind_as(&param.name.name, Binding::Value(value), Access::of(param));
        }
        let mut declared = std::mem::take(&mut self.f.code.text);
        let parameters = declared.split_off(result_count);
        self.f.frames.push(Frame { end: None, dest: result.clone() });
        self.statements(&function.body, result.as_ref());
        self.f.frames.pop();
        if result.is_some() && !self.gives(function) {
            self.no_result(function);
        }
        self.ret(function.span);
        self.errors.over = loops_over;
        let body = std::mem::replace(&mut self.f, outer);
        let returns = if declared.is_empty() { String::new() } else { format!("({}) ", signature(&declared)) };
        let head = format!("\n.func {returns}{name}({})\n", signature(&parameters));
        self.out.functions.push((head, self.at(function.name.span)));
        self.out.functions.extend(frame_text(body, Vec::new(), function.span));
        Some(())
    }
}

/// The declarations `.reg .f32 %x;` as parameters; `%a<4>` as four of them.
fn signature(declared: &[(String, Span)]) -> String {
    let mut out = Vec::new();
    for (text, _) in declared {
        let text = text.trim().trim_end_matches(';');
        match text.split_once('<') {
            Some((head, count)) => {
                let count: u64 = count.trim_end_matches('>').parse().unwrap_or(0);
                out.extend((0..count).map(|at| format!("{head}{at}")));
            }
            None => out.push(text.to_owned()),
        }
    }
    out.join(", ")
}

fn scalars(ty: &Ty, out: &mut Vec<Type>) {
    match ty {
        Ty::Scalar(_) | Ty::Address(_) => out.extend(ty.register()),
        Ty::Array(element, _) => scalars(element, out),
        Ty::Tuple(parts) => parts.iter().for_each(|part| scalars(part, out)),
        Ty::Struct(of) => of.fields.iter().for_each(|(_, part)| scalars(part, out)),
    }
}

fn registers(value: &Value, out: &mut Vec<Reg>) {
    match value {
        Value::Reg(reg) => out.push(reg.clone()),
        Value::Address(Address { base: Base::Register(name), ty, .. }) => {
            out.extend(ty.space.register().map(|ty| Reg { name: name.clone(), ty }));
        }
        other => crate::value::parts(other).unwrap_or_default().iter().for_each(|part| registers(part, out)),
    }
}

fn list(registers: &[Reg]) -> String {
    registers.iter().map(|reg| reg.name.as_str()).collect::<Vec<_>>().join(", ")
}
