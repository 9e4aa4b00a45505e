//! The assembler, where it is installed.

use ptx_core::isa::{TargetInfo, table};
use ptx_expand::temp_dir::TempDir;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Why a test that needs it is ignored.
pub const ABSENT: &str = "there is no ptxas: set PTXAS, or put it on the PATH";

/// Message about a run that was ended from outside: on some instructions ptxas never ends.
pub const ENDLESS: &str = "ptxas did not end";

/// Time limit of one file.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Outcome of a run.
#[derive(Debug)]
pub enum Run {
    /// It came to an end.
    Ended {
        /// True if ptxas took the file.
        success: bool,
        /// Its output.
        said: String,
    },
    /// It had to be ended.
    Endless,
}

/// `PTXAS`, or the one on the `PATH`.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    Command::new(&path).arg("--version").output().ok().map(|_| path)
}

/// The target to assemble a module of `arch` for: a later one, if that is gone.
pub fn assembled(arch: &str) -> &str {
    let is_gone = |t: &TargetInfo| !t.assembled && t.arch.to_string() == arch;
    if table().targets.iter().any(is_gone) { "sm_75" } else { arch }
}

/// Runs it on some files for a target, at most so long. It judges each of them, but if it crashes.
///
/// # Errors
/// If it cannot be run.
pub fn run(ptxas: &Path, arch: &str, inputs: &[PathBuf], limit: Duration) -> io::Result<Run> {
    let mut command = Command::new(ptxas);
    command.arg("-arch").arg(arch).args(inputs).args(["-o", "/dev/null"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let (sender, said) = mpsc::channel();
    let mut errors = child.stderr.take();
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.as_mut().map(|pipe| pipe.read_to_end(&mut text)); // What broke off is what it said.
        let _ = sender.send(text); // Nobody waits for it after the limit.
    });
    match said.recv_timeout(limit) {
        Ok(text) => {
            let success = child.wait()?.success();
            Ok(Run::Ended { success, said: String::from_utf8_lossy(&text).into_owned() })
        }
        Err(_) => {
            child.kill()?;
            child.wait()?;
            Ok(Run::Endless)
        }
    }
}

/// Assembles a file for a target.
///
/// # Errors
/// What ptxas printed, or why it could not be run.
pub fn assemble_file(input: &Path, target: &str) -> Result<(), String> {
    let ptxas = find().ok_or(ABSENT)?;
    match run(&ptxas, target, std::slice::from_ref(&input.to_owned()), LIMIT).map_err(|e| e.to_string())? {
        Run::Ended { success: true, .. } => Ok(()),
        Run::Ended { said, .. } => Err(said),
        Run::Endless => Err(ENDLESS.to_owned()),
    }
}

/// Assembles a text for the target that it names; its message, if it refuses.
///
/// # Errors
/// What ptxas printed, or why it could not be run.
pub fn assemble(ptx: &str) -> Result<(), String> {
    let target = ptx.lines().find_map(|line| line.trim().strip_prefix(".target ")).ok_or("no `.target`")?;
    let target = target.split(',').next().unwrap_or(target).trim();
    let folder = TempDir::new("ptx-tests").map_err(|e| e.to_string())?;
    let input = folder.path().join("module.ptx");
    std::fs::write(&input, ptx).map_err(|e| e.to_string())?;
    assemble_file(&input, target).map_err(|said| format!("{said}\n{ptx}"))
}
