//! Files of the kernel language: Rust source whose kernels are compiled without a Cargo project.

use crate::output::Failure;
use crate::source::{Source, read_bytes};
use clap::Args;
use ptx_core::isa::Arch;
use ptx_jit::Program;
use ptx_jit::describe::{Kernel, Module, Text};
use std::io::Write;
use std::path::Path;

/// Choices for a file of the kernel language.
#[derive(Args)]
pub(crate) struct Choices {
    /// The argument of a generic parameter, for a `.rs` file: BLOCK_M=128, T=bf16. May be given several times.
    #[arg(long = "with", value_name = "NAME=ARGUMENT", value_parser = choice)]
    with: Vec<(String, String)>,
}

impl Choices {
    /// Returns true if a file has the kernel language, and false if it has PTX, which has no generic parameters.
    pub(crate) fn apply_to(&self, path: &Path) -> Result<bool, Failure> {
        match (is_source(path), self.with.first()) {
            (false, Some((name, _))) => {
                let text = format!("`--with {name}=…` is for Rust files: {} has no generic parameters", path.display());
                Err(Failure::usage(text))
            }
            (is_source, _) => Ok(is_source),
        }
    }

    /// The options that repeat them on a command line.
    pub(crate) fn words(&self) -> String {
        self.with
            .iter()
            .map(|(name, argument)| format!(" --with {}", shell_word(&format!("{name}={argument}"))))
            .collect()
    }
}

/// A word of a command line, in quotes where a shell would read it as something else.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./=,:+@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn choice(text: &str) -> Result<(String, String), String> {
    let (name, argument) = text.split_once('=').ok_or("a generic parameter and its argument, such as BLOCK_M=128")?;
    Ok((name.trim().to_owned(), argument.trim().to_owned()))
}

/// Returns true if a file has the kernel language and not PTX.
pub(crate) fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// A file with these choices, for a target in place of those of its attributes.
pub(crate) fn source(path: &Path, choices: &Choices, target: Option<Arch>) -> Result<ptx_jit::Source, Failure> {
    let source = ptx_jit::Source::file(path).map_err(|error| Failure::usage(error.to_string()))?;
    let source = choices.with.iter().fold(source, |source, (name, argument)| source.with(name, argument));
    Ok(match target {
        Some(target) => source.target(target.to_string()),
        None => source,
    })
}

/// Compiles a file; `None` if it has errors, which are printed.
pub(crate) fn compile(
    path: &Path,
    choices: &Choices,
    target: Option<Arch>,
    out: &mut dyn Write,
) -> Result<Option<Program>, Failure> {
    // `ptx check` and `ptx prove` prove kernels; others run them on the CPU device or print them.
    match source(path, choices, target)?.without_proofs().compile() {
        Ok(program) => Ok(Some(program)),
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(None)
        }
    }
}

/// The module that has an entry: a kernel's name in the source, or in the PTX. Without a name, the only module.
pub(crate) fn module<'a>(program: &'a Program, entry: Option<&str>) -> Result<&'a Module, Failure> {
    let modules = program.modules();
    let has = |module: &&Module| {
        entry.is_none_or(|entry| module.kernels.iter().any(|kernel| kernel.name == entry || kernel.entry == entry))
    };
    let mut found = modules.iter().filter(has);
    match (found.next(), found.next()) {
        (Some(module), None) => Ok(module),
        (Some(_), Some(_)) => Err(Failure::usage(format!("choose one with `--entry`: {}", names(program)))),
        (None, _) if modules.is_empty() => Err(Failure::usage("there is no `#[ptx_kernel]` in this file")),
        (None, _) => Err(Failure::usage(format!("there is no such kernel; the file has {}", names(program)))),
    }
}

fn names(program: &Program) -> String {
    program.kernels().map(|kernel| format!("`{}`", kernel.entry)).collect::<Vec<_>>().join(", ")
}

/// The kernel of a module that is launched: the one of this name, or the only one.
pub(crate) fn find_kernel<'m>(module: &'m Module, entry: Option<&str>) -> Option<&'m Kernel> {
    let is = |kernel: &&Kernel| entry.is_none_or(|entry| kernel.entry == entry || kernel.name == entry);
    let mut found = module.kernels.iter().filter(is);
    found.next().filter(|_| found.next().is_none())
}

/// The PTX of the module that has an entry, for the first of its targets.
pub(crate) fn ptx<'a>(program: &'a Program, entry: Option<&str>) -> Result<&'a str, Failure> {
    Ok(module(program, entry)?.texts.first().map(|text| text.ptx.as_str()).unwrap_or_default())
}

/// The PTX of a file, as a file of PTX; `None` if it has errors, which are printed.
pub(crate) fn as_ptx(
    path: &Path,
    entry: Option<&str>,
    choices: &Choices,
    out: &mut dyn Write,
) -> Result<Option<Source>, Failure> {
    let Some(program) = compile(path, choices, None, out)? else { return Ok(None) };
    let module = module(&program, entry)?;
    let kernel = find_kernel(module, entry).cloned();
    module.texts.first().map(|text| with_origin(path, text, kernel)).transpose()
}

/// The PTX of a Rust file, with the lines that made it.
pub(crate) fn with_origin(path: &Path, text: &Text, kernel: Option<Kernel>) -> Result<Source, Failure> {
    let name = path.display().to_string();
    let written = read_bytes(path, "this has more than 1 GiB, which no source has")?;
    let mut source = Source::new(name.clone(), text.ptx.as_bytes().to_vec());
    source.rust = text.lines.clone();
    source.rust.sort_unstable();
    (source.written, source.kernel) = (Some(Box::new(Source::new(name, written))), kernel);
    Ok(source)
}
