//! The kernel language: Rust-shaped statements that lower to PTX, one instruction for each operator.
//!
//! A host (the macros) gives a [`tree::Module`]; [`lower`] gives PTX tokens, each with the span of what it came from.
//! From there on it is PTX like any other: `parse`, `lower`, `check`. Nothing here depends on `syn` or a proc macro.

#![forbid(unsafe_code)]
mod address;
mod cuda;
mod lower;
mod methods;
mod names;
mod operators;
pub mod prelude;
mod rounding;
mod scope;
mod spoken;
pub mod tree;
mod types;
mod uncalled;
mod unused;
mod uses;
mod value;

pub use lower::lower;
pub use lower::{cast, ends};
pub use operators::markdown as operators;
pub use operators::{Written, instruction, is_by_power_of_two, written};
pub use spoken::Spoken;
pub use types::{language_type, meet, move_of};
pub use uncalled::uncalled;
pub use unused::{Unused, UnusedKind, unused};
pub use uses::Uses;

use ptx_core::hash::Set;
use ptx_core::isa::{Arch, Type, Version};
use ptx_core::span::Span;

/// The most turns of a `for`, which is always unrolled: more are a mistake.
pub const MOST_TURNS: u32 = 1 << 16;

/// The most registers of one name: more are a mistake, as a thread has 255.
pub const MOST_REGISTERS: u64 = 1 << 14;

/// For which target to lower, and how the host reads its spans.
pub struct Variant<'a> {
    /// `.target`; `if arch >= sm_90` reads it.
    pub arch: Arch,
    /// `.version`.
    pub version: Version,
    /// `.file` and `.loc` for kernels with `lineinfo`: file, line and column (from 1) of a span's start.
    pub locate: &'a dyn Fn(Span) -> Option<Location>,
    /// True if the calls of helpers are listed, for messages.
    pub traced: bool,
}

/// A call of a helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperCall {
    /// The whole helper; `None` for one of the library.
    pub helper: Option<Span>,
    /// Its name, with its generic arguments.
    pub name: String,
    /// The generic parameters that the call names, and the others, if it names some of them only.
    pub left_out: Option<(String, String)>,
    /// The call.
    pub at: Span,
}

/// A place in the user's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The path, as the compiler names it.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

/// A lowered module.
#[derive(Clone, Debug, Default)]
pub struct Lowered {
    /// The whole PTX module: pieces of text, each with its origin.
    pub pieces: Vec<(String, Span)>,
    /// One entry for each kernel and instance, in order.
    pub entries: Vec<Entry>,
    /// One layout for each of the module's structs that a kernel takes, in order; the host asserts that Rust agrees.
    pub structs: Vec<StructLayout>,
    /// The `static`s, in the order in which they are written: those of the module first, then those of bodies.
    pub statics: Vec<StaticVariable>,
    /// The variables in shared memory, for tools.
    pub memory: Vec<MemoryLayout>,
    /// Spans of `unchecked { }`: an instruction with such a span needs no row of the table.
    pub unchecked: Vec<Span>,
    /// Names in `ptx!` whose declaration was refused: what else is wrong with them follows from that.
    pub refused: Vec<Span>,
    /// Names in `ptx!` that not every instruction may use; [`Uses::check`] compares them with what instructions do.
    pub uses: Uses,
    /// Names of the registers in the source.
    pub spoken: Spoken,
    /// The helpers that are written, by their spans.
    pub called: Set<Span>,
    /// The calls of helpers, if they are listed.
    pub calls: Vec<HelperCall>,
}

/// Layout that a `#[repr(C)]` struct must have in Rust, so that the kernel finds its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StructLayout {
    /// Its name.
    pub name: String,
    /// `size_of`
    pub size: u64,
    /// `align_of`
    pub align: u64,
    /// `offset_of!` for each field.
    pub offsets: Vec<(String, u64)>,
    /// The numbers in it: the names of the fields that lead there (`tile.rows`, `strides[2]`), the offset, the type.
    pub numbers: Vec<(String, u64, Type)>,
}

/// Content of a variable in shared memory: what a debugger shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// Its name in the PTX.
    pub symbol: String,
    /// Bytes; of dynamic memory without a size, those of an element.
    pub size: u64,
    /// The numbers in it, in order, of a large one the first.
    pub places: Vec<MemoryPlace>,
}

/// Numbers of one type beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlace {
    /// The fields and elements that lead there: `stages[2].a`. Empty for a variable that is a number or a plain array.
    pub path: String,
    /// In bytes, from the start of the variable.
    pub offset: u64,
    /// The name of their type: `bf16`.
    pub element: String,
    /// The lengths of the array, outermost first; none of a single number.
    pub dims: Vec<u64>,
}

/// A `static` of a module as a variable of the PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticVariable {
    /// Its name in the source, if it is an item of the module.
    pub name: Option<String>,
    /// Its name in the PTX.
    pub symbol: String,
    /// The type of an element.
    pub element: Type,
    /// The lengths of the array, outermost first; none of a single element.
    pub dims: Vec<u64>,
    /// True if kernels write it, or the host may: it is `mut` or `pub`.
    pub shared: bool,
}

/// A `.entry` of a lowered module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the PTX: the kernel's, and for instances what they say: `bf16_3`.
    pub name: String,
    /// Which of the module's kernels.
    pub kernel: usize,
    /// Which of its instances.
    pub instance: Option<usize>,
    /// Its `.param`s, in order.
    pub params: Vec<EntryParam>,
    /// Bytes of its dynamic shared memory, where the type of the variable defines them.
    pub dynamic: Option<u64>,
}

/// Content of a `.param` of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryParam {
    /// The kernel's parameter of this index: a scalar, a pointer, a struct, 128 bytes of tensor map.
    Value(usize),
    /// The size of a dimension that `Tile`s name, as `u32`.
    Dim(String),
    /// The tensor map that `#[tma]` makes for the parameter of this index.
    Map(usize),
}

// The example of the package's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
