//! `ptx emit`: the PTX of a kernel in a Rust source file.

use crate::check;
use crate::kernels::{self, Choices};
use crate::output::Outcome;
use ptx_core::isa::Arch;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A Rust source file with kernels.
    file: PathBuf,
    /// The kernel whose module is printed; may be left out if there is only one module.
    #[arg(long)]
    entry: Option<String>,
    /// The target, in place of those in the attributes: sm_90a.
    #[arg(long, value_parser = check::target)]
    target: Option<Arch>,
    #[command(flatten)]
    choices: Choices,
}

/// Sound if the file has no errors.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let Some(program) = kernels::compile(&arguments.file, &arguments.choices, arguments.target, out)? else {
        return Ok(false);
    };
    write!(out, "{}", kernels::ptx(&program, arguments.entry.as_deref())?)?;
    Ok(true)
}
