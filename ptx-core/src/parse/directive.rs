//! Directives with plain arguments, and debug sections: manual section 11.1, 11.3 to 11.6.

use super::{Parsed, Parser};
use crate::syntax::{Body, Directive, ExprId, ExprKind, StmtId, StmtKind};
use crate::token::{Kind, TokenId};

impl Parser {
    /// `.pragma "…";`, `.alias a, b;`, `.branchtargets a, b;`
    pub(super) fn closed_directive(&mut self, first: TokenId) -> Parsed<StmtId> {
        let directive = self.directive(true)?;
        self.end_of_statement()?;
        Ok(self.push_stmt(first..self.at, StmtKind::Directive(directive)))
    }

    /// `.version 8.7`, `.loc 1 2 3`, `.target sm_90a, debug`, one that we do not know: ends with its line. The first
    /// word of a `.target` may stand on the next one.
    pub(super) fn open_directive(&mut self, first: TokenId) -> Parsed<StmtId> {
        let directive = self.directive(self.tree.source.text(self.at) == ".target")?;
        if !self.eat(b';') && !self.ends_directive() {
            return Err(self.stuck("the end of the directive"));
        }
        Ok(self.push_stmt(first..self.at, StmtKind::Directive(directive)))
    }

    /// Tokens that may follow a directive without a `;`: anything that starts a statement.
    fn ends_directive(&self) -> bool {
        match self.kind() {
            Kind::Eof | Kind::Dot | Kind::Word | Kind::Punct(b'}' | b'@') => true,
            Kind::Punct(b'{') => self.starts_line(),
            _ => false,
        }
    }

    /// `directive = Dot [argument (["," ] argument)*]`; with `any_line`, there has to be one, on whatever line.
    pub(super) fn directive(&mut self, any_line: bool) -> Parsed<Directive> {
        let name = self.bump();
        if !self.starts_argument(any_line) {
            let empty = Directive { name, args: 0..0 };
            return if any_line { Err(self.stuck("an argument")) } else { Ok(empty) };
        }
        let base = self.pending.len();
        loop {
            let argument = self.argument()?;
            self.pending.push(argument);
            if !self.eat(b',') && !self.at_value() {
                break;
            }
        }
        Ok(Directive { name, args: self.list_from(base) })
    }

    fn starts_argument(&self, any_line: bool) -> bool {
        self.at_value() || self.kind() == Kind::Word && (any_line || !self.starts_line())
    }

    /// A literal, or the name of a number.
    fn at_value(&self) -> bool {
        matches!(self.kind(), Kind::Int | Kind::Float | Kind::Str) || self.tree.source.bytes(self.at) == b"WARP_SZ"
    }

    /// `argument = expr | range | Word (Word | Int | Str)+`, the latter for `function_name x` and `inlined_at 1 2 3`.
    fn argument(&mut self) -> Parsed<ExprId> {
        let first = self.at;
        if self.kind() == Kind::Word && self.nth(1) == Kind::Punct(b'<') {
            return self.range();
        }
        let names_section = self.tree.source.bytes(first) == b"function_name" && self.nth(1) == Kind::Dot;
        let phrase = self.kind() == Kind::Word && matches!(self.nth(1), Kind::Word | Kind::Int | Kind::Str);
        if self.at_value() || !phrase && !names_section {
            return self.expr();
        }
        self.bump();
        if self.starts_line() {
            return Ok(self.push_expr(first, ExprKind::Name));
        }
        let base = self.pending.len();
        while matches!(self.kind(), Kind::Word | Kind::Int | Kind::Str | Kind::Dot) && !self.starts_line() {
            let argument = self.expr()?;
            self.pending.push(argument);
        }
        let list = self.list_from(base);
        Ok(self.push_expr(first, ExprKind::Apply(first, list)))
    }

    /// `name "<" count ">"`
    fn range(&mut self) -> Parsed<ExprId> {
        let first = self.at;
        let prefix = self.leaf(ExprKind::Name);
        self.bump();
        let count = self.count()?;
        Ok(self.push_expr(first, ExprKind::Range(prefix, count)))
    }

    /// `section = ".section" name "{" (label | data)* "}"`
    pub(super) fn section(&mut self, first: TokenId) -> Parsed<StmtId> {
        self.bump();
        let name = match self.kind() {
            Kind::Dot | Kind::Word | Kind::Str => self.bump(),
            _ => return Err(self.stuck("the section's name")),
        };
        let open = self.expect(b'{')?;
        let head = first..self.at;
        let mut children = Vec::new();
        while !self.done() && !self.at(b'}') && !self.at_function() {
            let line = self.at;
            self.pending.clear();
            children.push(self.section_line(line).unwrap_or_else(|_| self.recover(line)));
        }
        let body = Body { children, tail: self.close(open) };
        Ok(self.push_parent(head, body, StmtKind::Section(name)))
    }

    /// `label | data`
    fn section_line(&mut self, first: TokenId) -> Parsed<StmtId> {
        match self.kind() {
            Kind::Word if self.nth(1) == Kind::Punct(b':') => Ok(self.label(first)),
            Kind::Dot => self.data(first),
            _ => Err(self.stuck("`.b8`, `.b16`, `.b32`, `.b64` or a label")),
        }
    }

    /// `data = type expr ("," expr)*`
    fn data(&mut self, first: TokenId) -> Parsed<StmtId> {
        let name = self.bump();
        let args = self.operands()?;
        self.eat(b';');
        Ok(self.push_stmt(first..self.at, StmtKind::Data(Directive { name, args })))
    }

    /// `@@DWARF …` of PTX 1, to the end of its line.
    pub(super) fn dwarf(&mut self) -> StmtId {
        let first = self.bump();
        while !self.done() && !self.starts_line() {
            self.bump();
        }
        self.push_stmt(first..self.at, StmtKind::Dwarf)
    }
}
