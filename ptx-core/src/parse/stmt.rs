//! Statements: what begins one, and the lists of them.

use super::name::{Start, start};
use super::{MAX_DEPTH, Parsed, Parser};
use crate::diag::codes;
use crate::syntax::{Body, StmtId, StmtKind, Tokens};
use crate::token::{Kind, TokenId};

impl Parser {
    /// `module = item*`
    pub(super) fn module(&mut self) -> Vec<StmtId> {
        let mut items = Vec::new();
        while !self.done() {
            let first = self.at;
            let item = match self.kind() {
                Kind::Dot => self.item(),
                Kind::Punct(b'@') if self.nth(1) == Kind::Punct(b'@') => Ok(self.dwarf()),
                Kind::Punct(b'}') => Err(self.unopened()),
                _ => Err(self.stuck("a directive, such as `.entry`")),
            };
            items.push(item.unwrap_or_else(|_| self.recover_item(first)));
        }
        items
    }

    /// `item = [linkage] (declaration | function) | section | directive`
    fn item(&mut self) -> Parsed<StmtId> {
        self.pending.clear();
        let first = self.at;
        match start(self.tree.source.bytes(self.at)) {
            Start::Linkage => match self.start_at(1) {
                Start::Func => self.func(first),
                Start::Space => self.declaration(first),
                _ => {
                    self.bump();
                    Err(self.stuck("`.entry`, `.func` or a state space such as `.global`"))
                }
            },
            Start::Func => self.func(first),
            Start::Space => self.declaration(first),
            Start::Section => self.section(first),
            Start::Prototype => self.prototype(first),
            Start::Closed => self.closed_directive(first),
            Start::Open | Start::Unknown => self.open_directive(first),
        }
    }

    /// The statements of a body without braces. What no body can hold is reported and kept.
    pub(super) fn statements(&mut self) -> Vec<StmtId> {
        let mut stmts = Vec::new();
        loop {
            self.body(&mut stmts);
            let first = self.at;
            if self.done() {
                return stmts;
            } else if self.at(b'}') {
                self.unopened();
                self.bump();
                stmts.push(self.push_stmt(first..self.at, StmtKind::Error));
            } else {
                self.stuck("a statement");
                let item = self.item();
                stmts.push(item.unwrap_or_else(|_| self.recover_item(first)));
            }
        }
    }

    /// `body = statement*`, up to a `}`, the end, or a function that begins because a `}` is missing.
    fn body(&mut self, stmts: &mut Vec<StmtId>) {
        while self.body_goes_on() {
            self.child(stmts);
        }
    }

    /// Returns true if the next token begins a statement of the body.
    pub(super) fn body_goes_on(&self) -> bool {
        !self.done() && !self.at(b'}') && (!self.at_function() || self.declares_function())
    }

    /// A statement of a body.
    pub(super) fn child(&mut self, stmts: &mut Vec<StmtId>) {
        let first = self.at;
        self.pending.clear();
        let stmt = self.statement(first);
        stmts.push(stmt.unwrap_or_else(|_| self.recover(first)));
    }

    /// `statement = label | instruction | declaration | directive | "{" body "}"`
    fn statement(&mut self, first: TokenId) -> Parsed<StmtId> {
        match self.kind() {
            Kind::Word if self.nth(1) == Kind::Punct(b':') => Ok(self.label(first)),
            Kind::Word => self.instruction(first),
            Kind::Dot => self.item(),
            Kind::Punct(b'@') if self.nth(1) == Kind::Punct(b'@') => Ok(self.dwarf()),
            Kind::Punct(b'@') => self.instruction(first),
            Kind::Punct(b'{') => self.block(first),
            Kind::Punct(b';') => Ok(self.empty(first)),
            _ => Err(self.stuck("a statement")),
        }
    }

    /// `label = name ":"`
    pub(super) fn label(&mut self, first: TokenId) -> StmtId {
        if self.tree.source.bytes(first) == b"_" {
            self.stuck("a label's name");
        }
        self.at += 1;
        self.label_end(first..self.at)
    }

    /// The `:` of a label whose name is taken.
    pub(super) fn label_end(&mut self, name: Tokens) -> StmtId {
        let first = name.start;
        self.bump();
        self.push_stmt(first..self.at, StmtKind::Label(name))
    }

    /// A lone `;`, which ptxas refuses.
    fn empty(&mut self, first: TokenId) -> StmtId {
        self.stuck("a statement");
        self.bump();
        self.push_stmt(first..self.at, StmtKind::Empty)
    }

    /// `block = "{" body "}"`
    fn block(&mut self, first: TokenId) -> Parsed<StmtId> {
        if self.depth >= MAX_DEPTH {
            self.too_deep();
            return Ok(self.skip_block(first));
        }
        let (head, body) = self.braced(first);
        Ok(self.push_parent(head, body, StmtKind::Block))
    }

    /// `"{" body "}"` of a statement that began at `first`: its head and the rest.
    pub(super) fn braced(&mut self, first: TokenId) -> (Tokens, Body) {
        let open = self.bump();
        let head = first..self.at;
        let mut children = Vec::new();
        self.depth += 1;
        self.body(&mut children);
        self.depth -= 1;
        (head, Body { children, tail: self.close(open) })
    }

    /// The `}` of the scope that `open` opened; reports where it is missing.
    pub(super) fn close(&mut self, open: TokenId) -> Tokens {
        let from = self.at;
        if !self.eat(b'}') && self.unclosed_at.replace(from) != Some(from) {
            self.report(&codes::P0102, open, "this `{` has no `}`");
        }
        from..self.at
    }

    /// The construct that the `Dot` token `n` tokens after the next one begins.
    fn start_at(&self, n: TokenId) -> Start {
        match self.nth(n) {
            Kind::Dot => start(self.tree.source.bytes(self.at + n)),
            _ => Start::Unknown,
        }
    }

    /// Returns true if a declaration or a function begins here.
    pub(super) fn at_item(&self) -> bool {
        matches!(self.start_at(0), Start::Func | Start::Section | Start::Linkage | Start::Space)
    }

    /// Returns true if a `.func` without a body begins here, which a body can hold.
    fn declares_function(&self) -> bool {
        let keyword = self.at + TokenId::from(self.start_at(0) == Start::Linkage);
        let source = &self.tree.source;
        let ends = |token| match source.kind(token) {
            Kind::Punct(b'{' | b'}') | Kind::Eof => Some(false),
            Kind::Punct(b';') => Some(true),
            _ => None,
        };
        source.bytes(keyword) == b".func" && (keyword..=self.end).find_map(ends) == Some(true)
    }

    /// Returns true if something begins here that no body can hold.
    pub(super) fn at_function(&self) -> bool {
        if self.kind() != Kind::Dot {
            return false;
        }
        match self.start_at(0) {
            Start::Func | Start::Section => true,
            Start::Linkage => self.start_at(1) == Start::Func,
            _ => false,
        }
    }
}
