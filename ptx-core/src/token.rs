//! Tokens and the source that holds them. How text becomes tokens is `lex`'s work.

use crate::hash::Map;
use crate::span::Span;
use std::ops::Range;

/// Kind of a token. Whitespace and comments are not tokens but the trivia in front of one.
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

/// A piece of the source, in eight bytes: a module of 50 MB has twelve million. [`Source::place`] returns its position.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// Start of the text.
    lo: u32,
    /// Length; [`ELSEWHERE`] if the source's table of places has it.
    len: u16,
    /// Its kind.
    pub kind: Kind,
}

/// The length of a token that `lo` and `len` cannot describe: it is long, or does not follow the one before it.
const ELSEWHERE: u16 = u16::MAX;

/// Position of a token in its source's bytes: `lead..lo` is its trivia, `lo..hi` its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Start of the trivia.
    pub lead: u32,
    /// Start of the text.
    pub lo: u32,
    /// End of the text.
    pub hi: u32,
}

/// The index of a token in its [`Source`].
pub type TokenId = u32;

/// Bytes and the tokens that cut them. Text that an edit adds is appended to the bytes.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The text of all tokens and trivia.
    pub bytes: Vec<u8>,
    /// The tokens. The trivia of each starts where the one before it ends, but for those that have a place of their own.
    pub tokens: Vec<Token>,
    /// The places of tokens that are longer than 64 KiB, and of those around an edit.
    places: Map<TokenId, Place>,
    /// For a macro host: what each token's span is there. Empty for text, where a token's span is its byte range.
    pub origins: Vec<Span>,
    /// Instructions whose opcode is in one of these are taken as they are: `unchecked { … }` of the kernel language.
    pub unchecked: Vec<Range<TokenId>>,
}

impl Source {
    /// Adds a token that follows the last one: its trivia starts where that one ends.
    #[inline]
    pub(crate) fn push(&mut self, place: Place, kind: Kind) {
        match u16::try_from(place.hi - place.lo) {
            Ok(len) if len < ELSEWHERE => self.tokens.push(Token { lo: place.lo, len, kind }),
            _ => self.push_elsewhere(place, kind),
        }
    }

    #[cold]
    fn push_elsewhere(&mut self, place: Place, kind: Kind) {
        self.places.insert(self.tokens.len() as TokenId, place);
        self.tokens.push(Token { lo: place.lo, len: ELSEWHERE, kind });
    }

    /// Returns true if the source is a text as the lexer left it: no token stands elsewhere, or is longer than 64 KiB.
    pub(crate) fn is_plain(&self) -> bool {
        self.places.is_empty() && self.origins.is_empty() && self.unchecked.is_empty()
    }

    /// Exchanges tokens, and moves the bytes of all behind them.
    pub(crate) fn exchange(&mut self, gone: Range<TokenId>, came: Vec<Token>, moved: impl Fn(u32) -> u32) {
        self.tokens[gone.end as usize..].iter_mut().for_each(|token| token.lo = moved(token.lo));
        self.tokens.splice(gone.start as usize..gone.end as usize, came);
    }

    /// Moves a token to another place in the bytes. Those behind it stay where they are.
    pub fn set_place(&mut self, token: TokenId, place: Place) {
        if (token as usize + 1) < self.tokens.len() {
            self.pin(token + 1, self.place(token + 1));
        }
        self.pin(token, place);
    }

    fn pin(&mut self, token: TokenId, place: Place) {
        self.places.insert(token, place);
        let token = &mut self.tokens[token as usize];
        (token.lo, token.len) = (place.lo, ELSEWHERE);
    }

    /// Position of a token and its trivia.
    #[inline]
    pub fn place(&self, token: TokenId) -> Place {
        let Token { lo, len, .. } = self.tokens[token as usize];
        match (len, token) {
            (ELSEWHERE, _) => self.elsewhere(token),
            (_, 0) => Place { lead: 0, lo, hi: lo + u32::from(len) },
            _ => Place { lead: self.end(token - 1), lo, hi: lo + u32::from(len) },
        }
    }

    #[inline]
    fn end(&self, token: TokenId) -> u32 {
        let Token { lo, len, .. } = self.tokens[token as usize];
        if len == ELSEWHERE { self.elsewhere(token).hi } else { lo + u32::from(len) }
    }

    #[cold]
    fn elsewhere(&self, token: TokenId) -> Place {
        self.places[&token]
    }

    /// Returns true if nothing stands between a token and the one before it.
    #[inline]
    pub(crate) fn touches(&self, token: TokenId) -> bool {
        let place = self.place(token);
        place.lead == place.lo
    }

    /// The text of a token. Bytes that are not UTF-8 give an empty string; only `Str` and `Unknown` can hold them.
    pub fn text(&self, token: TokenId) -> &str {
        std::str::from_utf8(self.bytes(token)).unwrap_or("")
    }

    /// The bytes of a token, without its trivia.
    #[inline]
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let lo = self.tokens[token as usize].lo;
        &self.bytes[lo as usize..self.end(token) as usize]
    }

    /// The blanks and comments in front of a token.
    pub fn trivia(&self, token: TokenId) -> &[u8] {
        let place = self.place(token);
        &self.bytes[place.lead as usize..place.lo as usize]
    }

    /// Position of a token in the host.
    pub fn span(&self, token: TokenId) -> Span {
        match self.origins.get(token as usize) {
            Some(span) => *span,
            None => {
                let place = self.place(token);
                Span::new(place.lo, place.hi)
            }
        }
    }

    /// Kind of a token.
    #[inline]
    pub fn kind(&self, token: TokenId) -> Kind {
        self.tokens[token as usize].kind
    }
}
