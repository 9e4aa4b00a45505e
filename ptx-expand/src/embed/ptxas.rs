//! The assembler as a process: where it is, what it is told, what it answers.

use crate::compile::{Cubin, Text};
use crate::temp_dir::TempDir;
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
    /// The one that `PTXAS` names, else the first in `PATH`, else that of a wheel of PyPI in the active environment.
    pub fn find() -> Option<Ptxas> {
        if let Some(named) = std::env::var_os("PTXAS").filter(|path| !path.is_empty()) {
            return Some(Ptxas(named.into()));
        }
        let name = format!("ptxas{}", std::env::consts::EXE_SUFFIX);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(&name)).find(|file| file.is_file());
        in_path.or_else(|| environments().iter().find_map(|root| in_wheel(root, &name))).map(Ptxas)
    }

    /// The machine code of a text for a chip.
    pub fn assemble(&self, text: &Text, chip: Arch) -> Result<Cubin, Vec<Failure>> {
        self.run(text, chip).unwrap_or_else(|error| {
            Err(vec![Failure { line: None, message: format!("`{}` does not run: {error}", self.0.display()) }])
        })
    }

    fn run(&self, text: &Text, chip: Arch) -> std::io::Result<Result<Cubin, Vec<Failure>>> {
        let folder = TempDir::new("ptx-embed")?;
        let folder = folder.path();
        std::fs::write(folder.join("kernel.ptx"), &text.ptx)?;
        let output = self.command(text, chip, folder).output()?;
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

/// The active environments of Python: a virtual environment, and one of conda.
fn environments() -> Vec<PathBuf> {
    ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os).map(PathBuf::from).collect()
}

/// The ptxas of the wheel `nvidia-cuda-nvcc`, or of `nvidia-cuda-nvcc-cu12`, in an environment; of several versions of Python in the last.
fn in_wheel(root: &Path, name: &str) -> Option<PathBuf> {
    const FOLDERS: [&str; 2] = ["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"];
    let versions = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    let mut packages: Vec<PathBuf> = versions.map(|version| version.path().join("site-packages")).collect();
    packages.sort();
    packages.push(root.join("Lib/site-packages"));
    let files = packages.iter().rev().flat_map(|packages| FOLDERS.map(|folder| packages.join(folder).join(name)));
    files.into_iter().find(|file| file.is_file())
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn wheels_are_found_in_an_environment() {
        let root = TempDir::new("ptx-expand-wheel").unwrap();
        assert_eq!(in_wheel(root.path(), "ptxas"), None);
        let folder = root.path().join("lib/python3.12/site-packages/nvidia/cu13/bin");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("ptxas"), "").unwrap();
        assert_eq!(in_wheel(root.path(), "ptxas"), Some(folder.join("ptxas")));
    }
}
