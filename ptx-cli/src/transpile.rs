//! `ptx transpile`: Rust from PTX, and on every run the proof that it is the same: the Rust is expanded as a build would
//! do it, and its PTX compared with the input. Of several files, or of folders, the proof is all there is: a line each.

mod assembler;
mod proof;
mod summary;

use crate::output::{Failure, Outcome};
use crate::source::Source;
use crate::{files, render, write};
use proof::Proof;
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::emit::rust;
use ptx_core::lower::Options;
use ptx_transpile::prove::{Proved, prove};
use ptx_transpile::{PASSES, Without, is_module_name, module_name};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// PTX files, and folders of them. One file: its Rust is written. Several: each is proved, and nothing written.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The name of the Rust module; without it, the file's.
    #[arg(long, value_parser = valid_name)]
    name: Option<String>,
    /// Path for the Rust of one file; default: standard output.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Raise the code to what a person would have written, as far as that can be proved.
    #[arg(long)]
    sugar: bool,
    /// Leave out a pass of the sugar: labels, params, waits, flow, arrays, constants,
    /// operators, expressions, names, repeats, islands, addresses, lets.
    #[arg(long = "no", value_name = "PASS", value_parser = pass_name)]
    no: Vec<String>,
    /// Assemble both with ptxas and compare the machine code.
    #[arg(long)]
    verify: bool,
}

/// The name of a module as Rust takes it.
fn valid_name(name: &str) -> Result<String, String> {
    match (is_module_name(name), is_module_name(&format!("r#{name}"))) {
        (true, _) => Ok(name.to_owned()),
        (_, true) => Err(format!("`{name}` is a keyword of Rust; `r#{name}` is a name")),
        _ => Err("a Rust module has a name such as my_kernels".to_owned()),
    }
}

/// A pass by its name.
fn pass_name(name: &str) -> Result<String, String> {
    let names: Vec<&str> = PASSES.iter().map(|(name, _)| *name).collect();
    if names.contains(&name) { Ok(name.to_owned()) } else { Err(format!("the passes are {}", names.join(", "))) }
}

/// Sound if every file that has no error is proved.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let paths = files::expand(&arguments.paths)?;
    match paths.as_slice() {
        [path] => one(arguments, path, out),
        paths if arguments.output.is_some() => {
            let text = format!("`--output` takes the Rust of one file; there are {}", paths.len());
            Err(Failure::usage(text))
        }
        paths => summary::run(arguments, paths, out),
    }
}

fn one(arguments: &Arguments, path: &Path, out: &mut dyn Write) -> Outcome {
    if let Some(output) = arguments.output.as_ref().filter(|output| write::is_same_file(output, path)) {
        let text = format!("{}: this is the input, which `--output` would replace with its Rust", output.display());
        return Err(Failure::usage(text));
    }
    let source = Source::read(path)?;
    let Some(made) = transpile(arguments, path, &source)? else { return Ok(false) };
    match &arguments.output {
        Some(path) => write::replace(path, made.rust.as_bytes())?,
        None => out.write_all(made.rust.as_bytes())?,
    }
    let _ = writeln!(std::io::stderr(), "{}", made.report(&source));
    Ok(made.proof.holds())
}

/// A file as Rust.
struct Made {
    rust: String,
    rewritten: Vec<rust::Rewrite>,
    proof: Proof,
    /// The raised module, or the reason that there is none, if sugar was requested.
    sugar: Option<Result<Proved, String>>,
}

impl Made {
    fn report(&self, source: &Source) -> String {
        let mut lines = vec![format!("{}: {}", source.name, self.proof)];
        let mut told: Vec<rust::Reason> = Vec::new();
        for rewrite in &self.rewritten {
            if !told.contains(&rewrite.reason) {
                told.push(rewrite.reason);
                let times = self.rewritten.iter().filter(|r| r.reason == rewrite.reason).count();
                let (at, reason) = (source.position(rewrite.at), rewrite.reason);
                lines.push(format!("{}:{}:{}: rewritten, {times} in all: {reason}", source.name, at.line, at.column));
            }
        }
        match &self.sugar {
            None => {}
            Some(Err(why)) => lines.push(format!("{}: not raised: {why}", source.name)),
            Some(Ok(proved)) => {
                if proved.input.is_some() {
                    lines.push("  compared without debug information, with which ptxas does not optimize".to_owned());
                }
                for (kernel, back) in proved.kernels.iter().zip(&proved.taken_back) {
                    let applied: Vec<String> =
                        kernel.applied.iter().filter(|(_, n)| *n > 0).map(|(pass, n)| format!("{pass} {n}")).collect();
                    if !applied.is_empty() || !back.is_empty() {
                        lines.push(format!("  {}: {}", kernel.name, applied.join(", ")));
                    }
                    lines.extend(back.iter().map(|(pass, why)| format!("    without {pass}: {why}")));
                }
            }
        }
        lines.join("\n")
    }
}

/// `None` if the file has errors; they are reported.
fn transpile(arguments: &Arguments, path: &Path, source: &Source) -> Result<Option<Made>, Failure> {
    let (tree, earlier) = source.parse();
    let (checked, diagnostics) = check(tree, earlier, &Options::default());
    let Some(checked) = checked else {
        let errors: Vec<Diagnostic> = diagnostics.into_iter().filter(Diagnostic::is_error).collect();
        let color = std::io::stderr().is_terminal();
        let _ = render::refusal(&mut std::io::stderr(), source, &errors, color);
        return Ok(None);
    };
    let name =
        arguments.name.clone().unwrap_or_else(|| module_name(&path.file_stem().unwrap_or_default().to_string_lossy()));
    let without: Without =
        PASSES.iter().map(|(pass, _)| *pass).filter(|p| arguments.no.iter().any(|n| n == p)).collect();
    let plain = || {
        let plain = rust::plain(checked.tree(), &name);
        let proof = Proof::of(&source.bytes, &plain.text, true);
        Made { rust: plain.text, rewritten: plain.rewritten, proof, sugar: None }
    };
    let verified = |mut made: Made| -> Result<Made, Failure> {
        if arguments.verify {
            let without_debug = made.sugar.as_ref().and_then(|s| s.as_ref().ok()?.input.as_deref());
            made.proof.assemble(without_debug.unwrap_or(&source.bytes), checked.module().arch)?;
        }
        Ok(made)
    };
    if !arguments.sugar {
        return verified(plain()).map(Some);
    }
    // Without ptxas at hand everything stays that it looks at: labels that nothing jumps to, in few cases the order of
    // names, and a label in front of the loads of parameters.
    const KEPT: [&[&str]; 4] = [&[], &["labels"], &["labels", "names"], &["labels", "params"]];
    let kept = if arguments.verify { KEPT.as_slice() } else { &KEPT[1..2] };
    let mut why = String::new();
    for kept in kept {
        match prove(checked.tree(), &name, &without.iter().chain(*kept).copied().collect(), &proof::expand) {
            Ok(proved) => {
                let proof = Proof::known(&source.bytes, &proved.ptx);
                let rust = proved.text.clone();
                let made = verified(Made { rust, rewritten: Vec::new(), proof, sugar: Some(Ok(proved)) })?;
                if made.proof.holds() {
                    return Ok(Some(made));
                }
                why = match &made.proof.machine_code {
                    Some(Err(error)) => format!("ptxas refuses it: {}", error.lines().next().unwrap_or_default()),
                    _ => "the machine code is another".to_owned(),
                };
            }
            Err(error) => why = error,
        }
    }
    verified(Made { sugar: Some(Err(why)), ..plain() }).map(Some)
}
