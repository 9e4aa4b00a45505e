//! The way of a kernel module, once for each target: `ptx-language` lowers the statement tree to PTX tokens, `ptx-core` parses, checks and prints them.

mod echoes;
mod origins;
mod spans;
mod statics;
mod targets;

use crate::kernel::Reader;
use ptx_core::check::{Checked, Unsound, Waiting, check_or_keep, waiting};
use ptx_core::diag::Diagnostic;
use ptx_core::edit::EditError;
use ptx_core::hash::{Map, Set};
use ptx_core::isa::{Arch, Version};
use ptx_core::lex::Builder;
use ptx_core::lower::Options;
use ptx_core::parse::parse;
use ptx_core::span::Span;
use ptx_core::syntax::Tree;
use ptx_core::token::{Source, TokenId};
use ptx_core::{emit, ir};
use ptx_language::tree::Module;
use ptx_language::{Entry, Lowered, MemoryLayout, StaticVariable, StructLayout, Unused, Variant};
use ptx_target::Contract;
use ptx_target::sort::SortSmall;
use spans::Spans;
pub use statics::Used;
use std::ops::Range;
use std::path::Path;

/// A PTX module for one target.
pub struct Text {
    /// `.target`
    pub arch: Arch,
    /// The PTX.
    pub ptx: String,
    /// Which span made which line: the line, from 1, and the span of its first token.
    pub lines: Vec<(u32, Span)>,
    /// Its machine code, if it is embedded: one for each chip.
    pub cubins: Vec<Cubin>,
    /// The checked module, if a kernel is to be proved.
    #[cfg_attr(not(feature = "proved"), allow(dead_code, reason = "the prover reads it"))]
    pub checked: Option<Checked>,
}

/// Machine code for one chip.
pub struct Cubin {
    /// The chip, as ptxas is told it.
    pub arch: Arch,
    /// The ELF file.
    pub bytes: Vec<u8>,
    /// The output of ptxas.
    pub log: String,
}

impl Text {
    /// The text of a module with errors.
    fn empty(arch: Arch) -> Self {
        Text { arch, ptx: String::new(), lines: Vec::new(), cubins: Vec::new(), checked: None }
    }
}

/// The compiled module.
#[derive(Default)]
pub struct Compiled {
    /// One text for each target, in the order of the attribute.
    pub texts: Vec<Text>,
    /// The entries, the same in all of them, in the order of their kernels.
    pub entries: Vec<Entry>,
    /// Bytes and alignment of the parameters of each entry, by its name in the PTX; none of a module with errors.
    pub params: Map<String, Vec<(u64, u64)>>,
    /// The entries that wait for the grids before them, each with a bit for each text in which it does so before all accesses.
    pub waiting: Map<String, u32>,
    /// The threads of a block of each entry whose text has their number.
    pub block_threads: Map<String, u32>,
    /// The contracts of entries on their machine code.
    pub contracts: Map<String, Promised>,
    /// The `static`s of the module.
    pub statics: Vec<StaticVariable>,
    /// The variables in shared memory, for tools.
    pub memory: Vec<MemoryLayout>,
    /// The variables that each entry may use, by the name of the entry, for each target.
    pub used: Map<String, Vec<Used>>,
    /// Layouts that the structs must have in Rust.
    pub structs: Vec<StructLayout>,
    /// Names that nothing uses; none of a module with errors.
    pub unused: Vec<Unused>,
    /// True if something is wrong: then only the signatures count, so that the compiler adds nothing of its own.
    pub failed: bool,
}

/// The contract of an entry on its machine code.
#[derive(Clone)]
pub struct Promised {
    /// Its promises.
    pub contract: Contract,
    /// The kernel's name in the source.
    pub kernel: String,
    /// The options and their places in the attribute.
    pub options: Vec<(String, Span)>,
}

