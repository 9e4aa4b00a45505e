//! A function or variable that is declared more than once: what its declarations must say alike.

use super::report;
use crate::diag::Diagnostic;
use crate::ir::{Function, Module, Variable};
use ptx_target::sort::SortSmall;

/// The first contradiction between two declarations.
pub(super) fn check(first: &Function, second: &Function, module: &Module) -> Option<Diagnostic> {
    let (name, span) = (&second.name, second.span);
    let external = |f: &Function| f.linkage == Some("extern");
    let said = match (first.linkage, second.linkage) {
        _ if external(first) != external(second) => return Some(report::extern_or_not(name, span, first.span)),
        _ if first.defined => return Some(report::duplicate(name, span, first.span)),
        _ if first.entry != second.entry => "an entry in the one place and a function in the other".to_owned(),
        _ if first.signature(module) != second.signature(module) => {
            return Some(report::other_signature(name, span, first.span));
        }
        _ if !first.entry && limits(first) != limits(second) => "declared with other directives".to_owned(),
        (Some(a), Some(b)) if a != b => format!("`.{b}` here, and `.{a}` where it was declared"),
        (None, Some(b)) => format!("`.{b}` here, but not where it was declared"),
        _ => return None,
    };
    Some(report::other_declaration(name, &said, span, first.span))
}

/// The directives behind the parameters; an entry has them where its body is.
fn limits(function: &Function) -> Vec<(&str, &[u64])> {
    let mut all: Vec<_> = function.limits.iter().map(|l| (l.name.as_str(), &l.values[..])).collect();
    all.sort_small();
    all
}

/// ptxas compares all but state spaces and alignments; an array may leave its size open.
pub(super) fn same_variable(first: &Variable, second: &Variable) -> bool {
    let alike = |(a, b): (&u64, &u64)| a == b || *a == 0 || *b == 0;
    (first.ty, first.vector, first.dims.len()) == (second.ty, second.vector, second.dims.len())
        && first.dims.iter().zip(&second.dims).all(alike)
}
