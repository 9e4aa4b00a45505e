//! Special registers: whether the target and version have them, and the directives that they need.

use super::access;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Function, Module};
use crate::isa::SpecialRegister;
use crate::span::Span;
use crate::syntax::Tree;

pub(super) fn check_specials(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for function in &module.functions {
        for inst in function.insts.iter().filter(|i| i.row.is_none_or(|row| row.operands.facts().special)) {
            for (at, operand) in inst.operands.iter().enumerate() {
                access::specials(operand, &mut |register| {
                    one(register, function.operand_span(inst, at), function, module, out)
                });
            }
        }
    }
}

fn one(register: &SpecialRegister, span: Span, function: &Function, module: &Module, out: &mut Vec<Diagnostic>) {
    if !register.gate.admits(module.arch, module.version) {
        let d = crate::lower::gate(span, register.name, &register.gate, module.arch, module.version);
        out.push(d.section(register.section));
    }
    let present = |l: &crate::ir::Limit| register.needs.trim_start_matches('.') == l.name;
    if !register.needs.is_empty() && !function.limits.iter().any(present) {
        let text = format!("`{}` needs `{}` on its kernel", register.name, register.needs);
        out.push(Diagnostic::error(&codes::P0610, span, text).section(register.section));
    }
}
