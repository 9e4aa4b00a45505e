//! Calls: the callee is a function that is declared, and the arguments are what it takes.

use super::access;
use super::graph::reach;
use crate::diag::{Diagnostic, codes};
use crate::ir::{FuncId, Function, Inst, Module, Operand, ParamType, ProtoId, Space, Symbol, TargetsId, Variable};
use crate::isa::{Arch, Class, OperandKind, Type};
use crate::span::Span;
use crate::syntax::Tree;
use std::cell::OnceCell;

pub(super) fn check_calls(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let assembled = OnceCell::new();
    pointed(module, &assembled, out);
    for (number, function) in module.functions.iter().enumerate() {
        for inst in &function.insts {
            let callee = |kind: &OperandKind| matches!(kind, OperandKind::Func | OperandKind::Callee);
            let Some(row) = inst.row.filter(|row| row.operands.facts().leads) else { continue };
            match row.operands.iter().position(|o| callee(&o.kind)) {
                Some(at) => Call { module, caller: function, number, inst, at, assembled: &assembled }.check(out),
                None => branches(function, inst, out),
            }
        }
    }
}

/// A function whose address code takes is assembled, too, with the calling convention.
fn pointed(module: &Module, assembled: &OnceCell<Vec<bool>>, out: &mut Vec<Diagnostic>) {
    let passes = |f: &Function| {
        let (returns, params) = f.signature(module);
        returns.iter().chain(&params).flatten().all(|formal| cannot_be_passed(formal).is_none())
    };
    let is_suspect = |f: &Function| !f.entry && f.defined && !passes(f);
    if !module.functions.iter().any(is_suspect) || has_other_convention(module) {
        return;
    }
    let assembled = assembled.get_or_init(|| self::assembled(module));
    let callers = module.functions.iter().zip(assembled).filter(|(_, is)| **is).map(|(caller, _)| caller);
    let mut called = vec![false; module.functions.len()];
    for id in callers.flat_map(|f| &f.insts).filter_map(callee) {
        called.iter_mut().skip(id.index()).take(1).for_each(|is| *is = true);
    }
    for ((function, is_assembled), is_called) in module.functions.iter().zip(assembled).zip(called) {
        if *is_assembled && !is_called && is_suspect(function) {
            out.extend(unpassable(function.span, &function.name, &function.signature(module)));
        }
    }
}

/// The function that a call names.
fn callee(inst: &Inst) -> Option<FuncId> {
    let row = inst.row.filter(|row| row.operands.facts().leads)?;
    let at = row.operands.iter().position(|o| matches!(o.kind, OperandKind::Func | OperandKind::Callee))?;
    if let Some(Operand::Func(id)) = inst.operands.get(at) { Some(*id) } else { None }
}

/// Says why the results or arguments cannot be passed.
fn unpassable(
    span: Span,
    name: &str,
    (returns, params): &(Vec<Option<ParamType>>, Vec<Option<ParamType>>),
) -> Option<Diagnostic> {
    let cannot = |list: &[Option<ParamType>]| list.iter().flatten().find_map(cannot_be_passed);
    let (verb, (what, help)) = match (cannot(returns), cannot(params)) {
        (Some(why), _) => ("returns", why),
        (_, why) => ("takes", why?),
    };
    let text = format!("`{name}` {verb} {what}, which no call can pass");
    Some(Diagnostic::error(&codes::P0612, span, text).help(help).section("9.7.12.5"))
}

/// The list of a branch holds labels.
fn branches(function: &Function, inst: &Inst, out: &mut Vec<Diagnostic>) {
    for (at, operand) in inst.operands.iter().enumerate() {
        let Operand::Targets(list) = operand else { continue };
        let labels = |list: &Vec<Operand>| list.iter().all(|o| matches!(o, Operand::Label(_) | Operand::Error));
        if !function.targets.get(list.index()).is_none_or(labels) {
            let d = Diagnostic::error(
                &codes::P0301,
                function.operand_span(inst, at),
                "this is a list of functions, not of labels",
            );
            out.push(d.help("write `.branchtargets` with the labels").section("9.7.12.4"));
        }
    }
}

/// From here on ptxas fails on calls without the calling convention.
const ABI_ALWAYS: Arch = Arch::base(90);

