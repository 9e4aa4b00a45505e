//! Functions, entries and call prototypes: manual section 7.1, 11.1 and 11.2.

use super::name::{Start, start};
use super::{Parsed, Parser};
use crate::diag::{Diagnostic, codes};
use crate::syntax::{Directive, Func, Prototype, StmtId, StmtKind, Var};
use crate::token::{Kind, TokenId};

/// `"(" params ")"`: the parameters, and whether `...` ends them.
type Params = (Vec<Var>, bool);

impl Parser {
    /// `function = [linkage] keyword attribute* ["(" returns ")"] name ["(" params ")"] directive* (";" | block)`
    ///
    /// Behind the declaration of a `.func` ptxas does without the `;`, if another item or the end follows.
    ///
    /// A mistake in front of the body costs one diagnostic; the body is still read.
    pub(super) fn func(&mut self, first: TokenId) -> Parsed<StmtId> {
        let linkage = self.linkage();
        let keyword = self.bump();
        let mut func = Func {
            linkage,
            keyword,
            attributes: Vec::new(),
            returns: Vec::new(),
            name: None,
            params: Vec::new(),
            variadic: false,
            directives: Vec::new(),
            has_body: false,
            is_broken: false,
        };
        if self.header(&mut func).is_err() {
            func.is_broken = true;
            self.skip_header();
        }
        if !self.at(b'{') {
            match func.is_broken {
                _ if self.eat(b';') => {}
                false if self.ends_declaration(keyword) => self.warn_of_missing_end(),
                false => self.end_of_statement()?,
                true => {}
            }
            return Ok(self.push_stmt(first..self.at, StmtKind::Func(Box::new(func))));
        }
        func.has_body = true;
        let (head, body) = self.braced(first);
        Ok(self.push_parent(head, body, StmtKind::Func(Box::new(func))))
    }

    /// Directives between `.entry` and the body.
    fn header(&mut self, func: &mut Func) -> Parsed<()> {
        while self.kind() == Kind::Dot {
            func.attributes.push(self.attribute()?);
        }
        func.returns = self.params()?.0;
        let name = self.expect_word("the function's name")?;
        func.name = Some(name);
        if !crate::isa::table().directives.contains_key(self.tree.source.text(self.at)) {
            self.no_dot(name);
        }
        (func.params, func.variadic) = self.params()?;
        func.directives = self.header_directives(func.keyword)?;
        if matches!(self.kind(), Kind::Punct(b'{' | b';') | Kind::Eof) || self.ends_declaration(func.keyword) {
            return Ok(());
        }
        Err(self.stuck("`{`, `;` or a directive such as `.maxntid`"))
    }

    fn ends_declaration(&self, keyword: TokenId) -> bool {
        let ends = self.kind() == Kind::Eof || self.at_item() || self.at(b'@') && self.nth(1) == Kind::Punct(b'@');
        self.tree.source.bytes(keyword) == b".func" && (ends || self.at_module_directive())
    }

    /// Returns true at a directive that stands between functions, and never behind the parameters of a `.func`.
    fn at_module_directive(&self) -> bool {
        matches!(self.tree.source.bytes(self.at), b".file" | b".pragma" | b".alias")
    }

    fn warn_of_missing_end(&mut self) {
        let span = self.tree.source.span(self.at - 1);
        let text = "the declaration has no `;` behind this; ptxas does without it";
        self.diagnostics.push(Diagnostic::warning(&codes::P0101, span, text));
    }

    /// `.callprototype ["(" returns ")"] "_" ["(" params ")"] directive* ";"`
    pub(super) fn prototype(&mut self, first: TokenId) -> Parsed<StmtId> {
        self.bump();
        let (returns, _) = self.params()?;
        if self.tree.source.bytes(self.at) != b"_" {
            return Err(self.stuck("`_`"));
        }
        self.bump();
        let (params, variadic) = self.params()?;
        let directives = self.header_directives(first)?;
        self.end_of_statement()?;
        let prototype = Prototype { returns, params, variadic, directives };
        Ok(self.push_stmt(first..self.at, StmtKind::Prototype(Box::new(prototype))))
    }

    /// `["(" [variable ("," variable)*] ["..."] ")"]`
    fn params(&mut self) -> Parsed<Params> {
        let mut params = Vec::new();
        if !self.eat(b'(') {
            return Ok((params, false));
        }
        if self.eat(b')') {
            return Ok((params, false));
        }
        let variadic = loop {
            if self.at(b'.') {
                break self.ellipsis()?;
            }
            params.push(self.variable(None)?);
            if !self.eat(b',') {
                break false;
            }
        };
        self.expect(b')')?;
        Ok((params, variadic))
    }

    /// `...`
    fn ellipsis(&mut self) -> Parsed<bool> {
        for _ in 0..3 {
            self.expect(b'.')?;
        }
        Ok(true)
    }

    /// `(Dot arguments)*` behind the parameters. A `.pragma` has a `;` of its own.
    fn header_directives(&mut self, keyword: TokenId) -> Parsed<Vec<Directive>> {
        let mut directives = Vec::new();
        while self.kind() == Kind::Dot && !self.at_item() && !self.ends_declaration(keyword) {
            let closed = start(self.tree.source.bytes(self.at)) == Start::Closed;
            directives.push(self.directive(closed)?);
            if closed {
                self.expect(b';')?;
            }
        }
        Ok(directives)
    }
}
