//! Expressions. Control flow is one, as in Rust.

use super::{Block, GenericArg, Ident, Path, Pattern, Type};
use ptx_core::span::Span;

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// Kind of an expression. Parentheses have no node.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `12`, `0xffu32`
    Int(u128, Option<String>),
    /// `1.5`, `2e3f32`: the digits without `_` and suffix.
    Float(String, Option<String>),
    /// `true`
    Bool(bool),
    /// `"m64n256k16"`: its value.
    Str(String),
    /// `x`, `laneid`, `warp::reduce_sum::<4>`
    Path(Path),
    /// `tid.x`, `params.scale`, `pair.0`
    Field(Box<Expr>, Ident),
    /// `acc[3]`
    Index(Box<Expr>, Box<Expr>),
    /// `a..b`, `a..=b`: the last is true if inclusive.
    Range(Option<Box<Expr>>, Option<Box<Expr>>, bool),
    /// `-x`, `!x`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`; the span is the operator's.
    Binary(BinaryOp, Span, Box<Expr>, Box<Expr>),
    /// `a = b`
    Assign(Box<Expr>, Box<Expr>),
    /// `a += b`; the span is the operator's.
    AssignOp(BinaryOp, Span, Box<Expr>, Box<Expr>),
    /// `x as u64`
    Cast(Box<Expr>, Box<Type>),
    /// `f(a, b)`
    Call(Box<Expr>, Vec<Expr>),
    /// `x.f::<4>(a)`
    Method(Box<Expr>, Ident, Vec<GenericArg>, Vec<Expr>),
    /// `[a, b]`
    Array(Vec<Expr>),
    /// `[a; n]`
    Repeat(Box<Expr>, Box<Expr>),
    /// `(a, b)`, and `()`.
    Tuple(Vec<Expr>),
    /// `Pair { first: a, ..pair }`: the fields that are written, and the value that has the others.
    Struct(Path, Vec<(Ident, Expr)>, Option<Box<Expr>>),
    /// `&x`, `&mut x`: whether it is `mut`.
    Ref(bool, Box<Expr>),
    /// `*x`
    Deref(Box<Expr>),
    /// `if c { } else { }`: the last is a [`ExprKind::Block`] or another `If`.
    If(Box<Expr>, Block, Option<Box<Expr>>),
    /// `match c { 1 | 2 => a, _ => b }`
    Match(Box<Expr>, Vec<Arm>),
    /// `'l: while c { }`
    While(Option<Ident>, Box<Expr>, Block),
    /// `'l: loop { }`
    Loop(Option<Ident>, Block),
    /// `'l: for i in 0..4 { }`
    For(Option<Ident>, Pattern, Box<Expr>, Block),
    /// `{ }`, `'l: { }`
    Block(Option<Ident>, Block),
    /// `break 'l`
    Break(Option<Ident>),
    /// `continue 'l`
    Continue(Option<Ident>),
    /// `return x`
    Return(Option<Box<Expr>>),
    /// Reported by the host.
    Error,
}

/// An arm of a `match`.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The values that it is for; none for `_`.
    pub values: Vec<Expr>,
    /// Behind `=>`.
    pub body: Expr,
}

/// A unary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`
    Not,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&&`
    LogicalAnd,
    /// `||`
    LogicalOr,
}
