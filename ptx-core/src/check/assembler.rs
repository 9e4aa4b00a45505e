//! Warnings: forms that ptxas takes and makes wrong machine code of.
//!
//! The bugs are a table. A form belongs in it once two things are seen: ptxas' machine code for the instruction does
//! something else than the manual defines, and a program can see the difference.

use crate::diag::{Diagnostic, codes};
use crate::ir::{Inst, Module, Operand};
use crate::isa::{Class, OperandKind, OperandSpec, Type};
use crate::syntax::Tree;

/// A bug of the assembler.
struct Bug {
    /// The opcodes of the instructions.
    opcodes: &'static [&'static str],
    /// Condition under which the bug has an effect.
    bites: fn(&Inst) -> bool,
    /// The versions that have it, of those that were tried: 12.9, 13.0 and 13.5.
    versions: &'static str,
    /// The end of a sentence that begins with the name of the instruction.
    effect: &'static str,
    /// The help.
    instead: &'static str,
}

const BUGS: &[Bug] = &[
    Bug {
        opcodes: &["testp"],
        bites: is_guarded,
        versions: "12.9 to 13.5",
        effect: "is executed whatever its guard says",
        instead: "write it without a guard, to a predicate of its own, and put the guard on a `mov.pred`",
    },
    Bug {
        opcodes: &["set"],
        bites: |inst| is_guarded(inst) && (is_float(inst, 0) || bits(inst, 1) == 16),
        versions: "12.9 to 13.5",
        effect: "changes its result although the guard is false: the conversion at its end is not guarded",
        instead: "write it without a guard, to a register of its own, and put the guard on a `mov`; or write `setp` and `selp`",
    },
    Bug {
        opcodes: &["vadd4", "vsub4"],
        bites: |inst| is_guarded(inst) && has(inst, "add") && all_are(inst, "u32") && !is_part(inst, 0),
        versions: "12.9 to 13.5",
        effect: "is executed whatever its guard says",
        instead: "write it without a guard, to a register of its own, and put the guard on a `mov`",
    },
    Bug {
        opcodes: &["shl", "shr"],
        bites: |inst| {
            bits(inst, 0) == 16 && literal(inst, 2).is_some_and(|count| count > 0xffff && count & 0xffff < 16)
        },
        versions: "12.9 to 13.5",
        effect: "shifts by the lower 16 bits of this number, not by all of it",
        instead: "write 16: no more bits can leave the register",
    },
    Bug {
        opcodes: &["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset"],
        bites: |inst| is_part(inst, 0),
        versions: "12.9 and 13.0",
        effect: "puts other bytes of the last operand around its result than the manual says",
        instead: "write it to a register of its own, and merge with `prmt` or `bfi`; or assemble with 13.5",
    },
];

pub(super) fn check_assembler(_: &Tree, module: &Module, out: &mut Vec<Diagnostic>) {
    for function in &module.functions {
        function.insts.iter().for_each(|inst| instruction(inst, out));
    }
}

fn instruction(inst: &Inst, out: &mut Vec<Diagnostic>) {
    let Some(row) = inst.row else { return };
    let found = BUGS.iter().find(|bug| bug.opcodes.contains(&row.opcode()) && (bug.bites)(inst));
    let Some(bug) = found else { return };
    let text = format!("a bug of ptxas {}: this `{}` {}", bug.versions, row.name, bug.effect);
    out.push(Diagnostic::warning(&codes::W0701, inst.span, text).help(bug.instead).section(row.section));
}

fn is_guarded(inst: &Inst) -> bool {
    inst.guard.is_some()
}

/// Returns true if this modifier is there.
fn has(inst: &Inst, modifier: &str) -> bool {
    inst.slots.iter().flatten().any(|member| member.text == modifier)
}

/// Returns true if all types among the modifiers are this one.
fn all_are(inst: &Inst, ty: &str) -> bool {
    inst.slots.iter().flatten().filter(|member| member.ty.is_some()).all(|member| member.text == ty)
}

/// The type of an operand; of a pair, of its first half.
fn type_of(inst: &Inst, at: usize) -> Option<Type> {
    let given = |spec: &OperandSpec| match &spec.kind {
        OperandKind::Value(value) => value.ty.given(&inst.slots),
        _ => None,
    };
    inst.row?.operands.get(at).and_then(given)
}

fn bits(inst: &Inst, at: usize) -> u32 {
    type_of(inst, at).map_or(0, Type::bits)
}

fn is_float(inst: &Inst, at: usize) -> bool {
    type_of(inst, at).is_some_and(|ty| ty.class() == Class::Float)
}

/// Returns true if the operand has a selector (`.h1`).
fn is_part(inst: &Inst, at: usize) -> bool {
    matches!(inst.operands.get(at), Some(Operand::Part(..)))
}

/// The lower 32 bits of a number: that is what a count has.
fn literal(inst: &Inst, at: usize) -> Option<u32> {
    match inst.operands.get(at) {
        Some(Operand::Int(value)) => Some(*value as u32),
        _ => None,
    }
}
