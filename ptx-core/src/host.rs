//! Host expressions: the sizes and conditions of a launch, as small trees over its arguments. The attribute's reader makes them (`ptx-expand`);
//! launches evaluate them, and the prover (`ptx-prove`) reasons about all their values.

/// An expression over the arguments of a launch. Every integer is one without a type, as `ptx_launch`'s `Int`.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Float(f64),
    /// The argument with this number, a scalar.
    Argument(usize),
    /// The elements of the slice that is the argument with this number.
    Len(usize),
    /// The dimension with this number.
    Dim(usize),
    /// `-a`, `!a`
    Unary(Operator, Box<Expr>),
    /// `a op b` or `a.op(b)`, and its text: an error of the launch shows it where there is no result.
    Binary(Operator, Box<[Expr; 2]>, String),
    /// Extents: `(a, b)`, `[a, b]`.
    List(Vec<Expr>),
}

/// An operator or a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are Rust's")]
pub enum Operator {
    Neg,
    Not,
    IsPowerOfTwo,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Min,
    Max,
    DivCeil,
    NextMultipleOf,
    Pow,
    IsMultipleOf,
}
