//! The instructions of one body while they are written: text with its spans, labels, and jumps.

use super::Pieces;
use crate::names::Names;
use ptx_core::hash::Map;
use ptx_core::span::Span;

/// A body with more pieces has a `for` or a call too many.
const MOST_PIECES: usize = 2_000_000;

/// A label: its index in [`Code::targets`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Label(usize);

/// Instructions, and the declarations among them.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// The text so far.
    pub(super) text: Pieces,
    /// Label names that are taken.
    pub(super) labels: Names,
    /// Every label made, and the number of jumps to it.
    targets: Vec<(String, u32)>,
    /// `if`, `while` … : how many there are.
    counts: Map<&'static str, u32>,
    /// Nothing reaches the next instruction.
    pub(super) dead: bool,
    /// … because of a condition that is known: the rest of the block is left out, as the other side of that `if` is.
    pub(super) decided: bool,
    /// The statement whose `.loc` comes before the next instruction.
    pub(super) line: Option<Span>,
    /// A limit was passed and reported.
    pub(super) full: bool,
}

impl Code {
    /// Writes text as it is; returns false where there is too much of it. Only loops and calls multiply what somebody wrote: a body
    /// without them, which is not `multiplied`, may be as long as it is.
    pub(super) fn push(&mut self, text: String, span: Span, multiplied: bool) -> bool {
        let fits = self.text.len() < MOST_PIECES || !multiplied;
        if fits {
            self.text.push((text, span));
        }
        fits
    }

    /// A new label like this one.
    pub(super) fn label(&mut self, base: &str) -> Label {
        let name = self.labels.unique(base);
        self.targets.push((name, 0));
        Label(self.targets.len() - 1)
    }

    /// The number of the next `if`, `while` …
    pub(super) fn number(&mut self, what: &'static str) -> u32 {
        let count = self.counts.entry(what).or_default();
        *count += 1;
        *count
    }

    /// Counts a jump to a label and returns the label's name; `None` if nothing reaches the jump.
    pub(super) fn jump_to(&mut self, label: Label) -> Option<String> {
        let target = self.targets.get_mut(label.0).filter(|_| !self.dead)?;
        target.1 += 1;
        Some(target.0.clone())
    }

    /// Places a label and returns its text. A jump to the next instruction is removed, and a label without jumps has no text.
    pub(super) fn place(&mut self, label: Label) -> Option<String> {
        let (name, jumps) = self.targets.get_mut(label.0)?;
        let jump = format!("    bra {name};\n");
        while self.text.pop_if(|(text, _)| *text == jump).is_some() {
            *jumps -= 1;
            self.dead = false;
            self.text.pop_if(|(text, _)| text.starts_with("    .loc"));
        }
        let text = (*jumps > 0).then(|| format!("{name}:\n"));
        self.dead &= text.is_none();
        self.decided &= self.dead;
        text
    }

    /// Makes room for a label that something may jump to later; returns its text.
    pub(super) fn place_ahead(&mut self, label: Label) -> Option<String> {
        self.dead = false;
        self.decided = false;
        self.targets.get(label.0).map(|(name, _)| format!("{name}:\n"))
    }

    /// Removes a label that was placed ahead at piece `at`, if nothing jumped to it.
    pub(super) fn withdraw(&mut self, label: Label, at: usize) {
        if let (Some((_, 0)), Some(piece)) = (self.targets.get(label.0), self.text.get_mut(at)) {
            piece.0.clear();
        }
    }

    /// Removes pieces that only concerned a loop without turns.
    pub(super) fn erase(&mut self, pieces: std::ops::Range<usize>) {
        self.text.get_mut(pieces).into_iter().flatten().for_each(|(text, _)| text.clear());
    }
}
