//! PTX text as Rust source: the module in a `ptx! { }`, byte for byte where Rust's lexer takes its bytes.
//!
//! What it does not take is listed in [`Reason`]; those tokens and comments are rewritten, and said. Nothing here raises
//! code: that is `transpile`'s.

use crate::syntax::{StmtId, StmtKind, Tokens, Tree};
use crate::token::{Kind, TokenId};
use std::fmt;

/// A module as Rust.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The source: one `pub mod`.
    pub text: String,
    /// The rewrites; empty if the macro's PTX equals the input byte for byte.
    pub rewritten: Vec<Rewrite>,
}

/// Bytes that Rust's lexer does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Position in the bytes of the tree's source.
    pub at: u32,
    /// Why.
    pub reason: Reason,
}

/// Why bytes were rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Rust reads `\r\n` as `\n`.
    LineEnd,
    /// NUL bytes at the end of an embedded module, and other control characters between tokens.
    Control,
    /// Rust source is UTF-8.
    NotUtf8,
    /// Block comments nest in Rust: `/* /* */`.
    Nested,
    /// A `//` comment in the last line would hide the brace behind it.
    LastLine,
    /// A backslash in a string that is no escape of Rust's.
    Escape,
    /// A string that touches the word before it.
    Prefix,
    /// Digits that are no number to Rust: `0b12`.
    Number,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::LineEnd => "a CR before a line end, which Rust drops",
            Reason::Control => "control characters",
            Reason::NotUtf8 => "bytes that are not UTF-8",
            Reason::Nested => "`/*` in a comment, which nests in Rust",
            Reason::LastLine => "a comment in the last line",
            Reason::Escape => "a backslash in a string",
            Reason::Prefix => "a string that touches a word",
            Reason::Number => "a number as Rust has none",
        })
    }
}

/// A module as Rust, in a `mod` of this name.
pub fn plain(tree: &Tree, name: &str) -> Plain {
    let mut printer = Printer { tree, out: Vec::new(), rewritten: Vec::new() };
    let end = tree.eof.unwrap_or(tree.source.tokens.len() as TokenId);
    printer.tokens(0..end);
    if end < tree.source.tokens.len() as TokenId {
        printer.trivia(end);
        printer.last_line(end);
    }
    let body = String::from_utf8_lossy(&printer.out);
    let text = format!(
        "#[rustfmt::skip]\n#[allow(unused_imports)]\npub mod {name} {{\n    use ::ptx_launch::prelude::*;\n\n    \
         ::ptx_launch::ptx! {{{body}}}\n}}\n"
    );
    Plain { text, rewritten: printer.rewritten }
}

/// A statement and all that is in it as Rust's lexer takes it, with the comments and blanks in front of it; without the
/// `.loc`s, which name files and sections that do not come along.
pub fn statement(tree: &Tree, id: StmtId) -> String {
    let mut printer = Printer { tree, out: Vec::new(), rewritten: Vec::new() };
    printer.statement(id);
    String::from_utf8_lossy(&printer.out).into_owned()
}

struct Printer<'t> {
    tree: &'t Tree,
    out: Vec<u8>,
    rewritten: Vec<Rewrite>,
}

