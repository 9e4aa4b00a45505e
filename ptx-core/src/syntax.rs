//! The lossless syntax tree: every token of the source belongs to exactly one statement, in order.
//!
//! Printing walks the tree, never the source. Names and types mean nothing here yet; that is `lower`'s work.

use crate::span::Span;
use crate::token::{Source, TokenId};
use std::ops::Range;

/// The index of a statement in its [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StmtId(pub u32);

/// An expression of a [`Tree`]: its index there, or the one token of a name. Three of four expressions are such names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(u32);

impl ExprId {
    /// Set in those that are a name's token.
    const NAME: u32 = 1 << 31;

    pub(crate) fn index(index: usize) -> Self {
        ExprId(index as u32)
    }

    #[inline]
    pub(crate) fn name(token: TokenId) -> Self {
        ExprId(token | ExprId::NAME)
    }

    /// The token of a name.
    pub(crate) fn token(self) -> Option<TokenId> {
        (self.0 & ExprId::NAME != 0).then_some(self.0 & !ExprId::NAME)
    }
}

/// A range of [`Tree::lists`]: the children of an expression, the operands of an instruction.
pub type ExprList = Range<u32>;

/// A range of token indices.
pub type Tokens = Range<TokenId>;

/// A module, or the statements of a function body.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The tokens and their text.
    pub source: Source,
    /// All statements; children refer to their parents' lists, not the other way round.
    pub stmts: Vec<Stmt>,
    /// All expressions that are more than a name of one token.
    pub exprs: Vec<Expr>,
    /// The children of expressions and instructions.
    pub lists: Vec<ExprId>,
    /// The attributes of declarations; each [`Var`] has a range of them.
    pub directives: Vec<Directive>,
    /// The names of declarations; each [`Var`] has a range of them.
    pub declarators: Vec<Declarator>,
    /// The statements at the outermost level, in order.
    pub items: Vec<StmtId>,
    /// True if the outermost level is the body of a function instead of a module.
    pub is_body: bool,
    /// The `Eof` token: its trivia is the text behind the last statement.
    pub eof: Option<TokenId>,
}

/// A statement. `head` and `tail` are the tokens that are its own; its children stand between them.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// The tokens up to the first child (all of them where there is no child).
    pub head: Tokens,
    /// Parts shared by a block, a function with a body, and a section.
    pub body: Option<Box<Body>>,
    /// Its kind.
    pub kind: StmtKind,
}

/// The content of a statement's braces, and the closing brace.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The statements.
    pub children: Vec<StmtId>,
    /// The tokens behind the last child: `}`, or none where it is missing.
    pub tail: Tokens,
}

impl Stmt {
    /// The statements in its braces.
    pub fn children(&self) -> &[StmtId] {
        self.body.as_ref().map_or(&[], |body| &body.children)
    }

    /// The tokens behind its children.
    pub fn tail(&self) -> Tokens {
        self.body.as_ref().map_or(self.head.end..self.head.end, |body| body.tail.clone())
    }
}

/// Kind of a statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `@p add.f32 %f1, %f2, 1.0;`
    Inst(Inst),
    /// `$L1:`; the tokens of the name: a `Word` and the `Dot` tokens that touch it.
    Label(Tokens),
    /// `.reg .b32 %r<5>;`, `.visible .global .align 4 .b8 x[16] = {…};`, a `.param` in a body.
    Var(Box<Var>),
    /// `.entry` or `.func`, a prototype or a definition.
    Func(Box<Func>),
    /// `{ … }` in a body.
    Block,
    /// `.version 8.7`, `.loc 1 2 3`, `.pragma "…";`, `.alias a, b;` …: the name, then what follows.
    Directive(Directive),
    /// `.section .debug_info { … }`: its lines are `Data` children.
    Section(TokenId),
    /// A line of a section: `.b32 label`, `.b8 1, 2`. The expressions are what follows the type.
    Data(Directive),
    /// `proto: .callprototype (…) _ (…);` without its label.
    Prototype(Box<Prototype>),
    /// `@@DWARF …` of PTX 1, to the end of its line.
    Dwarf,
    /// A lone `;`.
    Empty,
    /// Tokens that are no statement; a diagnostic has the reason. Kept as they are.
    Error,
}

/// `@{!}p opcode.mod.mod a, b, c;`
#[derive(Clone, Debug)]
pub struct Inst {
    /// The guard's register and whether it is negated.
    pub guard: Option<Guard>,
    /// The first word: `ld`.
    pub opcode: TokenId,
    /// The `Dot` tokens behind it. (`.acc::f32` and the like are one token.)
    pub modifiers: Tokens,
    /// The operands, as written.
    pub operands: ExprList,
}

/// `@p` or `@!p`.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// The predicate.
    pub register: TokenId,
    /// True if `!` stands before it.
    pub negated: bool,
}

/// A variable declaration; one type, one or more names.
#[derive(Clone, Debug)]
pub struct Var {
    /// `.extern`, `.visible`, `.weak`, `.common`.
    pub linkage: Option<TokenId>,
    /// `.reg`, `.global`, `.shared`, `.const`, `.local`, `.param`, `.tex` …
    pub space: TokenId,
    /// Every `Dot` token between the space and the first name that is not the type: `.align 4`, `.v4`, `.ptr`,
    /// `.attribute(…)`; in order, each with its arguments. A range of [`Tree::directives`].
    pub attributes: Range<u32>,
    /// The type: `.b32`, `.f32`, `.texref`.
    pub ty: Option<TokenId>,
    /// The names, a range of [`Tree::declarators`]; empty for a parameter without a name.
    pub names: Range<u32>,
}

