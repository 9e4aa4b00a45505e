//! The signs of parameters. Compilers declare an `int` as `.u32`, and only its uses say that it may be negative.

use crate::site::Site;
use ptx_core::hash::Set;
use ptx_core::ir::{Base, Function, Inst, Module, Operand, Param, RegId, Symbol, VarId};
use ptx_core::isa::Class;

/// Opcodes whose result is the same for numbers with and without a sign, so that their type does not matter.
const SIGNLESS: [&str; 8] = ["add", "sub", "mul.lo", "mad.lo", "neg", "shl", "mov", "and"];

/// Signless instructions whose result has the sign of its sources.
const CARRIES: [&str; 5] = ["add", "sub", "mul.lo", "mad.lo", "mov"];

/// Uses of a value as a number with a sign, and without one.
#[derive(Clone, Copy, Default)]
struct Uses {
    signed: bool,
    unsigned: bool,
}

/// For each parameter of an entry that is declared without a sign: true if the entry uses it as a number with one.
///
/// A comparison with a sign decides. Where only values that are computed from the parameter are compared, no other use may be without a sign.
pub fn signed_params(module: &Module, function: &Function) -> Vec<bool> {
    let one = |param: &Param| match param {
        Param::Var(id) => is_signed(module, function, *id),
        Param::Reg(_) => false,
    };
    function.params.iter().map(one).collect()
}

fn is_signed(module: &Module, function: &Function, id: VarId) -> bool {
    let Some(variable) = module.variables.get(id.index()) else { return false };
    let is_whole = variable.dims.is_empty() && variable.vector <= 1;
    if !is_whole || !matches!(variable.ty.class(), Class::Unsigned | Class::Bits) {
        return false;
    }
    let mut own: Set<RegId> = Set::default();
    for inst in &function.insts {
        if let (Some(Operand::Reg(to)), Some(Operand::Memory { base: Base::Symbol(Symbol::Var(from)), offset: 0, .. })) =
            (inst.operands.first(), inst.operands.get(1))
            && *from == id
        {
            own.insert(*to);
        }
    }
    let direct = uses(function, &own);
    if direct.signed || direct.unsigned {
        return direct.signed;
    }
    let derived = uses(function, &carried(function, own));
    derived.signed && !derived.unsigned
}

/// The registers with values that signless instructions compute from these alone, or from these and numbers.
fn carried(function: &Function, mut own: Set<RegId>) -> Set<RegId> {
    for inst in &function.insts {
        let (Some(row), Some(Operand::Reg(to))) = (inst.row, inst.operands.first()) else { continue };
        let holds = inst.operands.iter().skip(1).any(|operand| matches!(operand, Operand::Reg(of) if own.contains(of)));
        let alone = |operand: &Operand| match operand {
            Operand::Reg(of) => own.contains(of),
            Operand::Int(_) | Operand::Absent => true,
            _ => false,
        };
        if CARRIES.contains(&row.name) && holds && inst.operands.iter().skip(1).all(alone) {
            own.insert(*to);
        }
    }
    own
}

fn uses(function: &Function, own: &Set<RegId>) -> Uses {
    let mut found = Uses::default();
    for inst in &function.insts {
        let Inst { row: Some(row), .. } = inst else { continue };
        if SIGNLESS.contains(&row.name) {
            continue;
        }
        let site = Site { function, inst, row };
        for (at, operand) in inst.operands.iter().enumerate().skip(1) {
            if matches!(operand, Operand::Reg(of) if own.contains(of)) {
                match site.ty(at).map(|ty| ty.class()) {
                    Some(Class::Signed) => found.signed = true,
                    Some(Class::Unsigned) => found.unsigned = true,
                    _ => {}
                }
            }
        }
    }
    found
}
