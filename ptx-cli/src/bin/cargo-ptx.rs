//! `cargo ptx …` runs the `ptx …` that is installed beside it: GNU's coreutils have a `ptx`, too.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    // Cargo passes the name of the subcommand first.
    args.next_if(|word| word == "ptx");
    let beside =
        std::env::current_exe().map(|path| path.with_file_name("ptx").with_extension(std::env::consts::EXE_EXTENSION));
    match beside.and_then(|ptx| Command::new(ptx).args(args).status()) {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(why) => {
            eprintln!("error: `ptx`, which is installed beside `cargo-ptx`, cannot be run: {why}");
            ExitCode::FAILURE
        }
    }
}