/// ptxas leaves the calling convention in a module with a function that has several results.
fn has_other_convention(module: &Module) -> bool {
    module.arch < ABI_ALWAYS && module.functions.iter().any(|f| f.defined && f.returns.len() > 1)
}

/// A call; `at` is the operand that names the callee.
struct Call<'a> {
    module: &'a Module,
    caller: &'a Function,
    /// The caller's.
    number: usize,
    /// True for each function that an entry leads to: ptxas makes code of these alone.
    assembled: &'a OnceCell<Vec<bool>>,
    inst: &'a Inst,
    at: usize,
}

/// A callable function: its name, its declaration, its results and parameters.
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
                Operand::Func(id) => self.named(*id, out),
                Operand::Proto(id) => self.prototype(*id, out),
                Operand::Targets(id) => self.listed(*id, out),
                _ => {}
            }
        }
    }

    /// The function that the instruction names.
    fn named(&self, id: FuncId, out: &mut Vec<Diagnostic>) {
        match self.module.functions.get(id.index()) {
            Some(function) if function.entry => {
                let text = format!("`{}` is an entry; only a `.func` can be called", function.name);
                out.push(Diagnostic::error(&codes::P0613, self.span(self.at), text).section("9.7.12.5"));
            }
            Some(function) => self.function(function, out),
            None => {}
        }
    }

    fn function(&self, function: &Function, out: &mut Vec<Diagnostic>) {
        let (name, span, variadic) = (function.name.clone(), function.span, function.variadic);
        let (returns, params) = function.signature(self.module);
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
                Operand::Func(id) => {
                    let Some(function) = self.module.functions.get(id.index()) else { continue };
                    if function.entry {
                        let text = format!("ptxas takes the entry `{}` in a list of functions", function.name);
                        let d = Diagnostic::warning(&codes::P0207, self.span(last), text);
                        out.push(d.help("a call of it has no meaning: list a `.func`").section("9.7.12.5"));
                    }
                    self.function(function, out);
                }
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

    /// Checks that results and arguments match the callee's.
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
        let known = out.len();
        self.arguments(callee, &callee.returns, &returns, true, out);
        self.arguments(callee, &callee.params, &args, false, out);
        if out.len() == known {
            self.passed(callee, out);
        }
    }

    /// The calling convention has no predicates, and no integers of 8 and 16 bits.
    fn passed(&self, callee: &Callable, out: &mut Vec<Diagnostic>) {
        let signature = (callee.returns.clone(), callee.params.clone());
        let Some(refusal) = unpassable(self.inst.span, &callee.name, &signature) else { return };
        if has_other_convention(self.module) {
            return;
        }
        let assembled = self.assembled.get_or_init(|| assembled(self.module));
        if assembled.get(self.number).is_none_or(|is| *is) {
            out.push(refusal.label(callee.span, "declared here"));
        }
    }

    fn arguments(
        &self,
        callee: &Callable,
        formals: &[Option<ParamType>],
        actuals: &[Operand],
        returned: bool,
        out: &mut Vec<Diagnostic>,
    ) {
        let unsized_last = formals.last().is_some_and(|f| f.as_ref().is_some_and(|f| f.size == 0));
        let least = formals.len() - usize::from(unsized_last);
        if actuals.len() < least || actuals.len() > formals.len() && !callee.variadic {
            let text = format!("`{}` takes {} here, not {}", callee.name, formals.len(), actuals.len());
            let d = Diagnostic::error(&codes::P0612, self.span(self.at), text).label(callee.span, "declared here");
            out.push(d.section("9.7.12.5"));
            return;
        }
        for (formal, actual) in formals.iter().zip(actuals) {
            if let Some(formal) = formal.as_ref().filter(|f| !self.fits(f, actual, returned)) {
                let what = if returned { "result" } else { "argument" };
                let text =
                    format!("this {what} does not fit the parameter of `{}`: `.{}`", callee.name, describe(formal));
                let d = Diagnostic::error(&codes::P0612, self.inst.span, text).label(callee.span, "declared here");
                out.push(d.section("9.7.12.5"));
            }
        }
    }

    /// Returns true if ptxas takes the argument (or, returned, the place for the result) for the parameter.
    fn fits(&self, formal: &ParamType, actual: &Operand, returned: bool) -> bool {
        let class = formal.ty.class();
        match actual {
            Operand::Symbol(Symbol::Var(var), 0) => {
                self.module.variables.get(var.index()).is_none_or(|v| same_variable(formal, v))
            }
            Operand::Reg(reg) => self.caller.registers.get(reg.index()).is_none_or(|r| {
                let whole = r.ty.bytes() * u64::from(r.vector) == formal.size && formal.align == r.align;
                !formal.array && whole && alike(r.ty.class(), class)
            }),
            Operand::Int(_) => !formal.array && !matches!(class, Class::Float | Class::Packed | Class::Pred),
            Operand::F32(_) | Operand::F64(_) => !formal.array && matches!(class, Class::Float | Class::Bits),
            Operand::Sink => returned,
            Operand::Error => true,
            _ => false,
        }
    }

    fn span(&self, operand: usize) -> Span {
        self.caller.operand_span(self.inst, operand)
    }
}

