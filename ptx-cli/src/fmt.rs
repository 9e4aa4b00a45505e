//! `ptx fmt`

use crate::files;
use crate::output::{Failure, Outcome};
use crate::render;
use crate::source::Source;
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
    for path in files::expand(&arguments.paths)? {
        let source = Source::read(&path)?;
        let (tree, errors) = source.parse();
        for error in &errors {
            writeln!(out, "{}", render::text(&source, error, std::io::stdout().is_terminal()))?;
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
            std::fs::write(&path, formatted).map_err(|e| Failure::usage(format!("{}: {e}", source.name)))?;
        }
    }
    Ok(sound)
}