/// One name of a declaration: `%r<5>`, `x[4][2] = {…}`.
#[derive(Clone, Debug)]
pub struct Declarator {
    /// The name: a `Word`; a `Dot` token where one stands for a name, as in `.b8 .str[4]` (which ptxas refuses).
    pub name: TokenId,
    /// `<5>`: how many registers.
    pub count: Option<ExprId>,
    /// `[4][]`: one `Brackets` a dimension, with one expression or none.
    pub dims: ExprList,
    /// The value after `=`.
    pub init: Option<ExprId>,
}

/// A function or an entry.
#[derive(Clone, Debug)]
pub struct Func {
    /// `.extern`, `.visible`, `.weak`.
    pub linkage: Option<TokenId>,
    /// `.entry` or `.func`.
    pub keyword: TokenId,
    /// `.attribute(…)`, `.noreturn` and others in front of the name.
    pub attributes: Vec<Directive>,
    /// The return parameters.
    pub returns: Vec<Var>,
    /// The name; missing after a syntax error.
    pub name: Option<TokenId>,
    /// The parameters.
    pub params: Vec<Var>,
    /// True if the parameter list ends in `...`.
    pub variadic: bool,
    /// `.maxntid 128, 1, 1` and others between the parameters and the body.
    pub directives: Vec<Directive>,
    /// True if it has a body (the statement's children) or ends in `;`.
    pub has_body: bool,
    /// True if something in front of the body made no sense; what could be read is here, a diagnostic reports the rest.
    pub is_broken: bool,
}

/// A directive's name and arguments, whether separated by blanks or by commas.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The `Dot` token.
    pub name: TokenId,
    /// Its arguments.
    pub args: ExprList,
}

/// `.callprototype (ret) _ (params);`
#[derive(Clone, Debug)]
pub struct Prototype {
    /// The return parameters.
    pub returns: Vec<Var>,
    /// The parameters.
    pub params: Vec<Var>,
    /// True if the parameter list ends in `...`.
    pub variadic: bool,
    /// `.noreturn`, `.abi_preserve 3` …
    pub directives: Vec<Directive>,
}

/// An operand, an initializer, an argument of a directive.
#[derive(Clone, Debug)]
pub struct Expr {
    /// All its tokens.
    pub tokens: Tokens,
    /// Its kind.
    pub kind: ExprKind,
}

/// Kind of an expression. Names are one `Word` and the `Dot` tokens that touch it: `%r1.x`, `%tid.x`, `bb.1`.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A name; its tokens are the expression's tokens. `_` is a name here.
    Name,
    /// A literal integer; the value wraps at 64 bits, `lower` reports what does not fit.
    Int(u64),
    /// A literal float.
    Float,
    /// A string.
    Str,
    /// A `Dot` token in argument position: `.b32` in a data line, `.global` in `.ptr .global`.
    Dot,
    /// `-x`, `~x`, `!x`, `+x`; the operator's byte.
    Unary(u8, ExprId),
    /// `a + b`; the operator's bytes (the second is 0 for one-byte operators). `=` only in a sampler's initializer.
    Binary([u8; 2], ExprId, ExprId),
    /// `a ? b : c`.
    Ternary(ExprId, ExprId, ExprId),
    /// `(.s64) x`: the type's token.
    Cast(TokenId, ExprId),
    /// `(x)` in an expression; `(a, b)` of a call.
    Group(ExprList),
    /// `{a, b}`.
    Braces(ExprList),
    /// `[a]`, `[a, {b, c}]`.
    Brackets(ExprList),
    /// `a|b` as an operand.
    Pair(ExprId, ExprId),
    /// `a[3]`.
    Index(ExprId, ExprId),
    /// `label<4>` in a list: `label0` to `label3`.
    Range(ExprId, ExprId),
    /// `[a].unified`: something in brackets or braces, or an element, and a `Dot` token behind it.
    Select(ExprId, TokenId),
    /// `generic(x)`, `0xff00(x)`, `.unified(1, 2)`; `function_name x+8` and `inlined_at 1 2 3` without parentheses:
    /// the token in front and its arguments.
    Apply(TokenId, ExprList),
    /// Could not be parsed; a diagnostic has the reason.
    Error,
}

impl Tree {
    /// A statement.
    pub fn stmt(&self, id: StmtId) -> &Stmt {
        &self.stmts[id.0 as usize]
    }

    /// An expression.
    #[inline]
    pub fn expr(&self, id: ExprId) -> Expr {
        match id.0 & !ExprId::NAME {
            token if token != id.0 => Expr { tokens: token..token + 1, kind: ExprKind::Name },
            index => self.exprs[index as usize].clone(),
        }
    }

    /// The expressions of a list.
    pub fn list(&self, list: &ExprList) -> &[ExprId] {
        &self.lists[list.start as usize..list.end as usize]
    }

    /// The attributes of a declaration.
    pub fn attributes(&self, var: &Var) -> &[Directive] {
        &self.directives[var.attributes.start as usize..var.attributes.end as usize]
    }

    /// The number behind the state space of a declaration, as of old `.const[2]`.
    pub fn bank(&self, var: &Var) -> Option<&Directive> {
        self.attributes(var).first().filter(|attribute| attribute.name == var.space)
    }

    /// The names of a declaration.
    pub fn names(&self, var: &Var) -> &[Declarator] {
        &self.declarators[var.names.start as usize..var.names.end as usize]
    }

    /// Position of a run of tokens in the host.
    pub fn span(&self, tokens: &Tokens) -> Span {
        if tokens.is_empty() {
            return Span::default();
        }
        self.source.span(tokens.start).to(self.source.span(tokens.end - 1))
    }

    /// The text of an expression without blanks and comments between its tokens: `%r1.x`.
    pub fn compact(&self, tokens: &Tokens) -> String {
        tokens.clone().map(|t| self.source.text(t)).collect()
    }
}
