//! Calls: the callee is a function that is declared, and the arguments are what it takes.

use crate::diag::{Diagnostic, codes};
use crate::ir::{FuncId, Function, Inst, Module, Operand, Param, ParamType, Space, Symbol};
use crate::isa::Class;
use crate::span::Span;
use crate::syntax::Tree;

pub(super) fn check(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for function in &module.functions {
        for inst in function.insts.iter().filter(|i| i.row.is_some()) {
            let Some(at) = inst.operands.iter().position(|o| matches!(o, Operand::Func(_))) else { continue };
            let Some(Operand::Func(callee)) = inst.operands.get(at) else { continue };
            if inst.row.is_some_and(|r| r.opcode() == "call") {
                Call { module, caller: function, inst, at }.check(*callee, out);
            }
        }
    }
}

/// A call of a named function; `at` is the operand that names it.
struct Call<'a> {
    module: &'a Module,
    caller: &'a Function,
    inst: &'a Inst,
    at: usize,
}

impl Call<'_> {
    fn check(&self, callee: FuncId, out: &mut Vec<Diagnostic>) {
        let Some(function) = self.module.functions.get(callee.index()) else { return };
        if function.entry {
            let text = format!("`{}` is an entry; only a `.func` can be called", function.name);
            out.push(Diagnostic::error(&codes::P0613, self.span(self.at), text).section("9.7.12.5"));
            return;
        }
        let list = |operand: Option<&Operand>| match operand {
            Some(Operand::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let returns = list(self.at.checked_sub(1).and_then(|i| self.inst.operands.get(i)));
        let args = list(self.inst.operands.get(self.at + 1));
        self.arguments(function, &function.returns, &returns, false, out);
        self.arguments(function, &function.params, &args, function.variadic, out);
    }

    fn arguments(
        &self,
        callee: &Function,
        formals: &[Param],
        actuals: &[Operand],
        variadic: bool,
        out: &mut Vec<Diagnostic>,
    ) {
        if actuals.len() < formals.len() || actuals.len() > formals.len() && !variadic {
            let text = format!("`{}` takes {} here, not {}", callee.name, formals.len(), actuals.len());
            let d = Diagnostic::error(&codes::P0612, self.span(self.at), text).label(callee.span, "declared here");
            out.push(d.section("9.7.12.5"));
            return;
        }
        for (formal, actual) in formals.iter().zip(actuals) {
            let formal = self.formal(callee, *formal);
            if let Some(formal) = formal.filter(|f| !self.fits(f, actual)) {
                let text =
                    format!("this argument does not fit the parameter of `{}`: `.{}`", callee.name, describe(&formal));
                let d = Diagnostic::error(&codes::P0612, self.inst.span, text).label(callee.span, "declared here");
                out.push(d.section("9.7.12.5"));
            }
        }
    }

    fn formal(&self, callee: &Function, param: Param) -> Option<ParamType> {
        Some(match param {
            Param::Var(id) => {
                let v = self.module.variables.get(id.index())?;
                ParamType { ty: v.ty, size: v.size, align: v.align, register: false }
            }
            Param::Reg(id) => {
                let r = callee.registers.get(id.index())?;
                ParamType { ty: r.ty, size: r.ty.bytes() * u64::from(r.vector), align: r.ty.bytes(), register: true }
            }
        })
    }

    /// A `.param` variable must have the size and at least the alignment; a register must be able to hold the type.
    fn fits(&self, formal: &ParamType, actual: &Operand) -> bool {
        match actual {
            Operand::Symbol(Symbol::Var(var), 0) => match self.module.variables.get(var.index()) {
                Some(v) if v.space == Space::Param => v.size == formal.size && v.align >= formal.align,
                _ => formal.size == u64::from(self.module.address_size / 8),
            },
            Operand::Reg(reg) => match self.caller.registers.get(reg.index()) {
                Some(r) => {
                    r.ty.bytes() * u64::from(r.vector) == formal.size && same_kind(r.ty.class(), formal.ty.class())
                }
                None => true,
            },
            _ => true,
        }
    }

    fn span(&self, operand: usize) -> Span {
        self.inst.operand_spans.get(operand).copied().unwrap_or(self.inst.name_span)
    }
}

fn same_kind(a: Class, b: Class) -> bool {
    (a == Class::Pred) == (b == Class::Pred)
}

fn describe(formal: &ParamType) -> String {
    match formal.size == formal.ty.bytes() {
        true => formal.ty.name().to_owned(),
        false => format!("{}` of {} bytes, aligned to `{}", formal.ty.name(), formal.size, formal.align),
    }
}
