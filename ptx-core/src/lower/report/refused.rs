//! Instructions whose modifiers a row has, but that none takes: for their operands, a rule, the target or the version.

use super::forms::with_forms;
use super::gate;
use crate::diag::{Diagnostic, codes, either};
use crate::ir::{Operand, Register};
use crate::isa::find::Form;
use crate::isa::rule::Rule;
use crate::isa::{Arch, Class, Range, Row, Version, show};
use crate::lower::bind::{Mismatch, Why};
use crate::lower::body::Refused;
use crate::lower::form::modifier;
use crate::span::Span;
use crate::syntax::{ExprKind, Inst, Tree};
use ptx_target::sort::SortSmall;

/// Position of an instruction.
pub(in crate::lower) struct Place<'a> {
    pub(in crate::lower) tree: &'a Tree,
    pub(in crate::lower) inst: &'a Inst,
    pub(in crate::lower) name: Span,
    pub(in crate::lower) operands: &'a [Span],
    /// The operands as they are written, and what their registers are.
    pub(in crate::lower) written: &'a [Operand],
    pub(in crate::lower) registers: &'a [Register],
}

/// Rows have the modifiers, but none takes the rest.
pub(in crate::lower) fn refused(
    place: &Place,
    refused: &[(&Form, Refused)],
    arch: Arch,
    version: Version,
) -> Diagnostic {
    // A wrong register or number explains more than "this is no …", and so does a vector of another length.
    let is_vector = |m: &Mismatch| matches!(place.written.get(m.operand), Some(Operand::Vector(_)));
    let says = |m: &Mismatch| match m.why {
        Why::Shape(_) if !is_vector(m) => 0,
        Why::Count => 1,
        Why::Shape(_) => 2,
        _ => 3,
    };
    let rank = |r: &Refused| match r {
        Refused::Operands(m) => (0, m.operand, says(m)),
        Refused::Rule(_) => (1, 0, 0),
        Refused::RuleGate(_) => (2, 0, 0),
        Refused::Gate | Refused::MemberGate(_) => (3, 0, 0),
    };
    let Some((form, why)) = refused.iter().max_by_key(|(_, r)| rank(r)) else {
        return Diagnostic::error(&codes::P0203, place.name, "there is no such form");
    };
    let rows = refused.iter().filter(|(_, r)| rank(r).0 == rank(why).0).map(|(f, _)| f.row);
    match why {
        Refused::Operands(mismatch) => {
            let whole = place.operands.get(mismatch.operand).copied().unwrap_or(place.name);
            let span = odd_element(place, mismatch).unwrap_or(whole);
            with_forms(operand(place, form, mismatch, refused, span), rows)
        }
        Refused::Rule(rule) | Refused::RuleGate(rule) => {
            with_forms(broken(place, (form.row, rule), arch, version), [form.row].into_iter())
        }
        Refused::Gate => gate(place.name, &mnemonic(place), &form.row.gate, arch, version).section(form.row.section),
        Refused::MemberGate(slot) => member_gate(place, form, *slot, arch, version).section(form.row.section),
    }
}

/// The first register of the wrong type in a vector, if the others are not of that type, too.
fn odd_element(place: &Place, mismatch: &Mismatch) -> Option<Span> {
    let (Why::Class { found, .. } | Why::Beside { found, .. }) = &mismatch.why else { return None };
    let Operand::Vector(elements) = place.written.get(mismatch.operand)? else { return None };
    let is_odd = |element: &Operand| match element {
        Operand::Reg(reg) => place.registers.get(reg.index()).is_some_and(|register| register.ty.name() == *found),
        _ => false,
    };
    let at = elements.iter().position(is_odd).filter(|_| !elements.iter().all(is_odd))?;
    let tree = place.tree;
    let ExprKind::Braces(list) = &tree.expr(*tree.list(&place.inst.operands).get(mismatch.operand)?).kind else {
        return None;
    };
    tree.list(list).get(at).map(|element| tree.span(&tree.expr(*element).tokens))
}

fn mnemonic(place: &Place) -> String {
    place.tree.compact(&(place.inst.opcode..place.inst.modifiers.end.max(place.inst.opcode + 1)))
}

