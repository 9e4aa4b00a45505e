//! `ptx completions` and `ptx man`: texts that clap makes of the arguments.

use crate::output::{Failure, Outcome};
use clap::Command;
use clap_complete::Shell;
use std::io::Write;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell. For bash: `ptx completions bash > ~/.local/share/bash-completion/completions/ptx`.
    shell: Shell,
}

/// Always sound.
pub(crate) fn run(arguments: &Arguments, mut command: Command, out: &mut dyn Write) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "ptx", &mut text);
    out.write_all(&text)?;
    Ok(true)
}

#[derive(clap::Args)]
pub(crate) struct ManArguments {
    /// The page of one command, such as `check`; without it, that of `ptx`.
    command: Option<String>,
}

/// Always sound.
pub(crate) fn man(arguments: &ManArguments, mut command: Command, out: &mut dyn Write) -> Outcome {
    // It gives the commands their names: `ptx-check`.
    command.build();
    let page = match &arguments.command {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            let unknown = || Failure::usage(format!("there is no command `{name}`\nhelp: `ptx --help` lists them"));
            found.ok_or_else(unknown)?.version(env!("CARGO_PKG_VERSION"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    out.write_all(&text)?;
    Ok(true)
}
