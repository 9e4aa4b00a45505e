//! The `ptx` command: arguments to calls of `ptx-core`, findings to text. One file a command; nothing here depends on PTX.

#![deny(unsafe_code)]

mod bench;
mod check;
mod completions;
mod debug;
mod diff;
mod emit;
mod explain;
mod files;
mod fmt;
mod gpu;
mod info;
mod isa;
mod json;
mod kernels;
mod launch;
mod library;
mod limited;
mod lsp;
mod memory;
mod new;
mod origin;
mod output;
mod profile;
mod prove;
mod ptxas;
mod render;
mod roundtrip;
mod rpc;
mod run;
mod sass;
mod source;
mod transpile;
mod warm;
mod write;

use clap::{CommandFactory, Parser, Subcommand};
use output::Outcome;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Check, inspect and run PTX.
#[derive(Parser)]
#[command(name = "ptx", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure a kernel on a GPU: events, warm-up, a cold cache, the median.
    Bench(bench::Arguments),
    /// Report every error of PTX files, as ptxas would find it and more, and of kernels in `.rs` files.
    Check(check::Arguments),
    /// Print the completions of a shell.
    Completions(completions::Arguments),
    /// Serve an editor's debugger: the Debug Adapter Protocol over standard input and output, on the CPU device.
    Debug(debug::Arguments),
    /// Compare two files, names and layout aside.
    Diff(diff::Arguments),
    /// Print the PTX of a kernel in a Rust source file.
    Emit(emit::Arguments),
    /// Explain a diagnostic: what it means, a wrong example, the right one.
    Explain(explain::Arguments),
    /// Lay files out canonically; only blanks and line ends change.
    Fmt(fmt::Arguments),
    /// Show entries, parameters, registers, memory, targets and instruction mix.
    Info(info::Arguments),
    /// Show the forms of an instruction, a special register or a directive.
    Isa(isa::Arguments),
    /// Show the helper library of the kernel language.
    Library(library::Arguments),
    /// Serve an editor: the Language Server Protocol over standard input and output.
    Lsp(lsp::Arguments),
    /// Print a page of the manual, for `man -l -`.
    Man(completions::ManArguments),
    /// Make a crate with a kernel and its tests.
    New(new::Arguments),
    /// Count what a kernel requires of a GPU, line by line, without a GPU.
    Profile(profile::Arguments),
    /// Decide for all launches at once: bounds, alignment, races and barriers.
    ///
    /// The exit status is 0 if all is proved, 1 if something is refuted, and 2 if something is unknown and nothing refuted.
    Prove(prove::Arguments),
    /// Parse and print files, and compare byte for byte.
    Roundtrip(roundtrip::Arguments),
    /// Run a kernel on the CPU device, or on a GPU.
    Run(run::Arguments),
    /// Show machine code beside PTX and Rust, with its schedule; needs ptxas and nvdisasm.
    Sass(sass::Arguments),
    /// Write a PTX file as Rust, and prove that it is the same.
    Transpile(transpile::Arguments),
    /// Assemble the kernels of files on a GPU into the cache on disk, so that the first launch of a program assembles nothing.
    Warm(warm::Arguments),
}

fn main() -> ExitCode {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let outcome = dispatch(&Arguments::parse().command, &mut out).and_then(|sound| {
        out.flush()?;
        Ok(sound)
    });
    output::exit_code(outcome)
}

/// `Ok(true)`: all is well. `Ok(false)`: the input is at fault.
fn dispatch(command: &Command, out: &mut dyn Write) -> Outcome {
    match command {
        Command::Bench(arguments) => bench::run(arguments, out),
        Command::Check(arguments) => check::run(arguments, out),
        Command::Completions(arguments) => completions::run(arguments, Arguments::command(), out),
        Command::Debug(arguments) => debug::run(arguments, out),
        Command::Diff(arguments) => diff::run(arguments, out),
        Command::Emit(arguments) => emit::run(arguments, out),
        Command::Explain(arguments) => explain::run(arguments, out),
        Command::Fmt(arguments) => fmt::run(arguments, out),
        Command::Info(arguments) => info::run(arguments, out),
        Command::Isa(arguments) => isa::run(arguments, out),
        Command::Library(arguments) => library::run(arguments, out),
        Command::Lsp(arguments) => lsp::run(arguments, out),
        Command::Man(arguments) => completions::man(arguments, Arguments::command(), out),
        Command::New(arguments) => new::run(arguments, out),
        Command::Profile(arguments) => profile::run(arguments, out),
        Command::Prove(arguments) => prove::run(arguments, out),
        Command::Roundtrip(arguments) => roundtrip::run(arguments, out),
        Command::Run(arguments) => run::run(arguments, out),
        Command::Sass(arguments) => sass::run(arguments, out),
        Command::Transpile(arguments) => limited::run_in_child().unwrap_or_else(|| transpile::run(arguments, out)),
        Command::Warm(arguments) => warm::run(arguments, out),
    }
}
