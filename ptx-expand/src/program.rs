//! A source text as a program: its PTX, and of each kernel all that a launch needs, as plain data. It is for hosts that read kernels while they run,
//! where the macros write a launch function (`launch`). Both are made of the same reading of the text.

mod arguments;
mod around;
pub mod contract;
mod foreign;
mod items;
mod names;
mod outline;
mod text;

pub use crate::describe::{
    Condition, Dim, Distinct, Expr, Field, From, Kernel, Kind, Launch, Operator, Param, Plain, Problem, Region, Shown,
    Table, Taken, TensorMap,
};
pub use around::Crate;
pub use outline::{Generic, Outline, OutlineParam, outline_and_compile};
pub use ptx_language::{MemoryLayout, MemoryPlace};
pub use ptx_target::Contract;
pub use text::{Refused, compile_ptx};

use crate::compile::Compiled;
use crate::contract::read as read_contract;
use crate::describe::{Contracted, Scope, describe, problem, syntax};
use crate::kernel::Reader;
use crate::launchable::Launchable;
use crate::single::Single;
use crate::{module, nesting, text_module};
use around::Files;
use proc_macro2::{LexError, Span, TokenStream};
use ptx_core::diag::{Diagnostic, Severity};
pub use std::fmt;
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
    /// Leaves proofs out: a kernel with `proved` is launched as one for which nobody vouches.
    pub without_proofs: bool,
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
    /// Its variables in shared memory.
    pub memory: Vec<MemoryLayout>,
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

/// The same for a text that is a file of a crate.
///
/// # Errors
/// As above.
pub fn compile_in(source: &str, options: &Options, around: &Crate) -> Result<Program, Problems> {
    of_crate(parse(source)?, options, false, around)
}

/// The same. Where the helper library counts as part of the source, a mistake in a helper is reported where it stands, and not at the call.
pub(crate) fn compile_with(source: &str, options: &Options, own_library: bool) -> Result<Program, Problems> {
    of_file(parse(source)?, options, own_library)
}

/// The items of a text.
fn parse(source: &str) -> Result<syn::File, Problems> {
    let refused = |error: syn::Error| {
        let Problems(mut problems) = refused(error);
        if let (Some(first), Some(hint)) = (problems.first_mut(), foreign::hint(source)) {
            first.help.push(hint.to_owned());
        }
        Problems(problems)
    };
    let tokens: TokenStream = source.parse().map_err(|error: LexError| refused(error.into()))?;
    nesting::check_nesting(&tokens).map_err(|deep| refused(deep.into()))?;
    syn::parse2(tokens).map_err(refused)
}

fn refused(error: syn::Error) -> Problems {
    Problems(error.into_iter().map(|error| syntax(&error)).collect())
}

/// The same for a file that is read already.
pub(crate) fn of_file(file: syn::File, options: &Options, own_library: bool) -> Result<Program, Problems> {
    of_crate(file, options, own_library, &Crate::default())
}

fn of_crate(mut file: syn::File, options: &Options, own_library: bool, around: &Crate) -> Result<Program, Problems> {
    let mut index = names::Index::default();
    index.add(&around.place, &mut file.items);
    of_items((file.items, index), options, own_library, around)
}

/// The same for items without their parts, which the index has.
fn of_items(
    (items, mut index): (Vec<syn::Item>, names::Index),
    options: &Options,
    own_library: bool,
    around: &Crate,
) -> Result<Program, Problems> {
    let (mut program, mut wrong) = (Program::default(), Vec::new());
    for contract in index.contracts() {
        let mut reader = Reader::default();
        drop(read_contract(&mut reader, contract));
        wrong.extend(problems(&reader));
    }
    let files = Files::read(items, around, &mut index);
    wrong.extend(arguments::wrong(&files, &index, options));
    wrong.extend(items::declared_twice(files.own()));
    let chosen = items::kernels(files.own()).into_iter().filter(|item| items::is_chosen(item, options));
    for item in chosen {
        let reader = Reader { own_library, leaves_proofs_out: options.without_proofs, ..Reader::default() };
        let (module, problems) =
            one(reader, item, (&index, &files), options).unwrap_or_else(|problem| (None, vec![problem]));
        program.modules.extend(module);
        let (warnings, errors): (Vec<_>, Vec<_>) = problems.into_iter().partition(|problem| problem.is_warning);
        program.warnings.extend(warnings);
        wrong.extend(errors);
    }
    // Two phases may find the same mistake.
    let mut found: Vec<Problem> = Vec::with_capacity(wrong.len());
    for problem in wrong {
        if !found.iter().any(|known| known.is_same(&problem)) {
            found.push(problem);
        }
    }
    if found.is_empty() { Ok(program) } else { Err(Problems(found)) }
}