fn operand(place: &Place, form: &Form, mismatch: &Mismatch, refused: &[(&Form, Refused)], span: Span) -> Diagnostic {
    let name = form.row.name;
    match &mismatch.why {
        Why::Count => {
            let (written, wanted) = (place.operands.len(), counts(form.row));
            let text = format!("`{name}` takes {wanted} operands here, not {written}");
            Diagnostic::error(&codes::P0204, place.name, text)
        }
        Why::Shape(wanted) => {
            let d = Diagnostic::error(&codes::P0301, span, format!("`{name}` wants {wanted} here"));
            match place.written.get(mismatch.operand) {
                Some(Operand::Special(special)) if !special.vector => d.help(
                    "`mov` reads special registers, or `let` in the kernel language; others take what it has read",
                ),
                _ => d,
            }
        }
        Why::Class { found, wanted } => {
            let registers: Vec<String> = wanted.info().registers.iter().map(|r| format!("`.{r}`")).collect();
            let text = format!("a `.{found}` register cannot be a `.{}` operand of `{name}`", wanted.name());
            let d = Diagnostic::error(&codes::P0302, span, text);
            match registers.is_empty() {
                true => d,
                false => d.help(format!("`.{}` takes a register of type {}", wanted.name(), registers.join(", "))),
            }
        }
        Why::Beside { found, before } => {
            let text = format!("a `.{found}` register cannot stand beside a `.{before}` one in a vector");
            Diagnostic::error(&codes::P0302, span, text)
                .help("the elements are of one type; untyped registers (`.b32`) of that width go with all")
        }
        Why::Literal(ty) => {
            let text = format!("a literal of this kind cannot be a `.{}` operand of `{name}`", ty.name());
            let d = Diagnostic::error(&codes::P0303, span, text);
            match ty.class() {
                Class::Float if ty.bits() >= 32 => {
                    d.help("a floating-point number has a point (`1.0`) or is written bit by bit (`0f3F800000`)")
                }
                Class::Float | Class::Packed => d.help("`mov` it into a register first: this type has no literals"),
                _ => d,
            }
        }
        Why::Range(_) => {
            let text = format!("this must be a constant {}", allowed(refused, mismatch.operand));
            Diagnostic::error(&codes::P0304, span, text)
        }
        Why::Space(space) => Diagnostic::error(
            &codes::P0310,
            span,
            format!("the variable is in `.{space}`, not in the space of `{}`", mnemonic(place)),
        )
        .help(format!("address it in its own space: `.{space}`")),
    }
}

/// The literals that any of the forms takes at an operand.
fn allowed(refused: &[(&Form, Refused)], operand: usize) -> String {
    let mut ranges: Vec<Range> = refused.iter().filter_map(|(_, why)| why.range(operand)).collect();
    ranges.sort_small_by_key(|range| (range.lo, range.hi));
    ranges.dedup();
    if ranges.iter().all(|range| range.lo == range.hi) {
        return format!("equal to {}", either(ranges.iter().map(|range| range.lo)));
    }
    either(ranges)
}

fn counts(row: &Row) -> String {
    let least = row.operands.iter().filter(|o| o.group == 0).count();
    match row.operands.len() {
        most if most == least => least.to_string(),
        most => format!("{least} to {most}"),
    }
}

fn broken(place: &Place, (row, rule): (&Row, &Rule), arch: Arch, version: Version) -> Diagnostic {
    let text = format!("`{}` is not a combination that exists for {arch}, PTX {version}", mnemonic(place));
    Diagnostic::error(&codes::P0206, place.name, text).help(show::rule(row, rule))
}

fn member_gate(place: &Place, form: &Form, slot: usize, arch: Arch, version: Version) -> Diagnostic {
    let Some(member) = form.slots.get(slot).copied().flatten() else {
        return Diagnostic::error(&codes::P0401, place.name, "not for this target");
    };
    let at = place.inst.modifiers.clone().find(|m| modifier(place.tree, *m) == member.text);
    let span = at.map_or(place.name, |m| place.tree.source.span(m));
    match &member.gate {
        Some(g) => gate(span, &format!(".{}", member.text), g, arch, version),
        None => Diagnostic::error(&codes::P0401, span, "not for this target"),
    }
}
