//! A kernel as plain data: its parameters, and the host's half of its attribute as small trees that need no compiler of Rust. Launches from text
//! (`program`) and proofs (`proof`) read it.

mod expr;
mod function;
mod kernel;
mod sizes;
mod value;

pub use expr::{Expr, Field, Named, Names, Operator, Plain};
pub use function::Contracted;
pub use kernel::describe;
#[cfg(feature = "proved")]
pub use kernel::{Evaluated, describe_strictly};
pub use value::Scope;
#[cfg(feature = "proved")]
pub use value::Value;

use proc_macro2::Span;
use ptx_target::Contract;

/// A kernel, or an instance of one.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name in the source.
    pub name: String,
    /// Its name in the PTX.
    pub entry: String,
    /// Its doc comment.
    pub doc: String,
    /// The parameters of its signature.
    pub params: Vec<Param>,
    /// The dimensions that its tiles name, which the entry takes.
    pub dims: Vec<String>,
    /// The parameters of the entry, in order.
    pub taken: Vec<Taken>,
    /// The tensor maps that a launch makes.
    pub maps: Vec<TensorMap>,
    /// The host's half of the attribute, or why it cannot be evaluated without a compiler. A problem that has a code is an error of the text.
    pub launch: Result<Launch, Problem>,
}

/// A parameter of a kernel's signature.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// `#[align(16)]` on memory: the alignment of its address, which every launch checks.
    pub align: Option<u64>,
}

/// The type of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `&[T]`, `&mut [T]`
    Slice {
        /// The type of its elements.
        element: String,
        /// True for `&mut`.
        written: bool,
    },
    /// `Tile<T, (M, K)>`, `TileMut`
    Tile {
        /// The type of its elements.
        element: String,
        /// Its extents, outermost first.
        dims: Vec<Dim>,
        /// True for `TileMut`.
        written: bool,
    },
    /// A number or a struct, of this type.
    Value(String),
    /// `TensorMap`
    Map,
    /// `Texture` or `Surface`.
    Object(&'static str),
}

/// An extent of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// One of the kernel's dimensions, by its number.
    Named(usize),
    /// A constant, with its name.
    Constant(String, u32),
}

/// A parameter of an entry.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// The source of its value.
    pub from: From,
}

/// The source of the value of an entry's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The argument with this number.
    Param(usize),
    /// The dimension with this number, as `u32`.
    Dim(usize),
    /// The tensor map with this number.
    Map(usize),
}

/// A tensor map of `#[tma]`.
#[derive(Clone, Debug)]
pub struct TensorMap {
    /// The number of the parameter that it maps.
    pub of: usize,
    /// Its name in the kernel.
    pub name: String,
    /// The extents of its box.
    pub tile: Vec<usize>,
    /// Methods of the builder with the type and the variant that each takes: `("swizzle", "Swizzle", "B128")`.
    pub words: Vec<[String; 3]>,
}

/// The host's half of a kernel's attribute.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The conditions of `requires(…)`, with their texts and the names in them.
    pub requires: Vec<Condition>,
    /// `grid`
    pub grid: Option<Expr>,
    /// `block`
    pub block: Option<Expr>,
    /// `cluster`
    pub cluster: Option<Expr>,
    /// `shared`: bytes of dynamic shared memory.
    pub shared: Option<Expr>,
    /// Bytes of dynamic shared memory that the type of the variable defines.
    pub dynamic: Option<u64>,
    /// `addresses(…)`
    pub tables: Vec<Table>,
    /// Those of structs in `addresses(…)`.
    pub regions: Vec<Region>,
    /// `offsets(…)`: the numbers of the parameters.
    pub offsets: Vec<usize>,
    /// `distinct(…)`
    pub distinct: Vec<Distinct>,
    /// True if the author vouches for the conditions: `unsafe(requires(…))`.
    pub vouched: bool,
    /// True if the kernel is proved.
    pub proved: bool,
    /// `cooperative`
    pub cooperative: bool,
    /// `pdl`
    pub pdl: bool,
    /// The promises about its machine code.
    pub contract: Contract,
}

/// Elements of a parameter that are addresses of memory, for which the author vouches.
#[derive(Clone, Debug)]
pub struct Table {
    /// The number of the parameter.
    pub of: usize,
    /// The first of the elements.
    pub first: Expr,
    /// The one behind the last.
    pub end: Expr,
    /// The parameter that one of the addresses is that of.
    pub argument: Option<usize>,
    /// The type of the elements of the memory at each address.
    pub element: String,
    /// The number of these elements.
    pub len: Expr,
}

/// A number in a struct that is the address of memory, for which somebody vouches.
#[derive(Clone, Debug)]
pub struct Region {
    /// The names that lead to it from a parameter.
    pub name: String,
    /// The number of the parameter, and the field in its struct.
    pub of: (usize, Field),
    /// The type of the elements.
    pub element: String,
    /// The number of these elements.
    pub len: Expr,
}

/// A parameter whose elements are different numbers, for which the author vouches.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// The number of the parameter.
    pub of: usize,
    /// The number below which they are, if there is one.
    pub below: Option<Expr>,
}

/// A condition of `requires(…)`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// It holds if this is true.
    pub holds: Expr,
    /// Its text.
    pub text: String,
    /// The values that an error shows, with their names.
    pub shown: Vec<(String, Shown)>,
}

/// A value that an error shows.
#[derive(Clone, Debug)]
pub enum Shown {
    /// A number or an array.
    Value(Expr),
    /// Some fields of a struct of this name.
    Struct(String, Vec<(String, Expr)>),
    /// All of them.
    Whole(String, Vec<(String, Expr)>),
}

/// Something wrong in a text, and its place. Lines and columns count from 1; a place without a line is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// True for a warning.
    pub is_warning: bool,
    /// The code of the diagnostic, which `ptx explain` explains; empty for a mistake in Rust's own syntax.
    pub code: &'static str,
    /// The message.
    pub message: String,
    /// The first line and column.
    pub start: (usize, usize),
    /// The line and the column behind the last character.
    pub end: (usize, usize),
    /// The fixes.
    pub help: Vec<String>,
    /// The section of the PTX manual.
    pub section: Option<&'static str>,
}

impl Problem {
    /// An error that has no place in the text.
    pub fn elsewhere(message: String) -> Problem {
        Problem { start: (0, 0), end: (0, 0), ..problem("", message, Span::call_site(), Span::call_site()) }
    }

    /// Returns true for the same mistake at the same place.
    pub(crate) fn is_same(&self, other: &Problem) -> bool {
        (self.start, self.code, &self.message) == (other.start, other.code, &other.message)
    }

    /// `3:38: [P0201] there is no instruction `sd``
    pub(crate) fn to_line(&self) -> String {
        let (line, column) = self.start;
        format!("{line}:{column}: {}{}", self.tag(), self.message)
    }

    /// The code as it stands before the message, `[P0201] `; nothing if there is no code.
    pub fn tag(&self) -> String {
        if self.code.is_empty() { String::new() } else { format!("[{}] ", self.code) }
    }
}

/// A mistake in Rust's own syntax.
pub(crate) fn syntax(error: &syn::Error) -> Problem {
    problem("", error.to_string(), error.span(), error.span())
}

/// A problem of a run of tokens.
pub(crate) fn problem(code: &'static str, message: String, first: Span, last: Span) -> Problem {
    let (start, end) = (first.start(), last.end());
    Problem {
        is_warning: false,
        code,
        message,
        start: (start.line, start.column + 1),
        end: (end.line, end.column + 1),
        help: Vec::new(),
        section: None,
    }
}