impl Printer<'_> {
    fn rewrite(&mut self, token: TokenId, reason: Reason) {
        let at = self.tree.source.place(token).lead;
        self.rewritten.push(Rewrite { at, reason });
    }

    /// Recursion is as deep as scopes nest, which the parser bounds.
    fn statement(&mut self, id: StmtId) {
        let stmt = self.tree.stmt(id);
        if matches!(&stmt.kind, StmtKind::Directive(directive) if self.tree.source.text(directive.name) == ".loc") {
            return;
        }
        self.tokens(stmt.head.clone());
        stmt.children().iter().for_each(|child| self.statement(*child));
        self.tokens(stmt.tail());
    }

    fn tokens(&mut self, tokens: Tokens) {
        for token in tokens {
            self.trivia(token);
            self.token(token);
        }
    }

    /// Blanks and comments.
    fn trivia(&mut self, token: TokenId) {
        let bytes = self.tree.source.trivia(token);
        if bytes.iter().all(|b| matches!(b, b' ' | b'\n' | b'\t')) {
            return self.out.extend_from_slice(bytes);
        }
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                self.rewrite(token, Reason::NotUtf8);
                String::from_utf8_lossy(bytes).replace('\u{fffd}', "?")
            }
        };
        let text = self.replaced(token, text, "\r\n", "\n", Reason::LineEnd);
        let text = match text.find(|c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\u{b}' | '\u{c}')) {
            Some(_) => {
                self.rewrite(token, Reason::Control);
                text.replace('\r', "\n").replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "")
            }
            None => text,
        };
        let flat = flattened(&text);
        if flat != text {
            self.rewrite(token, Reason::Nested);
        }
        self.out.extend_from_slice(flat.as_bytes());
    }

    fn replaced(&mut self, token: TokenId, text: String, from: &str, to: &str, reason: Reason) -> String {
        if !text.contains(from) {
            return text;
        }
        self.rewrite(token, reason);
        text.replace(from, to)
    }

    fn token(&mut self, token: TokenId) {
        let source = &self.tree.source;
        let bytes = source.bytes(token);
        match source.kind(token) {
            Kind::Str => self.string(token),
            Kind::Int if !is_rust_number(bytes) => {
                self.rewrite(token, Reason::Number);
                self.out.extend_from_slice(crate::parse::integer_value(bytes).to_string().as_bytes());
            }
            _ => self.out.extend_from_slice(bytes),
        }
    }

    fn string(&mut self, token: TokenId) {
        let source = &self.tree.source;
        let touches = source.trivia(token).is_empty() && self.out.last().is_some_and(u8::is_ascii_alphanumeric);
        if touches {
            self.rewrite(token, Reason::Prefix);
            self.out.push(b' ');
        }
        let text = match std::str::from_utf8(source.bytes(token)) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                self.rewrite(token, Reason::NotUtf8);
                String::from_utf8_lossy(source.bytes(token)).replace('\u{fffd}', "?")
            }
        };
        let mut escaped = false;
        let sound = text.chars().all(|c| {
            let good = !escaped || matches!(c, 'n' | 'r' | 't' | '\\' | '0' | '\'');
            escaped = c == '\\' && !escaped;
            good
        });
        let text = if sound { text } else { self.replaced(token, text, "\\", "/", Reason::Escape) };
        self.out.extend_from_slice(text.as_bytes());
    }

    /// The closing brace needs a line of its own behind a comment.
    fn last_line(&mut self, eof: TokenId) {
        let last = self.out.rsplit(|b| *b == b'\n').next().unwrap_or_default();
        if last.windows(2).any(|pair| pair == b"//") {
            self.rewrite(eof, Reason::LastLine);
            self.out.push(b'\n');
        }
    }
}

/// The text with `/*` inside of block comments taken apart.
fn flattened(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = comment_start(rest) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let block = rest.starts_with("/*");
        let end = match block {
            true => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            false => rest.find('\n').unwrap_or(rest.len()),
        };
        let comment = &rest[..end];
        if block {
            out.push_str("/*");
            out.push_str(&comment[2..].replace("/*", "/ *"));
        } else {
            out.push_str(comment);
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Start of the first comment. One search for both kinds: of two, one would run to the end of the text for each comment of the other kind.
fn comment_start(text: &str) -> Option<usize> {
    text.as_bytes().windows(2).position(|pair| matches!(pair, b"/*" | b"//"))
}

/// Returns true if Rust reads these digits as a number, with or without a suffix.
fn is_rust_number(bytes: &[u8]) -> bool {
    match bytes {
        [b'0', b'x', rest @ ..] => rest.first().is_some_and(u8::is_ascii_hexdigit),
        [b'0', b'b', rest @ ..] => !rest.is_empty() && rest.iter().all(|b| matches!(b, b'0' | b'1' | b'U')),
        _ => true,
    }
}