/// Compiles a module for every target. What is wrong is reported once, not once for each target.
pub fn module(reader: &mut Reader, module: &Module, arches: &[Arch], version: Option<Version>) -> Compiled {
    // The host's types of `static`s are known when they are lowered.
    if module.statics.is_empty() && collects_examples() {
        let texts = arches.iter().map(|&arch| Text::empty(arch)).collect();
        return Compiled { texts, failed: true, ..Compiled::default() };
    }
    let mut compiled = Compiled::default();
    let mut found = Vec::new();
    let mut called = Set::default();
    for (at, &arch) in arches.iter().enumerate() {
        let (text, declared, lowered) = variant(reader, module, arch, version, false, &mut found);
        called.extend(lowered.called);
        compiled.texts.push(text);
        compiled.params = declared.params;
        compiled.wait_in(at, declared.waiting);
        compiled.block_threads = declared.block_threads;
        for (name, used) in declared.used {
            compiled.used.entry(name).or_default().push(used);
        }
        for variable in lowered.memory {
            if !compiled.memory.contains(&variable) {
                compiled.memory.push(variable);
            }
        }
        for variable in lowered.statics {
            if !compiled.statics.iter().any(|known| known.symbol == variable.symbol) {
                compiled.statics.push(variable);
            }
        }
        compiled.entries = lowered.entries;
        compiled.structs = lowered.structs;
    }
    if found.iter().any(Diagnostic::is_error) {
        origins::note(reader, module, (arches, version), &mut found);
    } else if !reader.failed() {
        found.extend(uncalled(reader, module, arches, version, &called));
    }
    let mut told: Set<Diagnostic> = reader.diagnostics.iter().cloned().collect();
    reader.diagnostics.extend(found.into_iter().filter(|diagnostic| told.insert(diagnostic.clone())));
    reader.silence();
    compiled.failed = reader.failed();
    if !compiled.failed {
        compiled.unused = ptx_language::unused(module);
    }
    compiled
}

/// Returns true if rustdoc collects the examples of a crate that rustc has compiled: it expands all macros, and then reads comments alone.
fn collects_examples() -> bool {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_default();
    Path::new(&program).file_stem().is_some_and(|name| name == "rustdoc") && args.any(|arg| arg == "--test")
}

/// The errors in helpers that no kernel calls: those that every target has.
fn uncalled(
    reader: &Reader,
    module: &Module,
    arches: &[Arch],
    version: Option<Version>,
    called: &Set<Span>,
) -> Vec<Diagnostic> {
    let probes = ptx_language::uncalled(module, called);
    let mut errors = arches.iter().map(|&arch| {
        let mut found = Vec::new();
        for probe in &probes {
            variant(reader, probe, arch, version, false, &mut found);
        }
        found.retain(Diagnostic::is_error);
        found
    });
    let mut common = errors.next().unwrap_or_default();
    errors.for_each(|other| common.retain(|error| other.contains(error)));
    common
}

/// Declarations of a checked module that the launch functions need.
#[derive(Default)]
struct Declared {
    /// Bytes and alignment of the parameters of each entry.
    params: Map<String, Vec<(u64, u64)>>,
    /// The variables that each entry may use.
    used: Vec<(String, Used)>,
    /// The entries that wait for the grids before them.
    waiting: Vec<Waiting>,
    /// The threads of a block of each entry whose text has their number.
    block_threads: Map<String, u32>,
}

fn variant(
    reader: &Reader,
    module: &Module,
    arch: Arch,
    version: Option<Version>,
    traced: bool,
    found: &mut Vec<Diagnostic>,
) -> (Text, Declared, Lowered) {
    let locate = |span| reader.host.location(span);
    let trial = version.unwrap_or(Version::NEWEST);
    let (lowered, language) = ptx_language::lower(module, &Variant { arch, version: trial, locate: &locate, traced });
    let (source, lexical) = source(&lowered);
    let (outcome, mut checks) = checked(source);
    checks.extend(lowered.uses.check(module_of(&outcome), outcome.is_ok()));
    checks.iter_mut().for_each(|diagnostic| lowered.uses.explain(diagnostic));
    let phases = [reader.diagnostics.clone(), lexical, language, checks];
    found.extend(echoes::without(phases, &lowered.refused).into_iter().map(|d| in_source(&lowered, d)));
    let declared = outcome.as_ref().map(|checked| Declared::of(checked.module())).unwrap_or_default();
    let text = outcome.ok().and_then(|checked| text(checked, version, reader.proves).ok());
    (text.unwrap_or_else(|| Text::empty(arch)), declared, lowered)
}

/// The tokens of a lowered module.
fn source(lowered: &Lowered) -> (Source, Vec<Diagnostic>) {
    let mut builder = Builder::new();
    for (piece, span) in &lowered.pieces {
        builder.push(piece, *span);
    }
    let (mut source, lexical) = builder.finish();
    source.unchecked = ranges(&source, &lowered.unchecked);
    (source, lexical)
}

impl Compiled {
    /// The entries of a kernel.
    pub fn entries_of(&self, kernel: usize) -> &[Entry] {
        let first = self.entries.partition_point(|entry| entry.kernel < kernel);
        let behind = self.entries.partition_point(|entry| entry.kernel <= kernel);
        self.entries.get(first..behind).unwrap_or_default()
    }

    /// Adds the entries that wait in a text.
    pub fn wait_in(&mut self, text: usize, entries: Vec<Waiting>) {
        for found in entries {
            let bit = found.bit(text);
            *self.waiting.entry(found.entry).or_default() |= bit;
        }
    }

