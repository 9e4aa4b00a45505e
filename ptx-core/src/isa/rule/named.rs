//! Rules with a name: what no implication between slots can say. None is about one opcode.

use super::Case;
use crate::ir::Operand;

/// Whether the rule holds.
pub type Check = fn(&Case) -> bool;

/// By name.
const NAMED: &[(&str, Check)] = &[("wide_sinks", wide_sinks)];

/// `_` among elements that are read stands for bytes that stay as they are: only accesses of 256 bits can do that.
fn wide_sinks(case: &Case) -> bool {
    let slot = |name: &str| {
        let at = case.form.row.slots.iter().position(|s| s.name == name)?;
        case.form.slots.get(at).copied().flatten()
    };
    let bits = slot("type").and_then(|m| m.ty).map_or(0, |t| t.bits()) * slot("vec").map_or(1, |m| m.number);
    let sink = |o: &Operand| matches!(o, Operand::Vector(elements) if elements.contains(&Operand::Sink));
    bits == 256 || !case.operands.iter().any(sink)
}

pub(super) fn find(name: &str) -> Option<Check> {
    NAMED.iter().find(|(n, _)| *n == name).map(|(_, check)| *check)
}
