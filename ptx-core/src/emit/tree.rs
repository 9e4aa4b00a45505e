//! A syntax tree as text, byte for byte as it was written, with or without errors. Layout is not decided here.

use crate::syntax::{StmtId, Tokens, Tree};

/// The text of a tree. For a parsed text that nobody edited, exactly its bytes.
///
/// Walks the tree: every statement's own tokens, its children, the tokens behind them, each with its trivia.
pub fn print_tree(tree: &Tree) -> Vec<u8> {
    let mut printer = Printer { tree, out: Vec::with_capacity(tree.source.bytes.len()), run: 0..0 };
    printer.stmts(&tree.items);
    printer.tokens(tree.eof.map_or(0..0, |eof| eof..eof + 1));
    printer.flush();
    printer.out
}

/// Neighbors in the tree are mostly neighbors in the arena: `run` is what waits to be copied in one go.
struct Printer<'t> {
    tree: &'t Tree,
    out: Vec<u8>,
    run: std::ops::Range<usize>,
}

impl Printer<'_> {
    /// Recursion is as deep as scopes nest, which the parser bounds.
    fn stmts(&mut self, ids: &[StmtId]) {
        for &id in ids {
            let stmt = self.tree.stmt(id);
            self.tokens(stmt.head.clone());
            self.stmts(stmt.children());
            self.tokens(stmt.tail());
        }
    }

    fn tokens(&mut self, tokens: Tokens) {
        for token in tokens {
            let place = self.tree.source.place(token);
            if place.lead as usize != self.run.end {
                self.flush();
                self.run.start = place.lead as usize;
            }
            self.run.end = place.hi as usize;
        }
    }

    fn flush(&mut self) {
        self.out.extend_from_slice(&self.tree.source.bytes[self.run.clone()]);
    }
}