/// A compiled module, if it has no errors, and what is wrong.
type Compilation = (Option<Module>, Vec<Problem>);

/// A kernel or a module of kernels.
fn one(
    reader: Reader,
    item: items::Item<'_>,
    (index, files): (&names::Index, &Files),
    options: &Options,
) -> Result<Compilation, Problem> {
    let own = files.absolute(&item.place);
    let place = (index, own.as_slice());
    let around = || {
        let mut scope = files.scope(&own);
        for (module, contract) in index.contracts_at(&own) {
            // Its mistakes are reported once for the text.
            if let Some(contract) = read_contract(&mut Reader::default(), contract) {
                scope.add_contract(Contracted { contract, scope: Some(files.scope(module)) });
            }
        }
        scope
    };
    Ok(match item.kind {
        items::ItemKind::Kernel(attribute, function) => {
            let attribute = items::chosen(attribute, &function.sig.generics, place, options)?;
            let scope = around();
            let single = Single::compile(reader, attribute, &function, &scope);
            let name = function.sig.ident.to_string();
            let kernels = std::slice::from_ref(&single.launchable);
            finished(name, &single.reader, kernels, &single.compiled, &scope)
        }
        items::ItemKind::Module(attribute, content) => {
            let (attribute, content) = items::chosen_module(attribute, content, place, options)?;
            let mut kernels = content.content.iter().flat_map(|(_, items)| items).filter_map(items::kernel_of);
            if options.only.is_some() && kernels.next().is_none() {
                return Ok((None, Vec::new()));
            }
            let scope = around().with(&content);
            let (items, compiled) = module::compile(reader, attribute, &content, &scope);
            let (reader, kernels) = items.into_launchables();
            finished(content.ident.to_string(), &reader, &kernels, &compiled, &scope)
        }
        items::ItemKind::Text(call) => {
            let group = call.mac.path.span().join(call.mac.delimiter.span().close()).unwrap_or_else(Span::call_site);
            let (mut reader, text) = text_module::compile(group, call.mac.tokens.clone());
            let structs = |path: &syn::Path| index.fields(&own, path).cloned();
            let module = text.map(|text| {
                text::described(&mut reader, (&text.module, text.ptx), (&text.signatures, &structs), &around())
            });
            let launches = module.iter().flat_map(|module| launch_errors(&module.kernels)).collect::<Vec<_>>();
            (module.filter(|_| !reader.failed()), problems(&reader).into_iter().chain(launches).collect())
        }
    })
}

fn finished(
    name: String,
    reader: &Reader,
    launchables: &[Launchable],
    compiled: &Compiled,
    scope: &Scope,
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
    let kernels =
        launchables.iter().enumerate().flat_map(|(index, launchable)| describe(index, launchable, compiled, scope));
    let (kernels, memory) = (kernels.collect::<Vec<_>>(), compiled.memory.clone());
    let problems = problems(reader).into_iter().chain(launch_errors(&kernels)).collect();
    (Some(Module { name, texts: texts.collect(), kernels, memory }), problems)
}

/// The errors in the attributes of kernels that only a launch would show, once for all instances.
fn launch_errors(kernels: &[Kernel]) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for problem in kernels.iter().filter_map(|kernel| kernel.launch.as_ref().err()) {
        if !problem.code.is_empty() && !found.contains(problem) {
            found.push(problem.clone());
        }
    }
    found
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
