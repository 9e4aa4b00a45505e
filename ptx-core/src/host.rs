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
    /// A field of the struct that is the argument with this number.
    Field(usize, Field),
    /// The elements of the slice that is the argument with this number.
    Len(usize),
    /// The dimension with this number.
    Dim(usize),
    /// `-a`, `!a`
    Unary(Operator, Box<Expr>),
    /// `a op b` or `a.op(b)`, and its text: an error of the launch shows it where there is no result.
    Binary(Operator, Box<[Expr; 2]>, String),
    /// `if a { b } else { c }`: the other branch needs no value.
    If(Box<[Expr; 3]>),
    /// Extents and arrays: `(a, b)`, `[a, b]`.
    List(Vec<Expr>),
}

/// A number in a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its type.
    pub ty: Plain,
}

/// The type of a number of Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// An integer without a sign, of so many bytes.
    Unsigned(u8),
    /// An integer with a sign.
    Signed(u8),
    /// A floating-point number.
    Float(u8),
}

impl Field {
    /// The bytes of the field, if the struct has them.
    pub fn bytes<'b>(&self, of: &'b [u8]) -> Option<&'b [u8]> {
        let (Plain::Unsigned(bytes) | Plain::Signed(bytes) | Plain::Float(bytes)) = self.ty;
        let offset = usize::try_from(self.offset).ok()?;
        of.get(offset..offset.checked_add(bytes.into())?)
    }

    /// Its value, if it is an integer.
    pub fn integer(&self, of: &[u8]) -> Option<i128> {
        let bytes = self.bytes(of)?;
        let is_negative = match self.ty {
            Plain::Unsigned(_) => false,
            Plain::Signed(_) => bytes.last()? & 0x80 != 0,
            Plain::Float(_) => return None,
        };
        let mut all = [if is_negative { 0xff } else { 0 }; 16];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(i128::from_le_bytes(all))
    }

    /// Its value, if it is a floating-point number of 32 or 64 bits.
    pub fn float(&self, of: &[u8]) -> Option<f64> {
        let (bytes, Plain::Float(_)) = (self.bytes(of)?, self.ty) else { return None };
        match bytes.len() {
            4 => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
            _ => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        }
    }
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
    /// The same integer without its type, so that arithmetic on it does not overflow.
    Exact,
}

impl Operator {
    /// The truth of a comparison; nothing for another operator.
    pub fn compare<T: PartialOrd>(self, a: &T, b: &T) -> Option<bool> {
        Some(match self {
            Operator::Eq => a == b,
            Operator::Ne => a != b,
            Operator::Lt => a < b,
            Operator::Le => a <= b,
            Operator::Gt => a > b,
            Operator::Ge => a >= b,
            _ => return None,
        })
    }
}
