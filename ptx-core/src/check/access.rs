//! Walks over operands: which registers an instruction reads and writes, which symbols and special registers it names.

use crate::ir::{Inst, Operand, RegId, Symbol};
use crate::isa::{Access, OperandKind, OperandSpec, Row, SpecialRegister};

/// Calls `visit` for every register of an instruction, sources first, then destinations.
pub fn registers(inst: &Inst, visit: &mut dyn FnMut(RegId, Access)) {
    if let Some(guard) = inst.guard {
        visit(guard.register, Access::Read);
    }
    let Some(row) = inst.row else {
        // An instruction that the table does not know may do anything.
        return inst.operands.iter().for_each(|o| leaves(o, &mut |r| visit(r, Access::Write)));
    };
    row.operands.facts().uses.iter().for_each(|access| used(row, inst, *access, visit));
}

/// Calls `visit` for every register that an instruction may write.
pub fn writes(inst: &Inst, visit: &mut dyn FnMut(RegId)) {
    let Some(row) = inst.row else {
        return inst.operands.iter().for_each(|o| leaves(o, visit));
    };
    for access in row.operands.facts().uses.iter().filter(|a| **a != Access::Read) {
        used(row, inst, *access, &mut |reg, _| visit(reg));
    }
}

/// The registers that are used in this way.
fn used(row: &Row, inst: &Inst, wanted: Access, visit: &mut dyn FnMut(RegId, Access)) {
    for (spec, operand) in row.operands.iter().zip(&inst.operands) {
        match (&spec.kind, operand) {
            (OperandKind::Value(_), Operand::Reg(reg)) if spec.access == wanted => visit(*reg, wanted),
            (OperandKind::Value(_), _) if spec.access != wanted => {}
            _ => one(spec, operand, wanted, visit),
        }
    }
}

fn one(spec: &OperandSpec, operand: &Operand, wanted: Access, visit: &mut dyn FnMut(RegId, Access)) {
    match (&spec.kind, operand) {
        (OperandKind::Pair(a, b), Operand::Pair(x, y)) => {
            one(a, x, wanted, visit);
            one(b, y, wanted, visit);
        }
        (OperandKind::Pair(a, _), x) => one(a, x, wanted, visit),
        (OperandKind::Memory { .. }, _) if wanted == Access::Read => leaves(operand, &mut |r| visit(r, wanted)),
        (OperandKind::Memory { .. }, _) => {}
        _ if spec.access == wanted => leaves(operand, &mut |r| visit(r, wanted)),
        _ => {}
    }
}

/// Every register in an operand.
fn leaves(operand: &Operand, visit: &mut dyn FnMut(RegId)) {
    match operand {
        Operand::Reg(reg) | Operand::Part(reg, _) | Operand::Sum(reg, _) => visit(*reg),
        Operand::Element(base, _) => base.register().into_iter().for_each(visit),
        Operand::Memory { base, rest, .. } => {
            base.register().into_iter().for_each(&mut *visit);
            rest.iter().for_each(|o| leaves(o, visit));
        }
        Operand::Vector(list) | Operand::List(list) => list.iter().for_each(|o| leaves(o, visit)),
        Operand::Pair(a, b) => {
            leaves(a, visit);
            leaves(b, visit);
        }
        Operand::Not(inner) | Operand::Neg(inner) => leaves(inner, visit),
        _ => {}
    }
}

/// Every symbol in an operand.
pub fn symbols(operand: &Operand, visit: &mut dyn FnMut(Symbol)) {
    match operand {
        Operand::Symbol(symbol, _) => visit(*symbol),
        Operand::Element(base, _) => [base.symbol(), base.index_symbol()].into_iter().flatten().for_each(visit),
        Operand::Func(func) => visit(Symbol::Func(*func)),
        Operand::Memory { base, rest, .. } => {
            [base.symbol(), base.index_symbol()].into_iter().flatten().for_each(&mut *visit);
            rest.iter().for_each(|o| symbols(o, visit));
        }
        Operand::Vector(list) | Operand::List(list) => list.iter().for_each(|o| symbols(o, visit)),
        Operand::Pair(a, b) => {
            symbols(a, visit);
            symbols(b, visit);
        }
        Operand::Unified(inner) | Operand::Not(inner) | Operand::Neg(inner) => symbols(inner, visit),
        _ => {}
    }
}

/// Every special register in an operand.
pub fn specials(operand: &Operand, visit: &mut dyn FnMut(&'static SpecialRegister)) {
    match operand {
        Operand::Special(register) => visit(register),
        Operand::Element(base, _) | Operand::Memory { base, .. } => base.special().into_iter().for_each(visit),
        Operand::Vector(list) => list.iter().for_each(|o| specials(o, visit)),
        _ => {}
    }
}
