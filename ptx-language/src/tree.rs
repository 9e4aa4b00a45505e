//! The statement tree that a host gives: plain data, shaped like the Rust that was written, every node with its span.
//!
//! No name is resolved and no type is understood here: `&[f32]`, `pred` and `TensorMap` are [`Type`]s like any other.
//! What the host could not represent it reports itself and leaves as [`ExprKind::Error`], which stays silent from then on.
//! Items and types are in this file.

mod expr;
mod stmt;

pub use expr::{Arm, BinaryOp, Expr, ExprKind, UnaryOp};
pub use stmt::{Block, Let, Memory, MemorySpace, Pattern, Ptx, Stmt, StmtKind};

use ptx_core::hash::Set;
use ptx_core::isa::{Arch, Version};
use ptx_core::span::Span;
use std::sync::Arc;

/// A name and where it stands. A label's name has no quote: `'k` is `k`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ident {
    /// As written; a raw identifier without its `r#`.
    pub name: String,
    /// Its token.
    pub span: Span,
}

/// Content of one PTX module: the items of a `#[ptx_module]`, or one kernel alone.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// `const` items.
    pub consts: Vec<Const>,
    /// `static` items.
    pub statics: Vec<Static>,
    /// Structs: those that kernels take by value, and those that registers are grouped into.
    pub structs: Vec<Struct>,
    /// `impl` blocks of these structs.
    pub impls: Vec<Impl>,
    /// Helper functions.
    pub functions: Vec<Function>,
    /// Modules whose items are named with a path: `warp::reduce_sum`. The host adds one for each file of
    /// the prelude that is named.
    pub modules: Vec<(Ident, Arc<Module>)>,
    /// `ptx! { … }` items: declarations and functions in PTX.
    pub ptx: Vec<Ptx>,
    /// The kernels, in order.
    pub kernels: Vec<Kernel>,
}

/// `const N: u32 = 4;`
#[derive(Clone, Debug)]
pub struct Const {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
    /// Its value.
    pub value: Expr,
}

/// `static TABLE: [u32; 4] = [1, 2, 3, 4];` is `.const`, `static mut COUNT: u32 = 0;` is `.global`.
#[derive(Clone, Debug)]
pub struct Static {
    /// Its name.
    pub name: Ident,
    /// True if it is `mut`.
    pub mutable: bool,
    /// True if it is `pub`: the host reads and writes it.
    pub visible: bool,
    /// `#[align(16)]`.
    pub align: Option<Expr>,
    /// Its type.
    pub ty: Type,
    /// Its initial value; zeros without one.
    pub value: Option<Expr>,
}

/// A struct. A value of it is the registers of its fields.
///
/// A kernel may take one by value, as a `#[repr(C)]` struct of the host. The macro of a kernel cannot see a type's fields, so
/// such a struct must be declared where the macro sees it: in the same `#[ptx_module]`, or in the attribute,
/// `params(Name { field: type, … })`; the host fills in the fields of `params(Name)`. The host asserts at compile time that `size_of`, `align_of` and every `offset_of!` are
/// those of `layout`.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Its name.
    pub name: Ident,
    /// Its generic parameters.
    pub generics: Vec<Generic>,
    /// Its fields, in order.
    pub fields: Vec<Field>,
    /// `#[align(1024)]`: its least alignment in memory.
    pub align: Option<Expr>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
    /// `#[align(1024)]`: its least alignment in memory.
    pub align: Option<Expr>,
}

/// `impl<const N: u32> Ring<N> { … }`
#[derive(Clone, Debug)]
pub struct Impl {
    /// Its generic parameters.
    pub generics: Vec<Generic>,
    /// The struct, with its arguments.
    pub target: Type,
    /// Associated constants.
    pub consts: Vec<Const>,
    /// Methods and associated functions.
    pub functions: Vec<Function>,
}

/// A `#[ptx_kernel]` function.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name, and that of the `.entry`.
    pub name: Ident,
    /// Its generic parameters.
    pub generics: Vec<Generic>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Options of the attribute.
    pub options: Options,
    /// Its statements.
    pub body: Block,
    /// The whole function.
    pub span: Span,
}

/// A `const N: u32` or a `T` in `< >`.
#[derive(Clone, Debug)]
pub struct Generic {
    /// Its name.
    pub name: Ident,
    /// The type of a `const` parameter; `None` for a type parameter.
    pub constant: Option<Type>,
}

/// A parameter of a kernel or a helper.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name; `self` for the receiver of a method.
    pub name: Ident,
    /// `mut x`: a copy that the function may write.
    pub mutable: bool,
    /// Its type, as written: `u32`, `&[f32]`, `&mut [T]`, `TensorMap`, `Tile<bf16, (M, K)>`, `Params`, `[u8; 24]`.
    pub ty: Type,
    /// `#[align(64)]`
    pub align: Option<Expr>,
    /// Pointer attributes in the PTX.
    pub pointer: Pointer,
    /// The fields of a struct of arguments, each a parameter of the entry. A kernel takes such a struct in place of its fields.
    pub fields: Vec<Param>,
}

impl Param {
    /// The parameters of the entry: the fields of a struct of arguments, or itself.
    pub fn flat(&self) -> &[Param] {
        if self.fields.is_empty() { std::slice::from_ref(self) } else { &self.fields }
    }
}

