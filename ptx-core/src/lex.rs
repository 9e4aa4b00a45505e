//! Bytes to tokens, and nothing else: manual section 4.1 to 4.5. No token is ever dropped, whatever the bytes are.
//!
//! One token is one look at `CLASS`, then a run over the bytes that continue it. `scan` holds those runs,
//! `builder` the way in for hosts that bring their text in pieces.

mod builder;
mod scan;

pub use builder::Builder;

use crate::diag::{Diagnostic, codes};
use crate::span::Span;
use crate::token::{Kind, Place, Source, TokenId};
use scan::{Class, class};
use std::ops::Range;

/// The longest source. What counts its bytes fits 32 bits, what counts its tokens 31.
pub(crate) const MAX_BYTES: usize = i32::MAX as usize;

/// Editors of Windows write it in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts `bytes` into tokens. Everything is kept: trivia in front of the token it precedes, bytes that PTX does not
/// have as `Unknown`. Diagnostics: P0001, P0002, P0003, P0004.
///
/// A `Vec` becomes the source's own; anything else is copied.
pub fn lex(bytes: impl Into<Vec<u8>>) -> (Source, Vec<Diagnostic>) {
    whole(bytes.into())
}

fn whole(bytes: Vec<u8>) -> (Source, Vec<Diagnostic>) {
    if bytes.len() > MAX_BYTES {
        let (source, _) = whole(Vec::new());
        return (source, vec![Diagnostic::error(&codes::P0004, Span::default(), "the source is longer than 2 GiB")]);
    }
    let mut lexer = Lexer::default();
    lexer.source.tokens.reserve(bytes.len() / 3 + 1);
    lexer.source.bytes = bytes;
    lexer.cut(0);
    lexer.nul();
    lexer.end();
    (lexer.source, lexer.diagnostics)
}

/// Adds the tokens of `text` and an `Eof` to a source that is complete already, for an edit: where they are, and
/// diagnostics whose spans count from the start of `text`.
pub(crate) fn append(source: &mut Source, text: &str) -> (Range<TokenId>, Vec<Diagnostic>) {
    let (base, first) = (source.bytes.len(), source.tokens.len() as TokenId);
    let mut lexer = Lexer { source: std::mem::take(source), diagnostics: Vec::new(), lead: base };
    lexer.push(text.as_bytes());
    lexer.end();
    *source = lexer.source;
    source.set_place(first, Place { lead: base as u32, ..source.place(first) });
    if !source.origins.is_empty() {
        source.origins.resize(source.tokens.len(), Span::default());
    }
    let relative = |d: Diagnostic| Diagnostic { span: d.span.back(base as u32), ..d };
    (first..source.tokens.len() as TokenId, lexer.diagnostics.into_iter().map(relative).collect())
}

/// Replaces bytes of a text, and cuts the tokens around them again, from one on whose trivia begins in front of the change. Returns the
/// first token behind that is as it was, by its old index, and the number of new tokens.
pub(crate) fn relex(
    source: &mut Source,
    first: TokenId,
    change: &Range<usize>,
    new: &[u8],
) -> Option<(TokenId, TokenId)> {
    let eof = u32::try_from(source.tokens.len().checked_sub(1)?).ok()?;
    if source.bytes.len() + new.len() > MAX_BYTES || change.end > source.bytes.len() {
        return None;
    }
    let moved = |at: u32| (at as usize + new.len() - change.len()) as u32;
    let moved_place = |place: Place| Place { lead: moved(place.lead), lo: moved(place.lo), hi: moved(place.hi) };
    let mut lexer = Lexer { lead: source.place(first).lead as usize, ..Lexer::default() };
    if let Some(before) = first.checked_sub(1) {
        lexer.source.push(source.place(before), source.kind(before));
    }
    let own = lexer.source.tokens.len();
    source.bytes.splice(change.clone(), new.iter().copied());
    let (mut old, mut at) = (first, lexer.lead);
    loop {
        let Some((place, kind)) = lexer.next(&source.bytes, at) else {
            old = eof;
            break;
        };
        let is_before = |old: Place| (old.lead as usize) < change.end || moved(old.lo) < place.lo;
        old += (old..eof).take_while(|old| is_before(source.place(*old))).count() as TokenId;
        // What a token is may depend on its line.
        let is_new_line = source.bytes[place.lead as usize..place.lo as usize].contains(&b'\n');
        if is_new_line && old < eof && source.kind(old) == kind && moved_place(source.place(old)) == place {
            break;
        }
        at = lexer.take(place, kind);
    }
    let came = lexer.source.tokens.split_off(own);
    let count = came.len() as TokenId;
    let is_plain = lexer.source.is_plain();
    source.exchange(first..old, came, moved);
    is_plain.then_some((old, count))
}

/// The tokens made so far and what was wrong with them.
#[derive(Debug, Default)]
struct Lexer {
    source: Source,
    diagnostics: Vec<Diagnostic>,
    /// The end of the last token, where the trivia of the next one starts.
    lead: usize,
}

impl Lexer {
    /// Adds text and its tokens.
    fn push(&mut self, text: &[u8]) {
        let at = self.source.bytes.len();
        self.source.bytes.extend_from_slice(text);
        self.cut(at);
    }

