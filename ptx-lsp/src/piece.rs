//! A part of a document that holds PTX, and its tree.

use ptx_core::lex::lex;
use ptx_core::parse::{parse_body, parse_text};
use ptx_core::syntax::Tree;
use std::cell::OnceCell;
use std::ops::Range;

/// A part of a document that holds PTX.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<usize>,
    /// True for the statements of a body, as in a `ptx!` of a kernel.
    pub(crate) body: bool,
    tree: OnceCell<Tree>,
}

impl Piece {
    pub(crate) fn new(range: Range<usize>, body: bool) -> Piece {
        Piece { range, body, tree: OnceCell::new() }
    }

    /// A piece of a module whose tree is known.
    pub(crate) fn parsed(range: Range<usize>, tree: Tree) -> Piece {
        Piece { range, body: false, tree: OnceCell::from(tree) }
    }

    /// Follows a change of the text within it that touches neither end. Returns false if it must be split and parsed again.
    pub(crate) fn retype(&mut self, change: &Range<usize>, new: &str) -> bool {
        let inside = self.range.start < change.start && change.end < self.range.end;
        let base = self.range.start;
        let Some(tree) = self.tree.get_mut().filter(|_| inside && !self.body) else { return false };
        let followed = tree.retype(change.start - base..change.end - base, new);
        match followed {
            true => self.range.end = self.range.end + new.len() - change.len(),
            false => self.tree = OnceCell::new(),
        }
        followed
    }

    /// Its tree, which is made once.
    pub(crate) fn tree(&self, text: &str) -> &Tree {
        self.tree.get_or_init(|| {
            let bytes = text.as_bytes().get(self.range.clone()).unwrap_or_default();
            match self.body {
                true => parse_body(lex(bytes).0).0,
                false => parse_text(bytes).0,
            }
        })
    }
}
