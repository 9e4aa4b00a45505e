//! `ptx check`

use crate::output::Outcome;
use crate::source::Source;
use crate::{json, render};
use clap::{Args, ValueEnum};
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::isa::{Arch, Version};
use ptx_core::lower::Options;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// PTX files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// How to print what is found.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Check for this target instead of the file's: sm_90a.
    #[arg(long, value_parser = |s: &str| s.parse::<Arch>().map_err(|()| "a target such as sm_90a"))]
    target: Option<Arch>,
    /// Check for this PTX version instead of the file's: 8.7.
    #[arg(long, value_parser = |s: &str| s.parse::<Version>().map_err(|()| "a version such as 8.7"))]
    version: Option<Version>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// As rustc prints it.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sound if no file has an error.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let options = Options { arch: arguments.target, version: arguments.version };
    let mut errors = 0;
    for (at, path) in (1..).zip(&arguments.files) {
        let source = Source::read(path)?;
        let (tree, earlier) = source.parse();
        let (checked, diagnostics) = check(tree, earlier, &options);
        if at == arguments.files.len() {
            // The process ends here; to take the module apart first would cost a tenth of its time.
            std::mem::forget(checked);
        }
        errors += diagnostics.iter().filter(|d| d.is_error()).count();
        for diagnostic in &diagnostics {
            writeln!(out, "{}", print(&source, diagnostic, arguments.format))?;
        }
    }
    Ok(errors == 0)
}

fn print(source: &Source, diagnostic: &Diagnostic, format: Format) -> String {
    match format {
        Format::Text => render::text(source, diagnostic, std::io::stdout().is_terminal()),
        Format::Json => json::line(source, diagnostic),
    }
}
