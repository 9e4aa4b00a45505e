//! The assembler as a process: what it is told, what it answers.

use crate::compile::{Cubin, Text};
use crate::temp_dir::TempDir;
use crate::tool;
use ptx_core::isa::Arch;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A ptxas on this machine.
pub struct Ptxas(pub PathBuf);

/// One thing that ptxas does not like.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line of the PTX, where it names one.
    pub line: Option<u32>,
    /// Its message.
    pub message: String,
}

impl Ptxas {
    /// The one of this machine.
    pub fn find() -> Option<Ptxas> {
        tool::PTXAS.find().map(Ptxas)
    }

    /// The machine code of a text for a chip: all of it, or these entries alone.
    pub fn assemble(&self, text: &Text, chip: Arch, entries: &[&str]) -> Result<Cubin, Vec<Failure>> {
        self.run(text, chip, entries).unwrap_or_else(|error| {
            Err(vec![Failure { line: None, message: format!("`{}` does not run: {error}", self.0.display()) }])
        })
    }

    fn run(&self, text: &Text, chip: Arch, entries: &[&str]) -> std::io::Result<Result<Cubin, Vec<Failure>>> {
        let folder = TempDir::new("ptx-embed")?;
        let folder = folder.path();
        std::fs::write(folder.join("kernel.ptx"), &text.ptx)?;
        let mut command = self.command(text, chip, folder);
        if !entries.is_empty() {
            command.args(["-e", &entries.join(",")]);
        }
        let output = command.output()?;
        let said = said(&output);
        Ok(if output.status.success() {
            Ok(Cubin { arch: chip, bytes: std::fs::read(folder.join("kernel.cubin"))?, log: without_times(&said) })
        } else {
            Err(failures(&said))
        })
    }

    /// In the folder and with names that are the same at every build, since machine code with line information names
    /// its source.
    fn command(&self, text: &Text, chip: Arch, folder: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.current_dir(folder).arg("-v").arg(format!("-arch={chip}"));
        if text.ptx.contains(".loc ") {
            command.arg("-lineinfo");
        }
        command.args(["kernel.ptx", "-o", "kernel.cubin"]);
        command
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// The same build gives the same log.
fn without_times(said: &str) -> String {
    said.lines().filter(|line| !line.contains("Compile time")).map(|line| line.to_owned() + "\n").collect()
}

/// `ptxas kernel.ptx, line 8; error   : Unknown modifier '.globl'`; the closing summary only where nothing else is said.
pub fn failures(said: &str) -> Vec<Failure> {
    let all: Vec<Failure> = said.lines().filter_map(failure).collect();
    let (named, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|failure| failure.line.is_some());
    match (named.is_empty(), rest.is_empty()) {
        (false, _) => named,
        (true, false) => rest,
        (true, true) => vec![Failure { line: None, message: said.trim().to_owned() }],
    }
}

fn failure(line: &str) -> Option<Failure> {
    let (before, message) = line.split_once(" : ")?;
    let is_error = ["error", "fatal"].iter().any(|word| before.trim_end().ends_with(word));
    let at = before.split_once(", line ").and_then(|(_, after)| after.split(';').next()?.parse().ok());
    is_error.then(|| Failure { line: at, message: message.trim().to_owned() })
}
