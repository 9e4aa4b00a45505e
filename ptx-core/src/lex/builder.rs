//! Building a [`Source`] from pieces whose spans only the host defines.

use super::Lexer;
use crate::diag::Diagnostic;
use crate::span::Span;
use crate::token::Source;

/// Collects text piece by piece; every token remembers the span of the piece it came from.
///
/// The pieces are joined as they are, so two names need a blank between them: `push("add.s32 ", a)`. A piece holds
/// any number of tokens, blanks, comments and line ends; a token does not reach over two pieces.
#[derive(Debug, Default)]
pub struct Builder {
    lexer: Lexer,
    last: Span,
}

impl Builder {
    /// A builder without text.
    pub fn new() -> Self {
        Builder::default()
    }

    /// Adds a piece of text that stands at `span` in the host.
    pub fn push(&mut self, text: &str, span: Span) {
        let reported = self.lexer.diagnostics.len();
        self.lexer.push(text.as_bytes());
        self.lexer.source.origins.resize(self.lexer.source.tokens.len(), span);
        self.lexer.diagnostics[reported..].iter_mut().for_each(|d| d.span = span);
        self.last = span;
    }

    /// Ends the source. The `Eof` token has the span of the last piece.
    pub fn finish(mut self) -> (Source, Vec<Diagnostic>) {
        self.lexer.end();
        self.lexer.source.origins.push(self.last);
        (self.lexer.source, self.lexer.diagnostics)
    }
}
