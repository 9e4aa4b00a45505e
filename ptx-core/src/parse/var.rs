//! Variable declarations and parameters: manual section 5.4 and 7.1.

use super::name::{Start, is_attribute, start};
use super::{Parsed, Parser};
use crate::syntax::{Declarator, Directive, ExprId, ExprKind, ExprList, StmtId, StmtKind, Var};
use crate::token::{Kind, TokenId};

impl Parser {
    /// `declaration = [linkage] variable ("," name)* ";"`
    pub(super) fn declaration(&mut self, first: TokenId) -> Parsed<StmtId> {
        let linkage = self.linkage();
        let mut var = self.variable(linkage)?;
        if self.at(b',') && var.names.is_empty() {
            return Err(self.stuck("a name"));
        }
        while self.eat(b',') {
            self.declarator()?;
        }
        var.names.end = self.tree.declarators.len() as u32;
        self.end_of_statement()?;
        Ok(self.push_stmt(first..self.at, StmtKind::Var(Box::new(var))))
    }

    /// `.extern`, `.visible`, `.weak`, `.common`
    pub(super) fn linkage(&mut self) -> Option<TokenId> {
        (start(self.tree.source.bytes(self.at)) == Start::Linkage).then(|| self.bump())
    }

    /// `variable = space ["[" bank "]"] (attribute | type)* [name]`; ptxas takes `.reg .b32;`, too.
    pub(super) fn variable(&mut self, linkage: Option<TokenId>) -> Parsed<Var> {
        let space = self.expect_dot("a state space, such as `.param`")?;
        let from = self.tree.directives.len() as u32;
        if self.at(b'[') {
            let args = self.dimension_list()?;
            self.tree.directives.push(Directive { name: space, args });
        }
        let ty = self.attributes()?;
        let attributes = from..self.tree.directives.len() as u32;
        let first_name = self.tree.declarators.len() as u32;
        if !matches!(self.kind(), Kind::Punct(b',' | b')' | b';')) {
            self.declarator()?;
        }
        Ok(Var { linkage, space, attributes, ty, names: first_name..self.tree.declarators.len() as u32 })
    }

    /// The `Dot` tokens in front of a name. The first that is no attribute is the type.
    fn attributes(&mut self) -> Parsed<Option<TokenId>> {
        let mut ty = None;
        while self.kind() == Kind::Dot {
            if is_attribute(self.tree.source.bytes(self.at)) || ty.is_some() {
                if self.is_dotted_name() {
                    break;
                }
                let attribute = self.attribute()?;
                self.tree.directives.push(attribute);
            } else {
                ty = Some(self.bump());
            }
        }
        Ok(ty)
    }

    /// Returns true if a `Dot` token stands where the name has to: `.b8 .str[4]`.
    fn is_dotted_name(&self) -> bool {
        matches!(self.nth(1), Kind::Punct(b'[' | b'=' | b';' | b',' | b')'))
    }

    /// `attribute = Dot [Int | WARP_SZ | "(" list ")"]`
    pub(super) fn attribute(&mut self) -> Parsed<Directive> {
        let name = self.bump();
        let first = self.at;
        let arg = match self.kind() {
            Kind::Int => self.binary(super::expr::ADDITIVE)?,
            Kind::Word if self.tree.source.bytes(first) == b"WARP_SZ" => self.leaf(ExprKind::Name),
            Kind::Punct(b'(') if self.tree.source.bytes(name) == b".attribute" => {
                let list = self.bracketed(b')')?;
                self.push_expr(first, ExprKind::Group(list))
            }
            _ => return Ok(Directive { name, args: 0..0 }),
        };
        let args = self.single(arg);
        Ok(Directive { name, args })
    }

    fn single(&mut self, expr: ExprId) -> ExprList {
        let base = self.pending.len();
        self.pending.push(expr);
        self.list_from(base)
    }

    /// `declarator = name ["<" count ">"] ("[" [size] "]")* ["=" initializer]`
    fn declarator(&mut self) -> Parsed<()> {
        let name = match self.kind() {
            Kind::Word | Kind::Dot => self.bump(),
            _ => return Err(self.stuck("a name")),
        };
        self.no_dot(name);
        let count = if self.eat(b'<') { Some(self.count()?) } else { None };
        let dims = if self.at(b'[') { self.dimension_list()? } else { 0..0 };
        let init = if self.eat(b'=') { Some(self.expr()?) } else { None };
        self.tree.declarators.push(Declarator { name, count, dims, init });
        Ok(())
    }

    /// The count between `<` and `>`.
    pub(super) fn count(&mut self) -> Parsed<ExprId> {
        let count = self.binary(super::expr::ADDITIVE)?;
        self.expect(b'>')?;
        Ok(count)
    }

    /// `("[" [size] "]")*`
    fn dimension_list(&mut self) -> Parsed<ExprList> {
        let base = self.pending.len();
        while self.at(b'[') {
            let first = self.bump();
            let inside = self.pending.len();
            if !self.at(b']') {
                let size = self.expr()?;
                self.pending.push(size);
            }
            self.expect(b']')?;
            let size = self.list_from(inside);
            let dimension = self.push_expr(first, ExprKind::Brackets(size));
            self.pending.push(dimension);
        }
        Ok(self.list_from(base))
    }
}