    /// The sizes of the dynamic shared memory of a kernel's entries, each once; `None` where the type does not say it.
    pub fn dynamic_sizes(&self, kernel: usize) -> Vec<Option<u64>> {
        let mut sizes: Vec<_> = self.entries_of(kernel).iter().map(|entry| entry.dynamic).collect();
        sizes.sort_small();
        sizes.dedup();
        sizes
    }

    /// The variables that a kernel may use, in each of its entries.
    pub fn used_by(&self, kernel: usize) -> impl Iterator<Item = &Used> {
        let names: Set<&str> = self.entries_of(kernel).iter().map(|entry| entry.name.as_str()).collect();
        names.into_iter().filter_map(|name| self.used.get(name)).flatten()
    }
}

impl Declared {
    fn of(module: &ir::Module) -> Declared {
        Declared {
            params: params(module),
            used: statics::used(module),
            waiting: waiting(module),
            block_threads: block_threads(module),
        }
    }
}

/// The threads of a block of each entry: as many as `.reqntid` has, or at most those of `.maxntid`.
pub fn block_threads(module: &ir::Module) -> Map<String, u32> {
    let entries = module.functions.iter().filter(|function| function.entry && function.defined);
    let threads = |entry: &ir::Function| {
        let limit = entry.limit("reqntid").or_else(|| entry.limit("maxntid"))?;
        let threads = limit.values.iter().try_fold(1, |threads: u64, extent| threads.checked_mul(*extent))?;
        u32::try_from(threads).ok()
    };
    entries.filter_map(|entry| Some((entry.name.clone(), threads(entry)?))).collect()
}

fn params(module: &ir::Module) -> Map<String, Vec<(u64, u64)>> {
    let layout = |param: &ir::Param| match param {
        ir::Param::Var(id) => module.variables.get(id.index()).map(|variable| (variable.size, variable.align)),
        ir::Param::Reg(_) => None,
    };
    let entries = module.functions.iter().filter(|function| function.entry && function.defined);
    entries.map(|entry| (entry.name.clone(), entry.params.iter().filter_map(layout).collect())).collect()
}

/// With the registers' names in the source.
fn in_source(lowered: &Lowered, mut diagnostic: Diagnostic) -> Diagnostic {
    let labels = diagnostic.labels.iter_mut().map(|label| &mut label.text);
    for text in labels.chain(&mut diagnostic.help).chain([&mut diagnostic.message]) {
        *text = lowered.spoken.in_source(text);
    }
    diagnostic
}

/// The runs of tokens that come from one of the spans.
fn ranges(source: &Source, spans: &[Span]) -> Vec<Range<TokenId>> {
    let spans = Spans::new(spans.iter().copied());
    let within = |token: TokenId| spans.hold(source.span(token));
    let mut ranges: Vec<Range<TokenId>> = Vec::new();
    for token in (0..source.tokens.len() as TokenId).filter(|t| !spans.is_empty() && within(*t)) {
        match ranges.last_mut().filter(|r| r.end == token) {
            Some(range) => range.end += 1,
            None => ranges.push(token..token + 1),
        }
    }
    ranges
}

/// Parses and checks.
pub fn checked(source: Source) -> (Result<Checked, Unsound>, Vec<Diagnostic>) {
    let (tree, diagnostics) = parse(source);
    check_or_keep(tree, diagnostics, &Options { repeats: true, ..Options::default() })
}

/// The resolved module, correct or not: a module with errors still has entries to launch.
pub fn module_of(outcome: &Result<Checked, Unsound>) -> &ir::Module {
    match outcome {
        Ok(checked) => checked.module(),
        Err(unsound) => &unsound.module,
    }
}

/// The text of a checked module. Where the user does not choose, its version becomes the lowest that it needs, so that
/// older drivers load it.
fn text(checked: Checked, version: Option<Version>, keeps: bool) -> Result<Text, EditError> {
    let lowest = if version.is_none() { checked.with_minimum_version()? } else { checked };
    let checked = lowest.with_untyped_registers()?;
    let (arch, lines) = (checked.module().arch, lines(checked.tree()));
    let ptx = emit::ptx::print(&checked);
    Ok(Text { arch, ptx, lines, cubins: Vec::new(), checked: keeps.then_some(checked) })
}

/// Which span stands first on each line.
fn lines(tree: &Tree) -> Vec<(u32, Span)> {
    let mut lines: Vec<(u32, Span)> = Vec::new();
    let mut line = 1;
    for token in 0..tree.source.tokens.len() as u32 {
        line += tree.source.trivia(token).iter().filter(|b| **b == b'\n').count() as u32;
        if lines.last().is_none_or(|(last, _)| *last < line) {
            lines.push((line, tree.source.span(token)));
        }
    }
    lines
}
