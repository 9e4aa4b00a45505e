//! Accesses whose address is known and does not have the alignment that the access needs, or need not have it. Not the
//! alignments that a variable may be declared with: those are in `check/variables.rs`.

use super::Body;
use super::address::Origin;
use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Operand, Space, Symbol};

/// Instructions that access one element or vector at the address in their first brackets: `.vec` times `.type`.
const ELEMENTS: &[&str] = &["ld", "ldu", "st", "atom", "red", "ld.global.nc"];
/// Instructions whose addresses, all or the named one, have a fixed alignment.
const FIXED: &[(&str, &str, u64)] = &[
    ("ldmatrix", "", 16),
    ("stmatrix", "", 16),
    ("cp.async.bulk", "dst", 16),
    ("cp.async.bulk", "src", 16),
    ("cp.async.bulk", "mbar", 8),
    ("cp.async.bulk.tensor", "mbar", 8),
    ("mbarrier.init", "", 8),
    ("mbarrier.arrive", "", 8),
    ("mbarrier.arrive.expect_tx", "", 8),
    ("mbarrier.expect_tx", "", 8),
    ("mbarrier.try_wait", "", 8),
    ("mbarrier.try_wait.parity", "", 8),
    ("mbarrier.test_wait", "", 8),
    ("mbarrier.test_wait.parity", "", 8),
];

pub(super) fn check_alignment(body: &Body, out: &mut Vec<Diagnostic>) {
    for inst in &body.function.insts {
        for (at, operand) in inst.operands.iter().enumerate() {
            if matches!(operand, Operand::Memory { .. }) {
                one(body, inst, at, operand, out);
            }
        }
    }
}

fn one(body: &Body, inst: &Inst, at: usize, operand: &Operand, out: &mut Vec<Diagnostic>) {
    let need = needed(inst, at);
    if need <= 1 {
        return;
    }
    let Origin::In(Symbol::Var(var), Some(offset)) = body.origin(operand) else { return };
    let Some(variable) = body.module.variables.get(var.index()) else { return };
    let (name, align) = (&variable.name, variable.align.max(1));
    let (code, text, help) = if offset.rem_euclid(need.min(align).cast_signed()) != 0 {
        let behind = format!("its address is {offset} bytes behind `{name}`, aligned to {align} bytes");
        let text = format!("this access of {need} bytes is not aligned: {behind}");
        (&codes::P0751, text, format!("the address must be a multiple of {need}"))
    } else if align < need && matches!(variable.space, Space::Shared | Space::Local) {
        // Constants of packed halves are declared as halves, and often alone.
        let text = format!("this access of {need} bytes may be misaligned: `{name}` is aligned to {align} bytes");
        (&codes::P0753, text, format!("declare `{name}` with an alignment of {need} bytes"))
    } else {
        return;
    };
    let span = body.function.operand_span(inst, at);
    out.push(Diagnostic::warning(code, span, text).help(help).section("6.4.1"));
}

/// The bytes that an instruction accesses, if it accesses one element or vector.
pub(super) fn element_bytes(inst: &Inst) -> Option<u64> {
    let row = inst.row.filter(|row| ELEMENTS.contains(&row.name))?;
    let element = inst.slots.iter().flatten().filter_map(|m| m.ty).next_back().map_or(1, |ty| ty.bytes());
    let vector = inst.slot("vec").and_then(|v| v.trim_start_matches('v').parse().ok()).unwrap_or(1);
    (!row.operands.is_empty()).then_some(element * vector)
}

/// The alignment that an operand's address must have; 1 if nothing is known.
fn needed(inst: &Inst, at: usize) -> u64 {
    let Some(row) = inst.row else { return 1 };
    let operand = row.operands.get(at).map_or("", |o| o.name);
    if let Some(bytes) = element_bytes(inst) {
        return bytes;
    }
    let fixed = |(name, which, _): &&(&str, &str, u64)| *name == row.name && (which.is_empty() || *which == operand);
    FIXED.iter().find(fixed).map_or(1, |(_, _, need)| *need)
}
