//! `ptx fmt`

use crate::files;
use crate::output::Outcome;
use crate::source::Source;
use crate::{render, write};
use ptx_core::diag::Diagnostic;
use ptx_core::emit::fmt::format;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// PTX files, and folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Change nothing; name the files that would change.
    #[arg(long)]
    check: bool,
}

/// Sound if every file could be laid out; with `--check`, if none would change.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let mut sound = true;
    for found in files::find(&arguments.paths)? {
        let source = Source::read(&found.path)?;
        let (tree, mut errors) = source.parse();
        // `ptx check` has the warnings.
        errors.retain(Diagnostic::is_error);
        if !errors.is_empty() {
            render::refusal(out, &source, &errors, std::io::stdout().is_terminal())?;
        }
        sound &= errors.is_empty();
        let formatted = format(&tree);
        if !errors.is_empty() || formatted == source.bytes {
            continue;
        }
        if arguments.check {
            writeln!(out, "{}", source.name)?;
            sound = false;
        } else {
            write::replace_found(&found, &formatted)?;
        }
    }
    Ok(sound)
}
