//! The registers that pass parameters: those of the pragma `abi_param_reg` are enough for a function, and its calls name the same ones by
//! `call_abi_param_reg`.

use super::pragmas::{Registers, each_pragma};
use crate::diag::{Diagnostic, codes};
use crate::hash::Map;
use crate::ir::{Function, Inst, Module, Operand, ParamType};
use crate::isa::{Class, OperandKind};
use crate::span::Span;
use crate::syntax::{Func, StmtId, StmtKind, Tree};

/// The pragmas of a function.
#[derive(Default)]
struct Pragmas {
    /// The registers by which it is called, and the pragma.
    own: Option<(Registers, Span)>,
    /// The registers of calls, in the order of the text: each pragma is for the next call.
    calls: Vec<(Registers, Span)>,
}

pub(super) fn check_passing(tree: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let functions = pragmas(tree);
    if functions.values().all(|f| f.own.is_none() && f.calls.is_empty()) {
        return;
    }
    let none = Pragmas::default();
    let of = |function: &Function| functions.get(function.name.as_str()).unwrap_or(&none);
    for function in &module.functions {
        let pragmas = of(function);
        let (returns, params) = function.signature(module);
        if let Some((registers, span)) = &pragmas.own {
            out.extend(too_few(registers, *span, least(returns.iter().flatten()).max(least(params.iter().flatten()))));
        }
        let mut calls = pragmas.calls.iter().peekable();
        for inst in &function.insts {
            let Some(callee) = callee(inst) else { continue };
            let mut named = None;
            while let Some(next) = calls.next_if(|(_, span)| span.lo < inst.span.lo) {
                named = Some(next);
            }
            out.extend(named.filter(|(registers, _)| !registers.exist()).map(|(_, span)| missing(*span)));
            match (callee, inst.operands.last()) {
                (Operand::Func(id), _) => {
                    let Some(callee) = module.functions.get(id.index()) else { continue };
                    let (wanted, named) = (of(callee).own.map(|own| own.0), named.map(|named| named.0));
                    if wanted != named {
                        out.push(differs(inst.span, &callee.name, wanted));
                    }
                }
                (_, Some(Operand::Proto(id))) => {
                    let Some(proto) = function.prototypes.get(id.index()) else { continue };
                    let least = least(proto.returns.iter()).max(least(proto.params.iter()));
                    out.extend(named.and_then(|(registers, span)| too_few(registers, *span, least)));
                }
                _ => {}
            }
        }
    }
}

/// The pragmas of each function, by its name; one of the module is for all functions that follow.
fn pragmas(tree: &Tree) -> Map<&str, Pragmas> {
    let mut found: Map<&str, Pragmas> = Map::default();
    let mut of_module = None;
    for id in &tree.items {
        match &tree.stmt(*id).kind {
            StmtKind::Directive(directive) => each_pragma(tree, directive, &mut |span, text| {
                of_module = Registers::named("abi_param_reg", text).map(|registers| (registers, span)).or(of_module);
            }),
            StmtKind::Func(func) => {
                let Some(name) = func.name else { continue };
                let pragmas = of_function(tree, *id, func, of_module);
                let known = found.entry(tree.source.text(name)).or_default();
                if func.has_body || known.own.is_none() {
                    *known = pragmas;
                }
            }
            _ => {}
        }
    }
    found
}

fn of_function(tree: &Tree, id: StmtId, func: &Func, of_module: Option<(Registers, Span)>) -> Pragmas {
    let entry = tree.source.text(func.keyword) == ".entry";
    let mut pragmas = Pragmas { own: of_module.filter(|_| !entry), calls: Vec::new() };
    of_body(tree, id, &mut pragmas);
    pragmas
}

fn of_body(tree: &Tree, id: StmtId, to: &mut Pragmas) {
    for child in tree.stmt(id).children() {
        match &tree.stmt(*child).kind {
            StmtKind::Directive(directive) => each_pragma(tree, directive, &mut |span, text| {
                to.own = Registers::named("abi_param_reg", text).map(|registers| (registers, span)).or(to.own);
                let of_call = Registers::named("call_abi_param_reg", text).filter(|registers| !registers.is_empty());
                to.calls.extend(of_call.map(|registers| (registers, span)));
            }),
            StmtKind::Block => of_body(tree, *child, to),
            _ => {}
        }
    }
}

/// The operand of a call that is called.
fn callee(inst: &Inst) -> Option<&Operand> {
    let row = inst.row.filter(|row| row.operands.facts().leads)?;
    let at = row.operands.iter().position(|o| matches!(o.kind, OperandKind::Func | OperandKind::Callee))?;
    inst.operands.get(at)
}

/// The registers that hold the parameters: bytes without gaps. A predicate takes a register.
fn least<'p>(params: impl Iterator<Item = &'p ParamType>) -> u64 {
    let bytes = |param: &ParamType| if param.ty.class() == Class::Pred { 4 } else { param.size };
    params.map(bytes).fold(0, u64::saturating_add).div_ceil(4)
}

fn too_few(registers: &Registers, span: Span, least: u64) -> Option<Diagnostic> {
    let count = registers.count.filter(|count| u64::try_from(*count).is_ok_and(|count| count < least))?;
    let text = format!("the parameters need {least} registers; the pragma has {count}");
    Some(Diagnostic::error(&codes::P0616, span, text).section("11.4.7"))
}

fn missing(span: Span) -> Diagnostic {
    Diagnostic::error(&codes::P0616, span, "a thread has no such registers for parameters").section("11.4.7")
}

fn differs(span: Span, name: &str, wanted: Option<Registers>) -> Diagnostic {
    let text = format!("this call and `{name}` pass parameters in different registers");
    let d = Diagnostic::error(&codes::P0616, span, text).section("11.4.7");
    match wanted {
        Some(registers) => d.help(format!("write `.pragma \"call_abi_param_reg {registers}\";` in front of the call")),
        None => {
            d.help(format!("`{name}` has no `abi_param_reg`: leave `call_abi_param_reg` out in front of this call"))
        }
    }
}
