//! Recovery: the start of the next statement after one that does not parse.

use super::name::{Start, start};
use super::{Parser, Stuck};
use crate::diag::codes;
use crate::syntax::{StmtId, StmtKind};
use crate::token::{Kind, TokenId};

impl Parser {
    /// Makes an `Error` of everything from `first` to the end of the bad statement in a body: past a `;`, before the
    /// `}` that closes the scope around it, before a line that starts with a directive, a guard or a label.
    #[cold]
    pub(super) fn recover(&mut self, first: TokenId) -> StmtId {
        let mut open = self.open_braces(first);
        while !(self.done() || self.at > first && self.begins_statement()) {
            if open == 0 && self.closes_scope() {
                break;
            }
            match self.take() {
                Kind::Punct(b'}') => open = open.saturating_sub(1),
                Kind::Punct(b'{') => open += 1,
                Kind::Punct(b';') => break,
                _ => {}
            }
        }
        self.error_from(first)
    }

    /// Number of open braces between `first` and here.
    fn open_braces(&self, first: TokenId) -> u32 {
        (first..self.at).fold(0u32, |open, token| match self.tree.source.kind(token) {
            Kind::Punct(b'{') => open + 1,
            Kind::Punct(b'}') => open.saturating_sub(1),
            _ => open,
        })
    }

    /// Returns true if the next token is a `}` that ends a scope and no list: nothing of a statement follows it.
    pub(super) fn closes_scope(&self) -> bool {
        self.at(b'}') && !matches!(self.nth(1), Kind::Punct(b',' | b';' | b')' | b']'))
    }

    /// The same at module level, where a whole body may hang on the bad statement.
    #[cold]
    pub(super) fn recover_item(&mut self, first: TokenId) -> StmtId {
        let mut open = 0u32;
        while !(self.done() || self.at > first && self.begins_item(open)) {
            match self.take() {
                Kind::Punct(b'}') => open = open.saturating_sub(1),
                Kind::Punct(b'{') => open += 1,
                _ => {}
            }
        }
        self.error_from(first)
    }

    /// Skips what stands between a function's keyword and its body.
    #[cold]
    pub(super) fn skip_header(&mut self) {
        let ends =
            |p: &Self| p.at_function() || p.begins_item(0) || matches!(p.kind(), Kind::Punct(b'{' | b'}' | b';'));
        while !self.done() && !ends(self) {
            self.bump();
        }
    }

    /// Makes an `Error` of a whole `{ … }`.
    #[cold]
    pub(super) fn skip_block(&mut self, first: TokenId) -> StmtId {
        let mut open = 0u32;
        while !self.done() {
            match self.take() {
                Kind::Punct(b'{') => open += 1,
                Kind::Punct(b'}') => open -= 1,
                _ => {}
            }
            if open == 0 {
                break;
            }
        }
        self.error_from(first)
    }

    /// Reports a `}` that closes nothing.
    #[cold]
    pub(super) fn unopened(&mut self) -> Stuck {
        self.report(&codes::P0102, self.at, "this `}` has no `{`");
        Stuck
    }

    fn error_from(&mut self, first: TokenId) -> StmtId {
        if self.at == first {
            self.bump();
        }
        self.push_stmt(first..self.at, StmtKind::Error)
    }

    /// Takes the next token and returns its kind.
    fn take(&mut self) -> Kind {
        let kind = self.kind();
        self.bump();
        kind
    }

    /// Returns true if a line starts here that no statement goes on with.
    fn begins_statement(&self) -> bool {
        match self.kind() {
            Kind::Dot => self.start_here() != Start::Unknown && self.starts_line(),
            Kind::Punct(b'@') => self.starts_line(),
            Kind::Word => self.nth(1) == Kind::Punct(b':') && self.starts_line(),
            _ => false,
        }
    }

    /// Returns true if a line starts here that begins an item; inside of braces only a function does for sure.
    fn begins_item(&self, open: u32) -> bool {
        let item = match open {
            0 => self.kind() == Kind::Dot && self.start_here() != Start::Unknown,
            _ => self.at_function(),
        };
        item && self.starts_line()
    }

    fn start_here(&self) -> Start {
        start(self.tree.source.bytes(self.at))
    }
}
