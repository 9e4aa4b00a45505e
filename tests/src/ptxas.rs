//! The assembler, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a test that needs it is ignored.
pub const ABSENT: &str = "there is no ptxas: set PTXAS, or put it on the PATH";

/// `PTXAS`, or the one on the `PATH`.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    Command::new(&path).arg("--version").output().ok().map(|_| path)
}

/// Assembles a file for a target.
///
/// # Errors
/// What ptxas printed, or why it could not be run.
pub fn assemble_file(input: &Path, target: &str) -> Result<(), String> {
    let ptxas = find().ok_or(ABSENT)?;
    let run = Command::new(ptxas).arg("-arch").arg(target).arg(input).args(["-o", "/dev/null"]).output();
    let output = run.map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Assembles a text for the target that it names; what ptxas says, if it refuses.
///
/// # Errors
/// What ptxas printed, or why it could not be run.
pub fn assemble(ptx: &str) -> Result<(), String> {
    let target = ptx.lines().find_map(|line| line.trim().strip_prefix(".target ")).ok_or("no `.target`")?;
    let target = target.split(',').next().unwrap_or(target).trim();
    let input = std::env::temp_dir().join(format!("ptx-{}-{:p}.ptx", std::process::id(), ptx.as_ptr()));
    std::fs::write(&input, ptx).map_err(|e| e.to_string())?;
    let assembled = assemble_file(&input, target);
    let _ = std::fs::remove_file(&input);
    assembled.map_err(|said| format!("{said}\n{ptx}"))
}