    /// Adds the tokens of what stands behind `at`.
    fn cut(&mut self, mut at: usize) {
        let bytes = std::mem::take(&mut self.source.bytes);
        while let Some((place, kind)) = self.next(&bytes, at) {
            at = self.take(place, kind);
        }
        self.source.bytes = bytes;
    }

    /// The token behind `at`.
    #[inline]
    fn next(&mut self, bytes: &[u8], at: usize) -> Option<(Place, Kind)> {
        let lo = self.trivia(bytes, at)?;
        let (kind, hi) = token(bytes, lo, self.lead == lo && self.after_name());
        match kind {
            Kind::Unknown => self.unknown(&bytes[lo..hi], lo),
            Kind::Str if !scan::closed(&bytes[lo..hi]) => self.report(&codes::P0003, lo, hi, "the string never ends"),
            _ => {}
        }
        Some((Place { lead: self.lead as u32, lo: lo as u32, hi: hi as u32 }, kind))
    }

    /// Adds a token; returns its end.
    #[inline]
    fn take(&mut self, place: Place, kind: Kind) -> usize {
        self.source.push(place, kind);
        self.lead = place.hi as usize;
        self.lead
    }

    /// Modules cut out of binaries are padded with NUL. It is a blank here; ptxas reads nothing behind it.
    fn nul(&mut self) {
        let bytes = &self.source.bytes;
        // `contains` looks at many bytes at a time.
        if let Some(at) = bytes.contains(&0).then(|| bytes.iter().position(|b| *b == 0)).flatten() {
            self.report(&codes::P0001, at, at + 1, "a NUL byte, behind which ptxas reads nothing");
        }
    }

    /// Returns true if the last token is a name or modifier: `.5` that touches it is a part of it, elsewhere a
    /// number.
    #[inline]
    fn after_name(&self) -> bool {
        self.source.tokens.last().is_some_and(|t| matches!(t.kind, Kind::Word | Kind::Dot))
    }

    /// Adds `Eof` with what is left as its trivia.
    fn end(&mut self) {
        let end = self.source.bytes.len() as u32;
        self.source.push(Place { lead: self.lead as u32, lo: end, hi: end }, Kind::Eof);
    }

    /// Start of the next token; `None` at the end.
    #[inline]
    fn trivia(&mut self, bytes: &[u8], mut at: usize) -> Option<usize> {
        loop {
            match class(*bytes.get(at)?) {
                Class::Blank => at += 1,
                Class::Slash if bytes.get(at + 1) == Some(&b'/') => at = scan::line(bytes, at),
                Class::Slash if bytes.get(at + 1) == Some(&b'*') => at = self.block_comment(bytes, at),
                Class::Unknown if scan::is_line_marker(bytes, at) => at = scan::line(bytes, at),
                Class::Unknown if self.is_byte_order_mark(bytes, at) => at = self.byte_order_mark(at),
                _ => return Some(at),
            }
        }
    }

    /// In front of the first token the mark is a blank, also behind padding and comments, which a formatter may remove.
    fn is_byte_order_mark(&self, bytes: &[u8], at: usize) -> bool {
        self.source.tokens.is_empty() && bytes[at..].starts_with(BYTE_ORDER_MARK)
    }

    fn byte_order_mark(&mut self, at: usize) -> usize {
        let end = at + BYTE_ORDER_MARK.len();
        let text = "the file begins with a byte-order mark, which ptxas refuses";
        let mark = Diagnostic::error(&codes::P0001, Span::new(at as u32, end as u32), text);
        self.diagnostics.push(mark.help("save it as UTF-8 without the mark"));
        end
    }

    fn block_comment(&mut self, bytes: &[u8], at: usize) -> usize {
        scan::block_comment_end(bytes, at).unwrap_or_else(|| {
            self.report(&codes::P0002, at, at + 2, "the comment never ends");
            bytes.len()
        })
    }

    fn unknown(&mut self, text: &[u8], lo: usize) {
        let message = match std::str::from_utf8(text) {
            Ok(text) => format!("`{}` is no character of PTX", text.escape_debug()),
            Err(_) => "these bytes are no characters of PTX".to_owned(),
        };
        self.report(&codes::P0001, lo, lo + text.len(), message);
    }

    fn report(&mut self, code: &'static crate::diag::Code, lo: usize, hi: usize, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, Span::new(lo as u32, hi as u32), message));
    }
}

/// The token that starts at `lo`: what it is and where it ends.
#[inline]
fn token(bytes: &[u8], lo: usize, touches_name: bool) -> (Kind, usize) {
    match class(bytes[lo]) {
        Class::Word => (Kind::Word, scan::word(bytes, lo + 1)),
        Class::Dot => scan::dot(bytes, lo, touches_name),
        Class::Digit => scan::number(bytes, lo),
        Class::Percent => match scan::word(bytes, lo + 1) {
            end if end == lo + 1 => (Kind::Punct(b'%'), end),
            end => (Kind::Word, end),
        },
        Class::Quote => (Kind::Str, scan::string(bytes, lo)),
        Class::Unknown | Class::Blank => (Kind::Unknown, scan::unknown(bytes, lo)),
        Class::Slash | Class::Punct => (Kind::Punct(bytes[lo]), lo + 1),
    }
}