/// Address information in the declaration of a `&[T]` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pointer {
    /// It points to global memory: `.ptr .global .align 4`. The prologue makes it a global address.
    #[default]
    Global,
    /// `#[generic]`: it is a pointer: `.ptr .align 1`, as nvcc declares it. Its value is a generic address.
    Generic,
    /// `#[bare]`: nothing, it is a `.u64`. Its value is a generic address.
    Bare,
}

/// The options of the attribute that have a meaning in PTX. The launch's own options stay with the host.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `arch("sm_80", "sm_90a")`, each a variant.
    pub arch: Vec<Arch>,
    /// `version = "8.7"`.
    pub version: Option<Version>,
    /// `block = (32, 8)`: one to three expressions. A constant becomes `.reqntid`; a host expression, nothing.
    pub block: Vec<Expr>,
    /// `max_block = 384`: one to three expressions, `.maxntid`.
    pub max_block: Vec<Expr>,
    /// `cluster = 2`: one to three expressions, as above, `.reqnctapercluster`.
    pub cluster: Vec<Expr>,
    /// `required_cluster = 2`: the same without `.explicitcluster`.
    pub required_cluster: Vec<Expr>,
    /// `explicit_cluster`: `.explicitcluster` without a size, which the launch gives.
    pub explicit_cluster: bool,
    /// `max_cluster = 8`: `.maxclusterrank`.
    pub max_cluster: Option<Expr>,
    /// `max_regs = 168`: `.maxnreg`.
    pub max_regs: Option<Expr>,
    /// `min_blocks = 2`: `.minnctapersm`.
    pub min_blocks: Option<Expr>,
    /// `cooperative`: all blocks run at the same time.
    pub cooperative: bool,
    /// `raw`: no prologue; a parameter's name is its symbol.
    pub raw: bool,
    /// `lineinfo`: `.file` and `.loc`.
    pub lineinfo: bool,
    /// `instances = [(128, f32), (256, f16)]`.
    pub instances: Vec<Instance>,
    /// The names in the options that the host alone reads: `n` in `grid = n / 32`.
    pub host_names: Set<String>,
}

/// One choice of generic arguments.
#[derive(Clone, Debug)]
pub struct Instance {
    /// `tall = (…)`: the name that the host has for it.
    pub name: Option<Ident>,
    /// In the order of the parameters.
    pub args: Vec<GenericArg>,
    /// All of it.
    pub span: Span,
}

/// An argument in `< >` or in `instances`. Where both are possible (a lone name) the host gives a type.
#[derive(Clone, Debug)]
pub enum GenericArg {
    /// `f32`, or a lone name.
    Type(Type),
    /// `4`, `{ N + 1 }`.
    Const(Expr),
}

/// A helper `fn`.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: Ident,
    /// Its generic parameters.
    pub generics: Vec<Generic>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Type after `->`.
    pub result: Option<Type>,
    /// Its statements; a last expression without `;` is its result.
    pub body: Block,
    /// `#[noinline]`: a `.func` and a `call`.
    pub noinline: bool,
    /// `#[cooperative]`: for kernels whose blocks all run at the same time.
    pub cooperative: bool,
    /// `const fn` of a struct: the host has it, too.
    pub constant: bool,
    /// Not the user's source (the prelude): what is wrong inside is reported at the call.
    pub external: bool,
    /// The whole function.
    pub span: Span,
}

impl Function {
    /// Returns true if it is a method: its first parameter is `self`.
    pub fn is_method(&self) -> bool {
        self.params.first().is_some_and(|param| param.name.name == "self")
    }
}

/// A type, as written.
#[derive(Clone, Debug)]
pub struct Type {
    /// Its syntax.
    pub kind: TypeKind,
    /// All of it.
    pub span: Span,
}

/// Syntax of a type.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `f32`, `pred`, `Tile<bf16, (M, K)>`.
    Path(Path),
    /// `[T; N]`
    Array(Box<Type>, Box<Expr>),
    /// `[T]`
    Slice(Box<Type>),
    /// `&T`, `&mut T`: whether it is `mut`.
    Ref(bool, Box<Type>),
    /// `(A, B)`, and `()`.
    Tuple(Vec<Type>),
    /// Reported by the host.
    Error,
}

/// `a::b::<C>`: generic arguments only behind the last segment, and the one before it, where that is a struct.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// The segments.
    pub segments: Vec<Ident>,
    /// The arguments behind the last segment.
    pub args: Vec<GenericArg>,
    /// The arguments behind the segment before it: `Ring::<4>::new`.
    pub owner_args: Vec<GenericArg>,
}

impl Path {
    /// A lone name.
    pub fn name(name: Ident) -> Path {
        Path { segments: vec![name], ..Path::default() }
    }

    /// The path in front of the last segment: `Ring::<4>` of `Ring::<4>::new`.
    pub fn owner(&self) -> Option<Path> {
        let (_, owner) = self.segments.split_last()?;
        let path = Path { segments: owner.to_vec(), args: self.owner_args.clone(), owner_args: Vec::new() };
        (!owner.is_empty()).then_some(path)
    }
}
