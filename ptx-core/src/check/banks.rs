//! Numbered constant banks, `.const[2]` of PTX 1.5 to 2.1: those behind the first hold arrays of other modules alone.

use super::error;
use crate::diag::{Diagnostic, codes};
use crate::hash::Set;
use crate::ir::Module;
use crate::lower::constant::integer;
use crate::syntax::{Directive, ExprKind, StmtKind, Tree, Var};

/// The last bank.
const LAST: i64 = 10;

pub(super) fn check_banks(tree: &Tree, _: &Module, out: &mut Vec<Diagnostic>) {
    for stmt in &tree.stmts {
        match &stmt.kind {
            StmtKind::Var(var) => bank(tree, var, out),
            StmtKind::Func(func) => func.params.iter().chain(&func.returns).for_each(|var| bank(tree, var, out)),
            _ => {}
        }
    }
}

fn bank(tree: &Tree, var: &Var, out: &mut Vec<Diagnostic>) {
    if let Some(why) = tree.bank(var).and_then(|bank| refusal(tree, var, bank)) {
        out.push(error(&codes::P0608, tree.source.span(var.space), why, "5.1.3"));
    }
}

/// The names of the module's variables in numbered banks.
pub(super) fn names_in_banks(tree: &Tree) -> Set<&str> {
    let vars = tree.items.iter().filter_map(|id| match &tree.stmt(*id).kind {
        StmtKind::Var(var) => tree.bank(var).map(|_| var),
        _ => None,
    });
    vars.flat_map(|var| tree.names(var)).map(|declared| tree.source.text(declared.name)).collect()
}

fn refusal(tree: &Tree, var: &Var, bank: &Directive) -> Option<String> {
    let space = tree.source.text(var.space);
    if space != ".const" {
        return Some(format!("`{space}` has no banks"));
    }
    let Some(number) = bank_number(tree, bank) else {
        return Some("a constant bank is one number in brackets right behind the state space: `.const[2]`".to_owned());
    };
    if number > LAST {
        return Some(format!("there is no constant bank {number}; the last is {LAST}"));
    }
    let is_extern = var.linkage.is_some_and(|linkage| tree.source.text(linkage) == ".extern");
    let open = |dims| {
        tree.list(dims)
            .first()
            .is_some_and(|id| matches!(tree.expr(*id).kind, ExprKind::Brackets(ref size) if size.is_empty()))
    };
    let fits = is_extern && tree.names(var).iter().all(|declared| open(&declared.dims));
    (number > 0 && !fits).then(|| format!("constant bank {number} holds `.extern` arrays without a size alone"))
}

/// The number of a bank; `None` if it is written in another way.
pub(super) fn bank_number(tree: &Tree, bank: &Directive) -> Option<i64> {
    let [only] = tree.list(&bank.args) else { return None };
    let ExprKind::Brackets(inner) = &tree.expr(*only).kind else { return None };
    let [number] = tree.list(inner) else { return None };
    let mut tokens = tree.expr(*only).tokens.clone();
    let decimal = tree.compact(&tree.expr(*number).tokens).bytes().all(|digit| digit.is_ascii_digit());
    integer(tree, *number).filter(|_| decimal && tokens.all(|token| tree.source.touches(token)))
}
