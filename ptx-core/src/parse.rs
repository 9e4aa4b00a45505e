//! Tokens to the syntax tree. Says what stands where, never what it means.
//!
//! One function per production, one file per group of them. A production that meets a token it has no use for
//! reports it and returns `Stuck`; the statement around it becomes `Error` and `recover` finds the next one, so that
//! one bad line costs one diagnostic. Whatever the tokens are: each ends up in exactly one statement, nothing panics,
//! recursion is bounded by [`MAX_DEPTH`], and the time is linear.

pub use expr::integer_value;

mod cursor;
mod directive;
mod expr;
mod func;
mod inst;
mod name;
mod recover;
mod stmt;
mod var;

use crate::diag::Diagnostic;
use crate::lex::lex;
use crate::syntax::{Body, ExprId, Stmt, StmtId, StmtKind, Tokens, Tree};
use crate::token::{Kind, Place, Source, TokenId};

/// Maximum nesting depth of scopes and brackets together. Readers of the tree may recurse this deep.
pub const MAX_DEPTH: u32 = 256;

/// Parses a module: what a `.ptx` file holds. Every token ends up in the tree.
///
/// Diagnostics: P0101 to P0104, P0304.
pub fn parse(source: Source) -> (Tree, Vec<Diagnostic>) {
    let mut parser = Parser::new(source);
    let items = parser.module();
    parser.finish_tree(items)
}

/// Lexes and parses the bytes of a `.ptx` file; the diagnostics of both, in that order. A `Vec` becomes the tree's own.
pub fn parse_text(bytes: impl Into<Vec<u8>>) -> (Tree, Vec<Diagnostic>) {
    let (source, mut diagnostics) = lex(bytes);
    let (tree, syntax) = parse(source);
    diagnostics.extend(syntax);
    (tree, diagnostics)
}

/// Parses the statements of a function body, without its braces.
///
/// Diagnostics: P0101 to P0104, P0304.
pub fn parse_body(source: Source) -> (Tree, Vec<Diagnostic>) {
    let mut parser = Parser::new(source);
    parser.tree.is_body = true;
    let items = parser.statements();
    parser.finish_tree(items)
}

/// Parses tokens that were added to a tree's source, the last of them an `Eof`: statements that hang nowhere yet.
pub(crate) fn parse_more(tree: &mut Tree, tokens: Tokens, in_body: bool) -> (Vec<StmtId>, Vec<Diagnostic>) {
    let mut parser = Parser::over(std::mem::take(tree), tokens);
    let stmts = if in_body { parser.statements() } else { parser.module() };
    *tree = parser.tree;
    (stmts, parser.diagnostics)
}

/// Parses statements of a body again: from a token on, up to one that `is_known`. `None` if they lead behind `end`, the end of the body, or
/// to something that is no part of it. `depth` is the number of braces around it.
pub(crate) fn parse_on(
    tree: &mut Tree,
    (first, end, depth): (TokenId, TokenId, u32),
    is_known: &mut dyn FnMut(&Tree, TokenId) -> bool,
) -> Option<Vec<StmtId>> {
    let count = tree.source.tokens.len() as TokenId;
    let mut parser = Parser { at: first, depth, ..Parser::over(std::mem::take(tree), 0..count) };
    let mut stmts = Vec::new();
    let is_whole = loop {
        if is_known(&parser.tree, parser.at) {
            break true;
        }
        if parser.at >= end || !parser.body_goes_on() {
            break false;
        }
        parser.child(&mut stmts);
    };
    *tree = parser.tree;
    is_whole.then_some(stmts)
}

/// A production met a token that it has no use for, and has reported it.
#[derive(Debug)]
struct Stuck;

type Parsed<T> = Result<T, Stuck>;

/// The tree so far, and where in its tokens we are.
struct Parser {
    tree: Tree,
    /// The next token.
    at: TokenId,
    /// The `Eof` token.
    end: TokenId,
    /// Number of open scopes and brackets.
    depth: u32,
    /// Expressions of lists that are still open, innermost last.
    pending: Vec<ExprId>,
    diagnostics: Vec<Diagnostic>,
    /// Position of the last report of a missing `}`: one report covers all scopes that end there.
    unclosed_at: Option<TokenId>,
}

impl Parser {
    fn new(mut source: Source) -> Self {
        if source.tokens.last().is_none_or(|t| t.kind != Kind::Eof) {
            let end = source.bytes.len() as u32;
            source.push(Place { lead: end, lo: end, hi: end }, Kind::Eof);
        }
        let count = source.tokens.len();
        let mut tree = Tree { source, ..Tree::default() };
        tree.stmts.reserve(count / 5);
        tree.exprs.reserve(count / 8);
        tree.lists.reserve(count / 2);
        Parser::over(tree, 0..count as TokenId)
    }

    /// A parser for some tokens of a tree, the last of them an `Eof`.
    fn over(tree: Tree, tokens: Tokens) -> Self {
        Parser {
            tree,
            at: tokens.start,
            end: tokens.end - 1,
            depth: 0,
            pending: Vec::new(),
            diagnostics: Vec::new(),
            unclosed_at: None,
        }
    }

    fn finish_tree(mut self, items: Vec<StmtId>) -> (Tree, Vec<Diagnostic>) {
        self.tree.items = items;
        self.tree.eof = Some(self.end);
        (self.tree, self.diagnostics)
    }

    fn push_stmt(&mut self, head: Tokens, kind: StmtKind) -> StmtId {
        self.push(Stmt { head, body: None, kind })
    }

    fn push_parent(&mut self, head: Tokens, body: Body, kind: StmtKind) -> StmtId {
        self.push(Stmt { head, body: Some(Box::new(body)), kind })
    }

    fn push(&mut self, stmt: Stmt) -> StmtId {
        let id = StmtId(self.tree.stmts.len() as u32);
        self.tree.stmts.push(stmt);
        id
    }
}
