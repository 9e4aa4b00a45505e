//! Calls: the callee is a function that is declared, and the arguments are what it takes.

use crate::diag::{Diagnostic, codes};
use crate::ir::{FuncId, Function, Inst, Module, Operand, Param, ParamType, ProtoId, Space, Symbol, TargetsId};
use crate::isa::{Class, OperandKind};
use crate::span::Span;
use crate::syntax::Tree;

pub(super) fn check(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for function in &module.functions {
        for inst in &function.insts {
            let callee = |kind: &OperandKind| matches!(kind, OperandKind::Func | OperandKind::Callee);
            let at = inst.row.and_then(|r| r.operands.iter().position(|o| callee(&o.kind)));
            match at {
                Some(at) => Call { module, caller: function, inst, at }.check(out),
                None if inst.row.is_some() => branches(function, inst, out),
                None => {}
            }
        }
    }
}

/// The list of a branch holds labels.
fn branches(function: &Function, inst: &Inst, out: &mut Vec<Diagnostic>) {
    for (operand, span) in inst.operands.iter().zip(&inst.operand_spans) {
        let Operand::Targets(list) = operand else { continue };
        let labels = |list: &Vec<Operand>| list.iter().all(|o| matches!(o, Operand::Label(_) | Operand::Error));
        if !function.targets.get(list.index()).is_none_or(labels) {
            let d = Diagnostic::error(&codes::P0301, *span, "this is a list of functions, not of labels");
            out.push(d.help("write `.branchtargets` with the labels").section("9.7.12.4"));
        }
    }
}

/// A call; `at` is the operand that says what is called.
struct Call<'a> {
    module: &'a Module,
    caller: &'a Function,
    inst: &'a Inst,
    at: usize,
}

/// What can be called: its name, where it is declared, what it returns and takes.
struct Callable {
    name: String,
    span: Span,
    returns: Vec<Option<ParamType>>,
    params: Vec<Option<ParamType>>,
    variadic: bool,
}

impl Call<'_> {
    fn check(&self, out: &mut Vec<Diagnostic>) {
        let named = self.inst.operands.get(self.at);
        let listed = self.inst.operands.last();
        for callee in [named, listed].into_iter().flatten() {
            match callee {
                Operand::Func(id) => self.function(*id, self.at, out),
                Operand::Proto(id) => self.prototype(*id, out),
                Operand::Targets(id) => self.listed(*id, out),
                _ => {}
            }
        }
    }

    /// A named function; `at` is the operand that names it.
    fn function(&self, id: FuncId, at: usize, out: &mut Vec<Diagnostic>) {
        let Some(function) = self.module.functions.get(id.index()) else { return };
        if function.entry {
            let text = format!("`{}` is an entry; only a `.func` can be called", function.name);
            out.push(Diagnostic::error(&codes::P0613, self.span(at), text).section("9.7.12.5"));
            return;
        }
        let types = |list: &[Param]| list.iter().map(|p| self.formal(function, *p)).collect();
        let (name, span, variadic) = (function.name.clone(), function.span, function.variadic);
        let (returns, params) = (types(&function.returns), types(&function.params));
        self.fit(&Callable { name, span, returns, params, variadic }, out);
    }

    fn prototype(&self, id: ProtoId, out: &mut Vec<Diagnostic>) {
        let Some(s) = self.caller.prototypes.get(id.index()) else { return };
        let types = |list: &[ParamType]| list.iter().cloned().map(Some).collect();
        let (name, span, variadic) = (s.name.clone(), s.span, s.variadic);
        self.fit(&Callable { name, span, returns: types(&s.returns), params: types(&s.params), variadic }, out);
    }

    /// `.calltargets`: any of them may be called.
    fn listed(&self, id: TargetsId, out: &mut Vec<Diagnostic>) {
        let last = self.inst.operands.len().saturating_sub(1);
        for target in self.caller.targets.get(id.index()).into_iter().flatten() {
            match target {
                Operand::Func(id) => self.function(*id, last, out),
                Operand::Error => {}
                _ => {
                    let d =
                        Diagnostic::error(&codes::P0301, self.span(last), "this is a list of labels, not of functions");
                    out.push(d.help("write `.calltargets` with the functions").section("9.7.12.5"));
                    return;
                }
            }
        }
    }

    /// Whether returns and arguments are what the callee has.
    fn fit(&self, callee: &Callable, out: &mut Vec<Diagnostic>) {
        let list = |operand: Option<&Operand>| match operand {
            Some(Operand::List(list)) => list.clone(),
            _ => Vec::new(),
        };
        let returns = list(self.at.checked_sub(1).and_then(|i| self.inst.operands.get(i)));
        let args = list(self.inst.operands.get(self.at + 1));
        if returns.iter().any(Operand::is_literal) {
            let d = Diagnostic::error(&codes::P0303, self.inst.span, "a result cannot be returned into a literal");
            out.push(d.section("9.7.12.5"));
        }
        self.arguments(callee, &callee.returns, &returns, false, out);
        self.arguments(callee, &callee.params, &args, callee.variadic, out);
    }

    fn arguments(
        &self,
        callee: &Callable,
        formals: &[Option<ParamType>],
        actuals: &[Operand],
        variadic: bool,
        out: &mut Vec<Diagnostic>,
    ) {
        let unsized_last = formals.last().is_some_and(|f| f.as_ref().is_some_and(|f| f.size == 0));
        let least = formals.len() - usize::from(unsized_last);
        if actuals.len() < least || actuals.len() > formals.len() && !variadic {
            let text = format!("`{}` takes {} here, not {}", callee.name, formals.len(), actuals.len());
            let d = Diagnostic::error(&codes::P0612, self.span(self.at), text).label(callee.span, "declared here");
            out.push(d.section("9.7.12.5"));
            return;
        }
        for (formal, actual) in formals.iter().zip(actuals) {
            if let Some(formal) = formal.as_ref().filter(|f| !self.fits(f, actual)) {
                let text =
                    format!("this argument does not fit the parameter of `{}`: `.{}`", callee.name, describe(formal));
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
