//! Inlay hints: what the text does not show. The number of registers of a long vector, and the line that a branch goes to.

use crate::document::{Document, Part};
use crate::names::Binding;
use crate::place::{Spot, forms, path, written};
use ptx_core::isa::OperandKind;
use ptx_core::syntax::{ExprId, ExprKind, Inst, StmtKind};
use std::ops::Range;

/// A text between two characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The byte before which it stands.
    pub offset: usize,
    /// The text.
    pub label: String,
    /// More about it.
    pub tooltip: String,
}

/// Vectors with fewer elements can be counted at a glance.
const FEW: usize = 4;

/// The hints of a part of a document.
pub fn hints(document: &Document, range: Range<usize>) -> Vec<Hint> {
    let mut found = Vec::new();
    for part in document.parts_in(&range) {
        let first = part.last_at(range.start).unwrap_or(0);
        for stmt in &part.tree.stmts {
            let StmtKind::Inst(inst) = &stmt.kind else { continue };
            if stmt.head.end > first && part.token(inst.opcode).start < range.end {
                vectors(&part, inst, &mut found);
                branch(document, &part, inst, &mut found);
            }
        }
    }
    found.retain(|hint| range.contains(&hint.offset) || hint.offset == range.end);
    found.sort_by_key(|hint| hint.offset);
    found
}

fn vectors(part: &Part<'_>, inst: &Inst, out: &mut Vec<Hint>) {
    let mut visit = |id: ExprId| {
        let expr = part.tree.expr(id);
        if let ExprKind::Braces(list) = &expr.kind
            && list.len() > FEW
        {
            out.push(Hint {
                offset: part.range(part.tree.span(&expr.tokens)).end,
                label: format!(" ×{}", list.len()),
                tooltip: format!("{} registers", list.len()),
            });
        }
    };
    for id in part.tree.list(&inst.operands) {
        visit(*id);
        if let ExprKind::Brackets(list) = part.tree.expr(*id).kind {
            part.tree.list(&list).iter().for_each(|id| visit(*id));
        }
    }
}

/// The line of a label that an instruction goes to, with an arrow in its direction.
fn branch(document: &Document, part: &Part<'_>, inst: &Inst, out: &mut Vec<Hint>) {
    let tree = part.tree;
    let operands = tree.list(&inst.operands);
    // Only few operands are plain names without `%`; the table is asked about those.
    let is_name = |id: &ExprId| {
        let tokens = tree.expr(*id).tokens;
        tree.expr(*id).kind == ExprKind::Name && !tree.source.bytes(tokens.start).starts_with(b"%")
    };
    if !operands.iter().any(is_name) {
        return;
    }
    let Ok(forms) = forms(tree, inst) else { return };
    let Some(row) = forms.first().map(|form| form.row) else { return };
    for (id, spec) in operands.iter().zip(written(&row.operands, operands.len())) {
        if !matches!(spec.kind, OperandKind::Label) {
            continue;
        }
        let token = tree.expr(*id).tokens.start;
        let spot = Spot { part: *part, token, path: path(tree, token) };
        let Some(binding @ Binding { local: Some(_), .. }) = document.binding(&spot) else { continue };
        let (Some(declared), here) = (document.declaration(&binding), part.token(token)) else { continue };
        let line = document.text().line_of(declared.start) + 1;
        let arrow = if declared.start < here.start { '↑' } else { '↓' };
        out.push(Hint { offset: here.end, label: format!(" {arrow}{line}"), tooltip: format!("goes to line {line}") });
    }
}
