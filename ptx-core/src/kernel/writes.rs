//! Writes in `ptx!` to names that may not be written. The table says which operands an instruction writes.

use crate::diag::Diagnostic;
use crate::ir::{Function, Inst, Module};
use crate::isa::{Access, OperandKind, OperandSpec};
use crate::span::Span;

/// A name in `ptx!` that no instruction may write.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// Its position.
    pub span: Span,
    /// The error, if one does.
    pub diagnostic: Diagnostic,
}

/// Errors for the names in `fixed`, which are in the order of their spans, that an instruction of `module` writes. In
/// `unchecked { }` every operand outside of an address counts as written: the table does not know better.
pub fn check_writes(module: &Module, fixed: &[Fixed]) -> Vec<Diagnostic> {
    if fixed.is_empty() {
        return Vec::new();
    }
    let written = |function: &Function, inst: &Inst| {
        (0..inst.operands.len()).filter(|at| is_written(inst, *at)).map(|at| function.operand_span(inst, at)).collect()
    };
    let all = module.functions.iter().flat_map(|function| function.insts.iter().map(move |inst| (function, inst)));
    let spans: Vec<Span> = all.flat_map(|(function, inst)| -> Vec<Span> { written(function, inst) }).collect();
    let mut found: Vec<&Fixed> = spans.into_iter().flat_map(|span| within(fixed, span)).collect();
    found.sort_by_key(|fixed| fixed.span);
    found.dedup_by_key(|fixed| fixed.span);
    found.into_iter().map(|fixed| fixed.diagnostic.clone()).collect()
}

/// The names inside of a span.
fn within(fixed: &[Fixed], span: Span) -> impl Iterator<Item = &Fixed> {
    let first = fixed.partition_point(|fixed| fixed.span.lo < span.lo);
    fixed.get(first..).unwrap_or_default().iter().take_while(move |fixed| fixed.span.hi <= span.hi)
}

fn is_written(inst: &Inst, operand: usize) -> bool {
    match inst.row {
        Some(row) => row.operands.get(operand).is_some_and(writes),
        None => !matches!(inst.operands.get(operand), Some(crate::ir::Operand::Memory { .. })),
    }
}

fn writes(spec: &OperandSpec) -> bool {
    match &spec.kind {
        OperandKind::Memory { .. } => false,
        OperandKind::Pair(a, _) => writes(a),
        _ => spec.access != Access::Read,
    }
}
