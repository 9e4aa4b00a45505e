//! A source text as a program: its PTX, and of each kernel all that a launch needs, as plain data. It is for hosts that read kernels while they run,
//! where the macros write a launch function (`launch`). Both are made of the same reading of the text.

pub mod contract;
mod expr;
mod items;
mod kernel;
mod names;
mod outline;
mod text;
mod value;

pub use expr::{Expr, Field, Operator, Plain};
pub use outline::{Generic, Outline, OutlineParam, outline};
pub use text::{Refused, compile_ptx};

use crate::compile::Compiled;
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::single::Single;
use crate::{module, nesting, text_module};
use proc_macro2::{LexError, Span, TokenStream};
use ptx_core::diag::{Diagnostic, Severity};
pub use ptx_target::Contract;
use std::fmt;
use syn::spanned::Spanned;

/// Choices of whoever compiles a text.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The generic arguments of its kernels, as Rust text: `("BLOCK", "256")`, `("T", "bf16")`. A kernel whose parameters are all here has the one
    /// instance of these arguments, whatever its `instances` are.
    pub with: Vec<(String, String)>,
    /// The target, as in `arch = "sm_90a"`, in place of those of the attributes.
    pub target: Option<String>,
    /// The one kernel to compile, by its name in the source; `None` for all of them.
    pub only: Option<String>,
}

/// A compiled text.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its kernels and kernel modules, in order: each is a module of PTX.
    pub modules: Vec<Module>,
    /// Remarks that are no errors.
    pub warnings: Vec<Problem>,
}

/// A module of PTX.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name of the kernel or of the module.
    pub name: String,
    /// Its PTX, once for each target.
    pub texts: Vec<Text>,
    /// Its kernels; a generic one once for each instance.
    pub kernels: Vec<Kernel>,
}

/// PTX for one target.
#[derive(Clone, Debug)]
pub struct Text {
    /// `sm_90a`
    pub target: String,
    /// The PTX.
    pub ptx: String,
    /// The line and the column of the source that made a line of the PTX: (line of PTX, line, column), all from 1.
    pub lines: Vec<(u32, u32, u32)>,
}

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
    /// The host's half of the attribute, or why it cannot be evaluated without a compiler.
    pub launch: Result<Launch, Problem>,
}

/// A parameter of a kernel's signature.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
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
    /// True if the author vouches for the conditions: `unsafe(requires(…))`.
    pub vouched: bool,
    /// `cooperative`
    pub cooperative: bool,
    /// `pdl`
    pub pdl: bool,
    /// The promises about its machine code.
    pub contract: Contract,
}

/// A condition of `requires(…)`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// It holds if this is true.
    pub holds: Expr,
    /// Its text.
    pub text: String,
    /// The values that an error shows, with their names.
    pub shown: Vec<(String, Expr)>,
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

/// Everything that is wrong in a text: one problem or more.
#[derive(Clone, Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_line).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

/// Compiles every `#[ptx_kernel]`, `#[ptx_module]` and `ptx! { … }` of a source text, those in modules too. Items around them, such as `use` and
/// functions of the host, are not read.
///
/// # Errors
/// Everything that a build would report.
pub fn compile(source: &str, options: &Options) -> Result<Program, Problems> {
    compile_with(source, options, false)
}

/// The same. Where the helper library counts as part of the source, a mistake in a helper is reported where it stands, and not at the call.
pub(crate) fn compile_with(source: &str, options: &Options, own_library: bool) -> Result<Program, Problems> {
    of_file(parse(source)?, options, own_library)
}

/// The items of a text.
fn parse(source: &str) -> Result<syn::File, Problems> {
    let tokens: TokenStream = source.parse().map_err(|error: LexError| refused(error.into()))?;
    nesting::check_nesting(&tokens).map_err(|deep| refused(deep.into()))?;
    syn::parse2(tokens).map_err(refused)
}

fn refused(error: syn::Error) -> Problems {
    Problems(error.into_iter().map(|error| syntax(&error)).collect())
}

