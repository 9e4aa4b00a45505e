//! Tokens and the source that holds them. How text becomes tokens is `lex`'s work.

use crate::span::Span;
use std::ops::Range;

/// What a token is. Whitespace and comments are not tokens but the trivia in front of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An identifier: `add`, `%r1`, `$L__BB0_2`, `_Z3foov`, `_`.
    Word,
    /// A dot and what hangs on it: `.reg`, `.f32`, `.shared::cta`, `.m16n8k16`, `.x`.
    Dot,
    /// An integer literal: `12`, `0x1F`, `0b1`, `017`, `5U`.
    Int,
    /// A floating-point literal: `1.5`, `1e3`, `0f3F800000`, `0d3FF0000000000000`.
    Float,
    /// A string literal with its quotes.
    Str,
    /// One byte of punctuation.
    Punct(u8),
    /// Bytes that PTX does not have. Kept, and reported.
    Unknown,
    /// The end; its trivia is what stands behind the last token.
    Eof,
}

/// A piece of the source. `lead..lo` is its trivia, `lo..hi` its text, both in the source's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Where the trivia starts.
    pub lead: u32,
    /// Where the text starts.
    pub lo: u32,
    /// Where the text ends.
    pub hi: u32,
    /// What it is.
    pub kind: Kind,
}

/// The index of a token in its [`Source`].
pub type TokenId = u32;

/// Bytes and the tokens that cut them. Text that an edit adds is appended to the bytes.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The text of all tokens and trivia.
    pub bytes: Vec<u8>,
    /// The tokens.
    pub tokens: Vec<Token>,
    /// For a macro host: what each token's span is there. Empty for text, where a token's span is its byte range.
    pub origins: Vec<Span>,
    /// Instructions whose opcode is in one of these are taken as they are: `unchecked { … }` of the kernel language.
    pub unchecked: Vec<Range<TokenId>>,
}

impl Source {
    /// The text of a token. Bytes that are not UTF-8 give an empty string; only `Str` and `Unknown` can hold them.
    pub fn text(&self, token: TokenId) -> &str {
        std::str::from_utf8(self.bytes(token)).unwrap_or("")
    }

    /// The bytes of a token, without its trivia.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let t = &self.tokens[token as usize];
        &self.bytes[t.lo as usize..t.hi as usize]
    }

    /// The blanks and comments in front of a token.
    pub fn trivia(&self, token: TokenId) -> &[u8] {
        let t = &self.tokens[token as usize];
        &self.bytes[t.lead as usize..t.lo as usize]
    }

    /// Where a token stands in the host.
    pub fn span(&self, token: TokenId) -> Span {
        match self.origins.get(token as usize) {
            Some(span) => *span,
            None => {
                let t = &self.tokens[token as usize];
                Span::new(t.lo, t.hi)
            }
        }
    }

    /// What a token is.
    pub fn kind(&self, token: TokenId) -> Kind {
        self.tokens[token as usize].kind
    }
}
