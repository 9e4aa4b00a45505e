//! A file of PTX, and where its bytes stand in lines and columns.

use crate::output::Failure;
use ptx_core::diag::Diagnostic;
use ptx_core::span::Span;
use ptx_core::syntax::Tree;
use std::cell::OnceCell;
use std::path::Path;

/// A file that was read.
pub(crate) struct Source {
    /// As given on the command line.
    pub(crate) name: String,
    /// What it holds.
    pub(crate) bytes: Vec<u8>,
    /// Where each line starts, once somebody asks.
    lines: OnceCell<Vec<usize>>,
}

/// A position, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Source {
    pub(crate) fn read(path: &Path) -> Result<Source, Failure> {
        let bytes = std::fs::read(path).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        Ok(Source::new(path.display().to_string(), bytes))
    }

    pub(crate) fn new(name: String, bytes: Vec<u8>) -> Source {
        Source { name, bytes, lines: OnceCell::new() }
    }

    fn lines(&self) -> &[usize] {
        self.lines.get_or_init(|| {
            let ends = self.bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(ends).collect()
        })
    }

    pub(crate) fn parse(&self) -> (Tree, Vec<Diagnostic>) {
        ptx_core::parse::parse_text(&self.bytes[..])
    }

    pub(crate) fn position(&self, at: u32) -> Position {
        let at = (at as usize).min(self.bytes.len());
        let line = self.lines().partition_point(|start| *start <= at);
        let start = self.lines().get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let column = String::from_utf8_lossy(&self.bytes[start..at]).chars().count() + 1;
        Position { line, column }
    }

    pub(crate) fn range(&self, span: Span) -> (Position, Position) {
        (self.position(span.lo), self.position(span.hi.max(span.lo)))
    }

    /// The lines that hold `span`, as text, and where their first byte stands.
    pub(crate) fn excerpt(&self, span: Span) -> (usize, &[u8]) {
        let first = self.position(span.lo).line - 1;
        let last = self.position(span.hi.max(span.lo)).line;
        let start = self.lines().get(first).copied().unwrap_or(0);
        let end = self.lines().get(last).copied().unwrap_or(self.bytes.len());
        (start, &self.bytes[start..end])
    }
}
