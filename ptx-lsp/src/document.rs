//! A document in pieces that are parsed on their own, so that a keystroke costs one piece and not the file.
//!
//! A piece of a `.ptx` file is one function, or some smaller items. The parser has no state between items: where an item behind a change begins
//! as it did before, everything from there on is as it was. Within a function, `ptx_core` does the same with its statements.

use crate::around::Around;
use crate::piece::Piece;
use crate::rust;
use crate::text::Text;
use ptx_core::parse::parse_text;
use ptx_core::span::Span;
use ptx_core::syntax::{StmtId, Tree};
use ptx_core::token::{Kind, TokenId};
use std::ops::Range;

/// Language of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A `.ptx` file.
    Ptx,
    /// A Rust file with `ptx!` and kernels.
    Rust,
}

/// An open document.
#[derive(Debug)]
pub struct Document {
    language: Language,
    text: Text,
    pieces: Vec<Piece>,
    around: Option<Around>,
}

/// Items are gathered into pieces of at least so many bytes.
const PIECE: usize = 1 << 14;

/// The tree of a piece, and its place in the document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'d> {
    pub(crate) tree: &'d Tree,
    /// The byte of the document at which the tree's text begins.
    pub(crate) base: usize,
    pub(crate) body: bool,
}

impl Part<'_> {
    /// The bytes of the document that a span of the tree covers.
    pub(crate) fn range(&self, span: Span) -> Range<usize> {
        self.base + span.lo as usize..self.base + span.hi.max(span.lo) as usize
    }

    /// The bytes of a token.
    pub(crate) fn token(&self, token: TokenId) -> Range<usize> {
        self.range(self.tree.source.span(token))
    }

    /// The last token that begins at a byte of the document or before it; never the end of the text.
    pub(crate) fn last_at(&self, offset: usize) -> Option<TokenId> {
        let source = &self.tree.source;
        let at = u32::try_from(offset.checked_sub(self.base)?).ok()?;
        let (mut lo, mut hi) = (0, source.tokens.len() as TokenId);
        while lo < hi {
            let middle = lo + (hi - lo) / 2;
            match source.place(middle).lo <= at {
                true => lo = middle + 1,
                false => hi = middle,
            }
        }
        let last = lo.checked_sub(1)?;
        match source.kind(last) {
            Kind::Eof => last.checked_sub(1),
            _ => Some(last),
        }
    }
}

impl Document {
    /// Opens a text.
    pub fn new(text: String, language: Language) -> Document {
        let text = Text::new(text);
        let pieces = match language {
            Language::Ptx => {
                let whole = 0..text.as_str().len();
                gathered(items(text.as_str(), whole.clone()), whole)
            }
            Language::Rust => rust::pieces(text.as_str()),
        };
        Document { language, text, pieces, around: None }
    }

    /// With what reads the crate that it is a file of.
    #[must_use]
    pub fn in_crate(self, around: Option<Around>) -> Document {
        Document { around, ..self }
    }

    /// What reads the crate around it.
    pub fn around(&self) -> Option<&Around> {
        self.around.as_ref()
    }

    /// Its language.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Its text.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// Replaces bytes by a text; ends inside of a character are moved to its start.
    pub fn change(&mut self, range: Range<usize>, new: &str) {
        let old = self.text.replace(range, new);
        match self.language {
            Language::Ptx => {
                if !self.retype(&old, new) {
                    self.split_again(&old, new.len());
                }
            }
            Language::Rust => self.pieces = rust::pieces(self.text.as_str()),
        }
    }

    /// Follows a change between the braces of one function, which splits nothing.
    fn retype(&mut self, old: &Range<usize>, new: &str) -> bool {
        let index = self.pieces.partition_point(|piece| piece.range.end <= old.start);
        let followed = self.pieces.get_mut(index).is_some_and(|piece| piece.retype(old, new));
        for piece in self.pieces.iter_mut().skip(index + 1).filter(|_| followed) {
            let moved = |at: usize| at + new.len() - old.len();
            piece.range = moved(piece.range.start)..moved(piece.range.end);
        }
        followed
    }

    /// Splits the pieces around a change again, until an item begins where one began before.
    fn split_again(&mut self, old: &Range<usize>, new: usize) {
        let moved = |at: usize| at + new - old.len();
        let whole = self.text.as_str().len();
        let first = self.pieces.partition_point(|piece| piece.range.end < old.start).saturating_sub(1);
        let start = self.pieces.get(first).map_or(0, |piece| piece.range.start);
        let mut kept = self.pieces.partition_point(|piece| piece.range.start <= old.end);
        let mut step = 1;
        let (found, until) = loop {
            let next = self.pieces.get(kept).map(|piece| moved(piece.range.start)..moved(piece.range.end));
            let until = next.as_ref().map_or(whole, |next| next.start);
            let found = items(self.text.as_str(), start..next.as_ref().map_or(whole, |next| next.end));
            if next.is_none() || found.starts.contains(&until) {
                break (found, until);
            }
            kept = (kept + step).min(self.pieces.len());
            step *= 2;
        };
        for piece in &mut self.pieces[kept..] {
            piece.range = moved(piece.range.start)..moved(piece.range.end);
        }
        self.pieces.splice(first..kept, gathered(found, start..until));
    }

    pub(crate) fn part(&self, index: usize) -> Option<Part<'_>> {
        let piece = self.pieces.get(index)?;
        let tree = piece.tree(self.text.as_str());
        Some(Part { tree, base: piece.range.start, body: piece.body })
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        (0..self.pieces.len()).filter_map(|index| self.part(index))
    }

    /// Returns true if a byte is PTX.
    pub fn is_ptx(&self, offset: usize) -> bool {
        self.pieces.iter().any(|piece| piece.range.contains(&offset))
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The parts that have bytes in a range.
    pub(crate) fn parts_in(&self, range: &Range<usize>) -> impl Iterator<Item = Part<'_>> {
        let first = self.pieces.partition_point(|piece| piece.range.end <= range.start);
        let behind = self.pieces.partition_point(|piece| piece.range.start < range.end);
        (first..behind).filter_map(|index| self.part(index))
    }

    /// The piece with the byte before a position, else the one that begins there.
    pub(crate) fn piece_before(&self, offset: usize) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.range.end < offset);
        self.pieces.get(index).filter(|piece| piece.range.start <= offset).map(|_| index)
    }
}

/// The items of a part of a text.
struct Items {
    /// The bytes at which they begin, each with the comments in front of it.
    starts: Vec<usize>,
    part: Range<usize>,
    tree: Tree,
}

fn items(text: &str, part: Range<usize>) -> Items {
    let (tree, _) = parse_text(text.as_bytes().get(part.clone()).unwrap_or_default());
    let start = |id: &StmtId| part.start + tree.source.place(tree.stmt(*id).head.start).lead as usize;
    Items { starts: tree.items.iter().map(start).collect(), part, tree }
}

/// Pieces of a range that begin at items. A piece that is all of what was parsed has its tree already: a function may be long.
fn gathered(items: Items, range: Range<usize>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = range.start;
    for at in items.starts.iter().copied().filter(|at| *at < range.end) {
        if at - start >= PIECE {
            pieces.push(Piece::new(start..at, false));
            start = at;
        }
    }
    if items.part == (start..range.end) {
        pieces.push(Piece::parsed(start..range.end, items.tree));
    } else if start < range.end || pieces.is_empty() {
        pieces.push(Piece::new(start..range.end, false));
    }
    pieces
}
