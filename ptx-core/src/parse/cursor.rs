//! Looking at tokens, taking them, and reporting the ones that have no place.

use super::{Parsed, Parser, Stuck};
use crate::diag::{Code, Diagnostic, codes};
use crate::token::{Kind, TokenId};

/// After this many diagnostics only one more is kept, which reports that: a megabyte of noise must not cost a gigabyte.
const MAX_DIAGNOSTICS: usize = 10_000;

impl Parser {
    /// The kind of the next token.
    #[inline]
    pub(super) fn kind(&self) -> Kind {
        self.tree.source.tokens[self.at as usize].kind
    }

    /// The kind of the token `n` behind the next one.
    #[inline]
    pub(super) fn nth(&self, n: TokenId) -> Kind {
        self.tree.source.tokens[(self.at + n).min(self.end) as usize].kind
    }

    /// Returns true if nothing is left.
    #[inline]
    pub(super) fn done(&self) -> bool {
        self.at >= self.end
    }

    /// Returns true if the next token is this punctuation.
    #[inline]
    pub(super) fn at(&self, punct: u8) -> bool {
        self.kind() == Kind::Punct(punct)
    }

    /// Takes the next token.
    #[inline]
    pub(super) fn bump(&mut self) -> TokenId {
        let token = self.at;
        self.at = (token + 1).min(self.end);
        token
    }

    /// Takes the next token if it is this punctuation.
    #[inline]
    pub(super) fn eat(&mut self, punct: u8) -> bool {
        let found = self.at(punct);
        self.at += TokenId::from(found);
        found
    }

    /// Takes this punctuation or gets stuck.
    pub(super) fn expect(&mut self, punct: u8) -> Parsed<TokenId> {
        if self.at(punct) { Ok(self.bump()) } else { Err(self.stuck(&format!("`{}`", punct as char))) }
    }

    /// Takes a word or gets stuck.
    pub(super) fn expect_word(&mut self, what: &str) -> Parsed<TokenId> {
        if self.kind() == Kind::Word { Ok(self.bump()) } else { Err(self.stuck(what)) }
    }

    /// Takes a `Dot` token or gets stuck.
    pub(super) fn expect_dot(&mut self, what: &str) -> Parsed<TokenId> {
        if self.kind() == Kind::Dot { Ok(self.bump()) } else { Err(self.stuck(what)) }
    }

    /// Returns true if nothing stands between the next token and the one before.
    #[inline]
    pub(super) fn touches(&self) -> bool {
        self.tree.source.touches(self.at)
    }

    /// Reports that the name of a declaration goes on with a dot, as names of other languages do.
    pub(super) fn no_dot(&mut self, name: TokenId) {
        let first = self.at;
        while self.kind() == Kind::Dot && self.touches() {
            self.at += 1;
        }
        if self.at == first {
            return;
        }
        let text = self.tree.compact(&(name..self.at));
        let span = self.tree.source.span(name).to(self.tree.source.span(self.at - 1));
        let message = format!("the name `{text}` has a dot, which names of PTX do not have");
        let help = format!("write `{}` here and wherever it is used", text.replace('.', "$"));
        self.diagnostics.push(Diagnostic::error(&codes::P0101, span, message).help(help));
    }

    /// Returns true if the next token is the first of its line.
    pub(super) fn starts_line(&self) -> bool {
        self.at == 0 || self.tree.source.trivia(self.at).contains(&b'\n')
    }

    /// Reports that the next token is not what is expected here. What the lexer has reported is not reported again.
    #[cold]
    pub(super) fn stuck(&mut self, expected: &str) -> Stuck {
        match self.kind() {
            Kind::Unknown if !self.done() => {}
            // A string that never ends has swallowed what is missed here, and has its own diagnostic.
            _ if self.behind_open_string() => {}
            Kind::Eof => self.report(&codes::P0101, self.at, format!("expected {expected}, found the end")),
            _ => {
                let found = self.tree.source.text(self.at);
                self.report(&codes::P0101, self.at, format!("expected {expected}, found `{}`", shorten(found)));
            }
        }
        Stuck
    }

    fn behind_open_string(&self) -> bool {
        let Some(before) = self.at.checked_sub(1) else { return false };
        let text = self.tree.source.text(before);
        self.tree.source.kind(before) == Kind::Str && (text.len() == 1 || !text.ends_with('"'))
    }

    /// Reports a scope or bracket too many.
    #[cold]
    pub(super) fn too_deep(&mut self) -> Stuck {
        self.report(&codes::P0103, self.at, format!("scopes and brackets nest more than {} deep", super::MAX_DEPTH));
        Stuck
    }

    #[cold]
    pub(super) fn report(&mut self, code: &'static Code, token: TokenId, message: impl Into<String>) {
        let span = self.tree.source.span(token);
        match self.diagnostics.len() {
            n if n < MAX_DIAGNOSTICS => self.diagnostics.push(Diagnostic::error(code, span, message)),
            MAX_DIAGNOSTICS => {
                let message = "too many syntax errors, the rest is not reported";
                self.diagnostics.push(Diagnostic::error(&codes::P0104, span, message));
            }
            _ => {}
        }
    }
}

/// At most 40 characters of a token, for a message.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
