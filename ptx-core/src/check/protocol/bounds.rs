//! Accesses whose address is known and that leave their variable.

use super::Body;
use super::address::Origin;
use super::align::element_bytes;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Operand, Symbol};

pub(super) fn check_bounds(body: &Body, out: &mut Vec<Diagnostic>) {
    for inst in &body.function.insts {
        let memory = |operand: &&Operand| matches!(operand, Operand::Memory { .. });
        if let (Some(bytes), Some(at)) = (element_bytes(inst), inst.operands.iter().position(|o| memory(&o))) {
            one(body, inst, at, bytes, out);
        }
    }
}

fn one(body: &Body, inst: &Inst, at: usize, bytes: u64, out: &mut Vec<Diagnostic>) {
    let Some(operand) = inst.operands.get(at) else { return };
    let Origin::In(Symbol::Var(var), Some(offset)) = body.origin(operand) else { return };
    let Some(variable) = body.module.variables.get(var.index()).filter(|v| v.size > 0) else { return };
    let end = offset.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    if offset < 0 || u64::try_from(end).is_ok_and(|end| end > variable.size) {
        let text = format!(
            "this access of {bytes} bytes leaves `{}`: its address is {offset} bytes behind the start, and the variable has {}",
            variable.name, variable.size
        );
        let span = body.function.operand_span(inst, at);
        out.push(Diagnostic::warning(&codes::P0752, span, text).help("use an offset inside the variable"));
    }
}
