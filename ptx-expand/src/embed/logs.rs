//! What ptxas said of kernels with a contract, in the user's folder for caches: a build that changes nothing of them does not run it again. An entry is
//! named by a hash of all that decides it.

use super::ptxas::Ptxas;
use crate::compile::Text;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder of the entries, unless `PTX_CACHE` is `off`.
pub fn folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let chosen = match of("PTX_CACHE") {
        Some(chosen) => (chosen != Path::new("off")).then_some(chosen),
        None => of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache"))).map(|caches| caches.join("ptx")),
    };
    chosen.map(|folder| folder.join("contracts"))
}

/// The log of entries of a text, for its own target; none where ptxas refuses them. A folder that cannot be written keeps nothing.
pub fn log(ptxas: &Ptxas, text: &Text, entries: &[&str], folder: Option<&Path>) -> Option<String> {
    let file = folder.and_then(|folder| Some(folder.join(name(ptxas, text, entries)?)));
    if let Some(known) = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()) {
        return Some(known);
    }
    let log = ptxas.assemble(text, text.arch, entries).ok()?.log;
    if let Some(file) = file {
        let _ = write(&file, &log);
    }
    Some(log)
}

/// 128 bits of the text, the entries, and the assembler's file.
fn name(ptxas: &Ptxas, text: &Text, entries: &[&str]) -> Option<String> {
    let file = std::fs::canonicalize(&ptxas.0).ok()?;
    let metadata = file.metadata().ok()?;
    let changed = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, &text.ptx, entries, &file, metadata.len(), changed).hash(&mut hasher);
        hasher.finish()
    };
    Some(format!("{:016x}{:016x}", half(0), half(1)))
}

/// Written aside, so that nobody reads a part of it.
fn write(file: &Path, log: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(file.parent().unwrap_or(file))?;
    let aside = file.with_extension(std::process::id().to_string());
    std::fs::write(&aside, log)?;
    std::fs::rename(aside, file)
}
