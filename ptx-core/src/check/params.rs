//! `.param` variables of functions and calls: which way data goes through them.

use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Module, Operand, Param, Space, Symbol, VarId};
use crate::isa::{Access, Class, OperandKind};
use crate::syntax::Tree;

pub(super) fn check_params(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    let mut is_result = vec![false; module.variables.len()];
    for function in &module.functions {
        function.insts.iter().for_each(|inst| mark_results(inst, &mut is_result));
    }
    for function in module.functions.iter().filter(|f| f.defined) {
        for inst in &function.insts {
            let Some((var, loads)) = accessed(inst, module) else { continue };
            let Some(variable) = module.variables.get(var.index()) else { continue };
            let of = |params: &[Param]| params.contains(&Param::Var(var));
            let (name, own) = (&variable.name, function.variables.contains(&var));
            let text = match loads {
                false if of(&function.params) && function.entry => {
                    format!("`{name}` comes from the launch; it cannot be written")
                }
                false if of(&function.params) => format!("`{name}` comes from the caller; it cannot be written"),
                true if of(&function.returns) => format!("`{name}` goes to the caller; it cannot be read"),
                true if function.entry && own && !is_result[var.index()] => {
                    format!("`{name}` is the result of no call; nothing is in it")
                }
                _ => continue,
            };
            out.push(
                Diagnostic::error(&codes::P0617, inst.span, text).label(variable.span, "declared here").section("7.1"),
            );
        }
    }
}

/// The `.param` variable that an instruction loads (`true`) or stores. One without a value, such as `prefetch` or a fence,
/// does neither.
fn accessed(inst: &Inst, module: &Module) -> Option<(VarId, bool)> {
    let var = inst.operands.iter().find_map(|operand| match operand {
        Operand::Memory { base, .. } => match base.symbol()? {
            Symbol::Var(var) => Some(var),
            Symbol::Func(_) => None,
        },
        _ => None,
    })?;
    let row = inst.row?;
    let loads = row.operands.iter().any(|o| o.access == Access::Write);
    let has_value = row.operands.iter().any(|o| matches!(&o.kind, OperandKind::Value(value) if value.register));
    if !loads && !has_value {
        return None;
    }
    let variable = module.variables.get(var.index())?;
    // What is written through a handle is not the parameter.
    let handle = variable.ty.class() == Class::Opaque;
    (variable.space == Space::Param && !handle).then_some((var, loads))
}

/// Marks the variables that a call writes its results to.
fn mark_results(inst: &Inst, is_result: &mut [bool]) {
    let written = inst.row.and_then(|r| r.operands.first()).is_some_and(|o| o.access == Access::Write);
    let Some(Operand::List(list)) = inst.operands.first().filter(|_| written) else { return };
    for operand in list {
        if let Operand::Symbol(Symbol::Var(var), _) = operand {
            is_result[var.index()] = true;
        }
    }
}
