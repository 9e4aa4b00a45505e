//! Statements, and the names that they declare.

use super::{Const, Expr, Function, Ident, Impl, Path, Static, Struct, Type};
use ptx_core::ir::annotation;
use ptx_core::span::Span;
use ptx_core::token::{Kind, Source, TokenId};

/// Statements in braces.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// In order.
    pub stmts: Vec<Stmt>,
    /// With its braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Its kind.
    pub kind: StmtKind,
    /// All of it.
    pub span: Span,
}

/// Kind of a statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `let x: u32 = 1;`
    Let(Let),
    /// An expression, and whether `;` follows. Control flow is an expression, as in Rust.
    Expr(Expr, bool),
    /// `ptx! { … }`
    Ptx(Ptx),
    /// `unreachable!()`: nothing gets here, so that no `ret` is written.
    Unreachable,
    /// `assert!(N % 4 == 0, "…")`: a condition over constants, and the message if it does not hold.
    Assert(Expr, Option<String>),
    /// `assume!(i < n)`, `invariant!(i <= n)`: a condition over registers, which makes no instruction.
    Annotation(annotation::Kind, Expr),
    /// `const` in a body.
    Const(Const),
    /// `static` in a body.
    Static(Static),
    /// `fn` in a body.
    Function(Box<Function>),
    /// `struct` in a body.
    Struct(Struct),
    /// `impl` in a body.
    Impl(Impl),
    /// Reported by the host.
    Error,
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Let {
    /// `#[shared]`, `#[local]`; without one it is a register.
    pub memory: Option<Memory>,
    /// Its names.
    pub pattern: Pattern,
    /// Its type; may be missing where the value has one.
    pub ty: Option<Type>,
    /// Its value.
    pub init: Option<Expr>,
}

/// `#[shared]`, `#[shared(align = 1024)]`, `#[shared(dynamic)]`, `#[local]`.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Which.
    pub space: MemorySpace,
    /// `align = …`
    pub align: Option<Expr>,
    /// `dynamic`: `.extern .shared`, its size given at launch.
    pub dynamic: bool,
    /// The attribute.
    pub span: Span,
}

/// A space that a `let` can declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySpace {
    /// `.shared`
    Shared,
    /// `.local`
    Local,
}

/// Names of a declaration.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `x`, `mut x`: whether it is `mut`.
    Name(Ident, bool),
    /// `(x, y)`
    Tuple(Vec<Pattern>, Span),
    /// `Pair { first, second: y }`; the flag is true if `..` leaves fields out.
    Struct(Path, Vec<(Ident, Pattern)>, bool, Span),
    /// `_`
    Wild(Span),
}

impl Pattern {
    /// The name that it is, or one that help may use in its place.
    pub fn name(&self) -> &str {
        match self {
            Pattern::Name(name, _) => &name.name,
            Pattern::Tuple(..) | Pattern::Struct(..) | Pattern::Wild(_) => "x",
        }
    }

    /// All names that it declares.
    pub fn names(&self) -> Vec<&Ident> {
        match self {
            Pattern::Name(name, _) => vec![name],
            Pattern::Tuple(parts, _) => parts.iter().flat_map(Pattern::names).collect(),
            Pattern::Struct(_, fields, ..) => fields.iter().flat_map(|(_, field)| field.names()).collect(),
            Pattern::Wild(_) => Vec::new(),
        }
    }
}

/// The inside of `ptx! { … }`, as tokens; the last is `Eof`. `origins` holds one span a token (in text hosts it may be
/// empty). What PTX does not have, the lexer keeps: `.` before `{NAME}`, `..` in `{acc[..]}`, in any splitting.
#[derive(Clone, Debug, Default)]
pub struct Ptx {
    /// The tokens with their trivia.
    pub source: Source,
    /// The whole macro call.
    pub span: Span,
}

impl Ptx {
    /// The last token in front of `Eof`.
    pub fn last(&self) -> Option<TokenId> {
        let tokens = self.source.tokens.iter().rposition(|token| token.kind != Kind::Eof)?;
        u32::try_from(tokens).ok()
    }

    /// Returns true if it ends where an instruction, a scope or a label ends.
    pub fn is_terminated(&self) -> bool {
        self.last().is_none_or(|last| matches!(self.source.kind(last), Kind::Punct(b';' | b'}' | b':')))
    }
}
