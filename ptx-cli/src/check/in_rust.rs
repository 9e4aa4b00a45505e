//! Findings in the kernels of a Rust source file, and the chips that run them.

use super::{Arguments, Format};
use crate::output::{Failure, Outcome, count};
use crate::{json, kernels};
use ptx_core::diag::codes;
use ptx_core::isa::Arch;
use ptx_jit::Source;
use ptx_jit::describe::{Module, Problem};
use std::io::Write;
use std::path::Path;

/// Sound if the file has no error.
pub(super) fn check(path: &Path, arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    if arguments.version.is_some() {
        let message = "`--version` is for PTX files\nhelp: write `version = \"8.7\"` in the attribute of a kernel";
        return Err(Failure::usage(message));
    }
    let source = kernels::source(path, &arguments.kernels, arguments.target)?;
    let mut found = match source.compile() {
        Ok(program) => {
            let elsewhere = program.modules().iter().filter_map(|module| other_chip(module, arguments.chip?));
            let unknown = program.kernels().filter_map(|kernel| kernel.launch.as_ref().err().map(unevaluated));
            elsewhere.chain(program.warnings().iter().cloned()).chain(unknown).collect()
        }
        Err(error) => error.problems().to_vec(),
    };
    found.retain(|problem| !problem.is_warning || !arguments.allow.contains(&problem.code));
    match arguments.format {
        Format::Text => text(&source, &found, arguments.most, out)?,
        Format::Json => {
            let name = path.display().to_string();
            found.iter().try_for_each(|problem| writeln!(out, "{}", json::problem(&name, problem)))?;
        }
    }
    Ok(found.iter().all(|problem| problem.is_warning))
}

/// The warning about an attribute that a build compiles, and that a launch of the text cannot evaluate.
fn unevaluated(problem: &Problem) -> Problem {
    let message = format!("only a build can launch this: {}", problem.message);
    Problem { is_warning: true, message, ..problem.clone() }
}

/// The error of a module that has no text for a chip.
fn other_chip(module: &Module, chip: Arch) -> Option<Problem> {
    let targets: Vec<Arch> = module.texts.iter().filter_map(|text| text.target.parse().ok()).collect();
    if targets.is_empty() || targets.iter().any(|target| target.assembles_for(chip)) {
        return None;
    }
    let names =
        |all: &[Arch], mark: &str| all.iter().map(|arch| format!("{mark}{arch}{mark}")).collect::<Vec<_>>().join(", ");
    let more = [&targets[..], &[chip]].concat();
    Some(Problem {
        is_warning: false,
        code: codes::P0401.id,
        message: format!("`{}` has no PTX that {chip} runs: it is for {}", module.name, names(&targets, "")),
        start: (0, 0),
        end: (0, 0),
        help: vec![format!("add the target to its attribute, `arch({})`, or use another chip", names(&more, "\""))],
        section: Some("11.1.2"),
    })
}

fn text(source: &Source, found: &[Problem], most: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let most = if most == 0 { usize::MAX } else { most };
    for problem in found.iter().take(most) {
        writeln!(out, "{}\n", source.shown(problem))?;
    }
    match found.len().saturating_sub(most) {
        0 => Ok(()),
        hidden => writeln!(out, "{}: and {} more", source.name(), count(hidden, "finding")),
    }
}
