//! `ptx check`

mod in_rust;

use crate::output::Outcome;
use crate::source::Source;
use crate::{files, json, kernels, render};
use clap::{Args, ValueEnum};
use ptx_core::check::check;
use ptx_core::diag::codes;
use ptx_core::diag::near::nearest;
use ptx_core::isa::{Arch, TargetInfo, Version, table};
use ptx_core::lower::Options;
use ptx_interp::chip::Chip;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// PTX files, folders of them, and Rust source files with kernels.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Format of the findings.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Check for this target instead of the file's: sm_90a.
    #[arg(long, value_parser = target)]
    target: Option<Arch>,
    /// Check for this PTX version instead of the file's: 8.7.
    #[arg(long, value_parser = |s: &str| s.parse::<Version>().map_err(|()| "a version such as 8.7"))]
    version: Option<Version>,
    /// The chip that the modules will be assembled for, as `ptxas -arch` takes it: sm_100; or its name: H100.
    #[arg(long, value_parser = chip)]
    chip: Option<Arch>,
    /// The modules will be linked to others, as after `ptxas -c`: what is `.extern` may be defined there.
    #[arg(long)]
    relocatable: bool,
    /// Warnings that are not reported, by their codes: P0701. An error is reported in any case. A comment in the PTX does so for a line, a
    /// statement or a function: `// ptx: allow(P0701)`.
    #[arg(long, short = 'A', value_name = "CODE", value_parser = warning)]
    allow: Vec<&'static str>,
    /// Findings of each file to print as text, errors before warnings; 0 prints all.
    #[arg(long, default_value_t = render::MOST)]
    most: usize,
    #[command(flatten)]
    kernels: kernels::Choices,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// As rustc prints it.
    Text,
    /// One JSON object a line, all of them.
    Json,
}

/// A target of the table.
pub(crate) fn target(text: &str) -> Result<Arch, String> {
    let arch = text.parse::<Arch>().map_err(|()| unknown(text))?;
    match nearest_target(arch, |_| true) {
        Some(near) if near != arch => Err(format!("there is no target `{arch}`; did you mean `{near}`?")),
        _ => Ok(arch),
    }
}

/// The message for a text that names no target.
fn unknown(text: &str) -> String {
    let names: Vec<String> = table().targets.iter().map(|target| target.arch.to_string()).collect();
    match (Chip::find(text), nearest(text, names.iter().map(String::as_str))) {
        (Some(chip), _) => format!("a target such as sm_90a; that of the {} is `{}`", chip.name, chip.arch()),
        (None, Some(near)) => format!("there is no target `{text}`; did you mean `{near}`?"),
        (None, None) => format!("there is no target `{text}`; those of chips are {}", Chip::names()),
    }
}

/// A target of the table that ptxas still assembles for, or the name of a chip.
fn chip(text: &str) -> Result<Arch, String> {
    let chip = Chip::find(text).map_or_else(|| target(text), |chip| Ok(chip.arch()))?;
    match nearest_target(chip, |target| target.assembled) {
        Some(near) if near != chip => {
            Err(format!("ptxas 13 has no target `{chip}`; the nearest is `{near}`{}", older_toolkit(chip)))
        }
        _ => Ok(chip),
    }
}

/// The toolkit that still assembles for a chip, and the driver that loads the PTX.
fn older_toolkit(chip: Arch) -> &'static str {
    match chip.number {
        50..75 => ". CUDA 12.9 and its drivers, up to branch 580, are the last for this chip",
        35..50 => ". CUDA 11.8 and its drivers, up to branch 470 for this chip, are the last",
        30..35 => ". CUDA 10.2 and its drivers, up to branch 470 for this chip, are the last",
        20..30 => ". CUDA 8.0 and its drivers, up to branch 390 for this chip, are the last",
        _ => "",
    }
}

/// The nearest target with the same suffix, of those that count: itself, if it is one of them.
fn nearest_target(arch: Arch, counts: fn(&TargetInfo) -> bool) -> Option<Arch> {
    let all = table().targets.iter().filter(|target| counts(target)).map(|target| target.arch);
    all.filter(|known| known.suffix == arch.suffix).min_by_key(|known| known.number.abs_diff(arch.number))
}

/// The code of a diagnostic.
fn warning(text: &str) -> Result<&'static str, String> {
    let found = codes::find(text).map(|code| code.id);
    found.ok_or_else(|| match nearest(text, codes::ALL.iter().map(|code| code.id)) {
        Some(near) => format!("there is no warning `{text}`; did you mean `{near}`?"),
        None => format!("there is no warning `{text}`"),
    })
}

/// Sound if no file has an error.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let &Arguments { target: arch, version, chip, relocatable, .. } = arguments;
    let options = Options { arch, version, chip, relocatable, repeats: false };
    let mut sound = true;
    let paths = files::expand(&arguments.paths)?;
    for (at, path) in (1..).zip(&paths) {
        let is_source = if paths.len() == 1 { arguments.kernels.apply_to(path)? } else { kernels::is_source(path) };
        if is_source {
            sound &= in_rust::check(path, arguments, out)?;
            continue;
        }
        let source = Source::read(path)?;
        let (tree, earlier) = source.parse();
        let (checked, mut diagnostics) = check(tree, earlier, &options);
        diagnostics.retain(|found| found.is_error() || !arguments.allow.contains(&found.code.id));
        sound &= checked.is_some();
        if at == paths.len() {
            // The process ends here; to take the module apart first would cost a tenth of its time.
            std::mem::forget(checked);
        }
        match arguments.format {
            Format::Text => {
                render::all(out, &source, &diagnostics, arguments.most, std::io::stdout().is_terminal())?;
            }
            Format::Json => diagnostics.iter().try_for_each(|d| writeln!(out, "{}", json::line(&source, d)))?,
        }
    }
    Ok(sound)
}