/// The same for a file that is read already.
pub(crate) fn of_file(mut file: syn::File, options: &Options, own_library: bool) -> Result<Program, Problems> {
    let index = names::Index::take(&mut file.items);
    let (mut program, mut wrong) = (Program::default(), Vec::new());
    let chosen = items::kernels(&file.items).into_iter().filter(|item| items::is_chosen(item, options));
    for item in chosen {
        let reader = Reader { own_library, ..Reader::default() };
        let (module, problems) =
            one(reader, item, (&index, &file.items), options).unwrap_or_else(|problem| (None, vec![problem]));
        program.modules.extend(module);
        let (warnings, errors): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.is_warning);
        program.warnings.extend(warnings);
        wrong.extend(errors);
    }
    if wrong.is_empty() { Ok(program) } else { Err(Problems(wrong)) }
}

/// A mistake in Rust's own syntax.
fn syntax(error: &syn::Error) -> Problem {
    problem("", error.to_string(), error.span(), error.span())
}

fn problem(code: &'static str, message: String, first: Span, last: Span) -> Problem {
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

/// A compiled module, if it has no errors, and what is wrong.
type Compilation = (Option<Module>, Vec<Problem>);

/// A kernel or a module of kernels.
fn one(
    reader: Reader,
    item: items::Item<'_>,
    (index, items): (&names::Index, &[syn::Item]),
    options: &Options,
) -> Result<Compilation, Problem> {
    let place = (index, item.place.as_slice());
    let around = || value::Scope::at(items, &item.place);
    Ok(match item.kind {
        items::ItemKind::Kernel(attribute, function) => {
            let attribute = items::chosen(attribute, &function.sig.generics, place, options)?;
            let single = Single::compile(reader, attribute, &function);
            let name = function.sig.ident.to_string();
            let kernels = std::slice::from_ref(&single.launchable);
            finished(name, &single.reader, kernels, &single.compiled, &around())
        }
        items::ItemKind::Module(attribute, content) => {
            let (attribute, content) = items::chosen_module(attribute, content, place, options)?;
            let mut kernels = content.content.iter().flat_map(|(_, items)| items).filter_map(items::kernel_of);
            if options.only.is_some() && kernels.next().is_none() {
                return Ok((None, Vec::new()));
            }
            let (items, compiled) = module::compile(reader, attribute, &content);
            let (reader, kernels) = items.into_launchables();
            finished(content.ident.to_string(), &reader, &kernels, &compiled, &around().with(&content))
        }
        items::ItemKind::Text(call) => {
            let group = call.mac.path.span().join(call.mac.delimiter.span().close()).unwrap_or_else(Span::call_site);
            let (mut reader, text) = text_module::compile(group, call.mac.tokens.clone());
            let module =
                text.map(|text| text::described(&mut reader, &text.module, &text.signatures, text.ptx, String::new()));
            (module.filter(|_| !reader.failed()), problems(&reader))
        }
    })
}

fn finished(
    name: String,
    reader: &Reader,
    launchables: &[Launchable],
    compiled: &Compiled,
    scope: &value::Scope,
) -> Compilation {
    if compiled.failed {
        return (None, problems(reader));
    }
    let texts = compiled.texts.iter().map(|text| Text {
        target: text.arch.to_string(),
        ptx: text.ptx.clone(),
        lines: text
            .lines
            .iter()
            .filter_map(|(line, span)| reader.host.location(*span).map(|place| (*line, place.line, place.column)))
            .collect(),
    });
    let kernels = launchables
        .iter()
        .enumerate()
        .flat_map(|(index, launchable)| kernel::describe(index, launchable, compiled, scope));
    (Some(Module { name, texts: texts.collect(), kernels: kernels.collect() }), problems(reader))
}

fn problems(reader: &Reader) -> Vec<Problem> {
    reader.diagnostics.iter().map(|diagnostic| of_diagnostic(reader, diagnostic)).collect()
}

fn of_diagnostic(reader: &Reader, diagnostic: &Diagnostic) -> Problem {
    let (first, last) = reader.host.ends(diagnostic.span);
    Problem {
        is_warning: diagnostic.severity == Severity::Warning,
        help: diagnostic.help.clone(),
        section: diagnostic.section,
        ..problem(diagnostic.code.id, diagnostic.message.clone(), first, last)
    }
}
