//! `ptx info`: what a module holds and needs.

use crate::output::Outcome;
use crate::source::Source;
use ptx_core::check::{check, minimum_version};
use ptx_core::ir::{Function, Module, Param, Space, VarId, Variable};
use ptx_core::isa::{Arch, Toolkit, Version, table};
use ptx_core::lower::{Options, lower};
use ptx_core::syntax::{StmtKind, Tree};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A PTX file.
    file: PathBuf,
}

/// Sound if the file has no errors; what can be said is said even so.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let source = Source::read(&arguments.file)?;
    let (tree, earlier) = source.parse();
    let (module, _) = lower(&tree, &Options::default());
    writeln!(out, "{}: {}", source.name, header(&tree))?;
    let errors = check(tree.clone(), earlier, &Options::default()).1.iter().filter(|d| d.is_error()).count();
    needs(&source, (&tree, &module), errors, out)?;
    let owned: HashSet<VarId> = module.functions.iter().flat_map(owned).collect();
    let common = (0u32..).map(VarId).zip(&module.variables).filter(|(id, _)| !owned.contains(id));
    let common: Vec<&Variable> = common.map(|(_, v)| v).collect();
    memory(&common, out)?;
    for f in module.functions.iter().filter(|f| f.defined) {
        function(f, &module, out)?;
    }
    Ok(errors == 0)
}

/// `PTX 8.0, sm_80, 64-bit addresses`: the words of the file, because a module without them has assumed ones.
fn header(tree: &Tree) -> String {
    let parts = [(".version", "PTX ", ""), (".target", "", ""), (".address_size", "", "-bit addresses")];
    let words = parts.map(|(name, before, behind)| match arguments_of(tree, name) {
        Some(words) => format!("{before}{words}{behind}"),
        None => format!("no `{name}`"),
    });
    words.join(", ")
}

/// The arguments of the first directive of this name.
fn arguments_of(tree: &Tree, name: &str) -> Option<String> {
    let directive = tree.items.iter().find_map(|id| match &tree.stmt(*id).kind {
        StmtKind::Directive(found) if tree.source.text(found.name) == name => Some(found),
        _ => None,
    })?;
    let words = tree.list(&directive.args).iter().map(|word| tree.compact(&tree.expr(*word).tokens));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// The versions and targets that take the module.
fn needs(source: &Source, (tree, module): (&Tree, &Module), errors: usize, out: &mut dyn Write) -> io::Result<()> {
    if errors > 0 {
        return line(out, "errors", &format!("{errors}: `ptx check` shows them"));
    }
    let version = minimum_version(tree, module);
    line(out, "needs", &format!("PTX {version} on {}", module.arch))?;
    // A driver reads the words of the file, not what would be enough.
    let written = arguments_of(tree, ".version").and_then(|words| words.parse::<Version>().ok());
    let toolkit = Toolkit::first_with(written.unwrap_or(version));
    line(out, "driver", &toolkit.map(|toolkit| format!("{toolkit} or newer")).unwrap_or_default())?;
    let targets: Vec<String> = targets(source).iter().map(Arch::to_string).collect();
    line(out, "targets", &targets.join(" "))
}

/// The targets that take the module as it is, in its own PTX version.
fn targets(source: &Source) -> Vec<Arch> {
    let takes = |arch: &Arch| {
        let (tree, earlier) = source.parse();
        check(tree, earlier, &Options { arch: Some(*arch), ..Options::default() }).0.is_some()
    };
    table().targets.iter().filter(|t| t.assembled).map(|t| t.arch).filter(takes).collect()
}

fn function(function: &Function, module: &Module, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n.{} {}", if function.entry { "entry" } else { "func" }, function.name)?;
    for limit in &function.limits {
        let values: Vec<String> = limit.values.iter().map(u64::to_string).collect();
        line(out, &format!(".{}", limit.name), &values.join(", "))?;
    }
    for param in function.params.iter().filter_map(|p| variable(module, *p)) {
        line(out, "parameter", &declaration(param))?;
    }
    let registers = counted(function.registers.iter().map(|r| format!(".{}", r.ty.name())));
    line(out, "registers", &registers)?;
    let variables = function.variables.iter().filter_map(|id| module.variables.get(id.index()));
    memory(&variables.filter(|v| v.space != Space::Param).collect::<Vec<_>>(), out)?;
    let names = function.insts.iter().map(|i| i.row.map_or("unknown", |r| r.name).to_owned());
    line(out, "instructions", &format!("{}: {}", function.insts.len(), counted(names)))
}

/// The variables of a function: its parameters and those of its body.
fn owned(function: &Function) -> impl Iterator<Item = VarId> {
    let params = function.params.iter().chain(&function.returns).filter_map(|p| match p {
        Param::Var(id) => Some(*id),
        Param::Reg(_) => None,
    });
    params.chain(function.variables.iter().copied())
}

fn variable(module: &Module, param: Param) -> Option<&Variable> {
    match param {
        Param::Var(id) => module.variables.get(id.index()),
        Param::Reg(_) => None,
    }
}

/// One line a state space: its bytes and its variables.
fn memory(variables: &[&Variable], out: &mut dyn Write) -> io::Result<()> {
    let spaces = [
        (Space::Shared, "shared"),
        (Space::Global, "global"),
        (Space::Const, "constant"),
        (Space::Local, "local"),
        (Space::Opaque, "opaque"),
    ];
    for (space, title) in spaces {
        let here: Vec<&&Variable> = variables.iter().filter(|v| v.space == space).collect();
        let bytes: u64 = here.iter().map(|v| v.size).fold(0, u64::saturating_add);
        let dynamic = if here.iter().any(|v| v.dims.contains(&0)) { " and what the launch adds" } else { "" };
        let names: Vec<String> = here.iter().map(|v| declaration(v)).collect();
        if !here.is_empty() {
            line(out, title, &format!("{bytes} bytes{dynamic}: {}", names.join(", ")))?;
        }
    }
    Ok(())
}

/// `.b8 tile[4][64]`
fn declaration(variable: &Variable) -> String {
    let dims: String = variable.dims.iter().map(|n| if *n == 0 { "[]".to_owned() } else { format!("[{n}]") }).collect();
    let vector = if variable.vector > 1 { format!(".v{} ", variable.vector) } else { String::new() };
    format!("{vector}.{} {}{dims}", variable.ty.name(), variable.name)
}

/// `12 ld, 3 st`: the most frequent first.
fn counted(words: impl Iterator<Item = String>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    words.for_each(|word| *counts.entry(word).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

fn line(out: &mut dyn Write, title: &str, text: &str) -> io::Result<()> {
    if text.is_empty() { Ok(()) } else { writeln!(out, "    {title:<13} {text}") }
}