/// Returns what no call can pass, and how to pass it.
fn cannot_be_passed(formal: &ParamType) -> Option<(&'static str, &'static str)> {
    match formal.ty.class() {
        Class::Pred => {
            Some(("a predicate", "pass a `.b32`: `selp.b32` makes one of a predicate, `setp.ne.b32` a predicate of it"))
        }
        Class::Unsigned | Class::Signed if formal.ty.bits() < 32 && !formal.array => {
            Some(("an integer of 8 or 16 bits", "declare the parameter `.b8` or `.b16`, or pass a `.b32`"))
        }
        _ => None,
    }
}

/// The functions that an entry calls, or takes the address of, directly or through others and variables.
fn assembled(module: &Module) -> Vec<bool> {
    // Behind the functions come the variables, whose initial values have addresses.
    let functions = module.functions.len();
    let number = |symbol: Symbol| match symbol {
        Symbol::Func(id) => id.index(),
        Symbol::Var(id) => functions + id.index(),
    };
    let mut named: Vec<Vec<usize>> = Vec::with_capacity(functions + module.variables.len());
    for function in &module.functions {
        let mut list = Vec::new();
        for operand in function.insts.iter().flat_map(|inst| &inst.operands) {
            access::symbols(operand, &mut |symbol| list.push(number(symbol)));
        }
        named.push(list);
    }
    let addresses = |v: &Variable| v.init.iter().flat_map(|init| &init.relocations).map(|r| number(r.of)).collect();
    named.extend(module.variables.iter().map(addresses));
    // With debug information, ptxas keeps what nothing calls.
    let all = module.options.iter().any(|option| option == "debug");
    let entries = module.functions.iter().enumerate().filter(|(_, f)| f.entry || all);
    let mut reached = reach(&named, entries.map(|(number, _)| number).collect());
    reached.truncate(functions);
    reached
}

/// A `.param` variable has the parameter's size and alignment; it is an array if the parameter is one.
fn same_variable(formal: &ParamType, v: &Variable) -> bool {
    let size = v.size == formal.size || formal.array && formal.size == 0;
    let untyped = |ty: Type| matches!(ty.class(), Class::Bits | Class::Packed);
    let kind = match formal.array {
        true => !v.dims.is_empty() && (v.ty == formal.ty || untyped(v.ty) || untyped(formal.ty)),
        false => v.dims.is_empty() && alike(v.ty.class(), formal.ty.class()),
    };
    v.space == Space::Param && size && v.align == formal.align && kind
}

/// `.b` and packed halves meet every type of their width, integers meet integers, floats floats.
fn alike(a: Class, b: Class) -> bool {
    let integer = |c| matches!(c, Class::Unsigned | Class::Signed);
    match (a, b) {
        (Class::Pred, _) | (_, Class::Pred) => a == b,
        (Class::Bits | Class::Packed, _) | (_, Class::Bits | Class::Packed) => true,
        _ => integer(a) == integer(b),
    }
}

fn describe(formal: &ParamType) -> String {
    match formal.size == formal.ty.bytes() {
        true => formal.ty.name().to_owned(),
        false => format!("{}` of {} bytes, aligned to `{}", formal.ty.name(), formal.size, formal.align),
    }
}
