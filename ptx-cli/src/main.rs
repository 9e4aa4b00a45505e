//! The `ptx` command: arguments to calls of `ptx-core`, diagnostics to text. Nothing here knows PTX.

mod check;
mod json;
mod render;
mod source;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Check, format, transpile and run PTX.
#[derive(Parser)]
#[command(name = "ptx", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Report every error of PTX files, as ptxas would find it and more.
    Check(check::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Check(arguments) => check::run(&arguments),
    }
}

/// Exit 2: bad usage, or a file that cannot be read.
fn usage(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(2)
}
