//! The description of an exported function: what `#[export]` writes, what every call is checked against, and what Python reads.

use crate::call::Call;
use crate::dtype::DType;

/// An exported function.
pub struct Function {
    /// Its name in Rust and in Python.
    pub name: &'static str,
    /// Its name in messages: that of the operation behind which it is.
    pub label: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// Its parameters behind the stream.
    pub params: &'static [Param],
    /// One instance for each list of types; one without types for a function that is not generic.
    pub instances: &'static [Instance],
    /// The function that computes its gradients.
    pub backward: Option<&'static str>,
    /// Extents along which it may be split over devices.
    pub parallel: &'static [Parallel],
}

/// An extent along which slices are computed each on its own. An output without it is a sum over it.
pub struct Parallel {
    /// Its name in the shapes.
    pub name: &'static str,
    /// The extent with which it is split: each element of it has equally many neighbors of the first.
    pub groups: Option<&'static str>,
}

/// A function for certain types.
pub struct Instance {
    /// The types of its type parameters.
    pub types: &'static [DType],
    /// Calls it with arguments that were checked.
    pub call: &'static Work,
}

/// The work of an instance. That of a kernel from text owns what was compiled.
pub type Work = dyn Fn(&Call<'_>) -> ptx_launch::Result<()> + Send + Sync;

/// A parameter.
#[derive(Clone, Copy)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// `None` may be passed, and is what a call without it means.
    pub optional: bool,
    /// The value in a call without it.
    pub default: Option<Default>,
}

/// Type of a parameter.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A tensor.
    Tensor(TensorKind),
    /// A number from the first to the second one.
    Int(i64, u64),
    /// A number of a floating-point type. A finite one that the type cannot hold is refused.
    Float(DType),
    /// A truth value.
    Bool,
    /// Text.
    Str,
    /// A struct of so many bytes, as text of hexadecimal digits: frameworks pass no bytes.
    Bytes(usize),
}

/// Type of a tensor parameter.
#[derive(Clone, Copy)]
pub struct TensorKind {
    /// True if the function writes it.
    pub written: bool,
    /// Type of its elements.
    pub element: Element,
    /// Number of its dimensions.
    pub rank: usize,
    /// Its extents, if `shapes(…)` has them: as many as its dimensions.
    pub dims: &'static [Dim],
    /// Its address is a multiple of this, in bytes.
    pub align: usize,
}

/// Type of the elements of a tensor.
#[derive(Clone, Copy)]
pub enum Element {
    /// Always this one.
    Fixed(DType),
    /// That of the type parameter with this number.
    Generic(usize),
}

/// An extent of a dimension.
#[derive(Clone, Copy)]
pub enum Dim {
    /// `..`: any number of dimensions, which the function sees as one.
    Leading,
    /// The same, but the extent is that of this tensor alone: a slice has no shape.
    Flat,
    /// `n`: the same wherever the name is. The names of a function have numbers from 1.
    Name(&'static str, usize),
    /// A constant.
    Size(usize),
    /// `_`: any.
    Any,
}

/// A value that a call leaves out.
#[derive(Clone, Copy)]
pub enum Default {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Str(&'static str),
}

/// The most names of extents of a function, and `..`, which has the number 0.
pub(crate) const NAMES: usize = 32;

impl Dim {
    /// The number of what has the same extent everywhere.
    pub(crate) fn number(&self) -> Option<usize> {
        match self {
            Dim::Leading => Some(0),
            Dim::Name(_, number) => Some(*number),
            Dim::Flat | Dim::Size(_) | Dim::Any => None,
        }
    }

    /// Its name, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Dim::Name(name, _) => name,
            _ => "..",
        }
    }
}

impl Param {
    /// Its type, if it is a tensor.
    pub(crate) fn tensor(&self) -> Option<&TensorKind> {
        match &self.kind {
            Kind::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl TensorKind {
    /// Returns true if any number of leading dimensions may be passed.
    pub(crate) fn has_leading(&self) -> bool {
        self.dims.iter().any(|dim| matches!(dim, Dim::Leading | Dim::Flat))
    }
}

impl Function {
    /// Parameters that a call may leave out stand for these.
    pub(crate) fn required(&self) -> usize {
        let last = self.params.iter().rposition(|param| !param.optional && param.default.is_none());
        last.map_or(0, |last| last + 1)
    }
}
