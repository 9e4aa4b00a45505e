//! `ptx check`

use crate::source::Source;
use crate::{json, render, usage};
use clap::{Args, ValueEnum};
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::isa::{Arch, Version};
use ptx_core::lower::Options;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

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

/// Exit 0 without errors, 1 with errors, 2 for a file that cannot be read.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let options = Options { arch: arguments.target, version: arguments.version };
    let mut errors = 0;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for path in &arguments.files {
        let source = match Source::read(path) {
            Ok(source) => source,
            Err(why) => return usage(&why),
        };
        let (tree, earlier) = source.parse();
        let (_, diagnostics) = check(tree, earlier, &options);
        errors += diagnostics.iter().filter(|d| d.is_error()).count();
        for diagnostic in &diagnostics {
            if writeln!(out, "{}", print(&source, diagnostic, arguments.format)).is_err() {
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::from(u8::from(errors > 0))
}

fn print(source: &Source, diagnostic: &Diagnostic, format: Format) -> String {
    match format {
        Format::Text => render::text(source, diagnostic, std::io::stdout().is_terminal()),
        Format::Json => json::line(source, diagnostic),
    }
}
