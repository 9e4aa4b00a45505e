//! Paths of the command line: a file is itself, a folder all the `.ptx` files in it.
//!
//! Nobody chose the files of a folder one by one. So only files are read there, no pipes and devices, and nothing is reached through a link: it may
//! lead back, or to a file of somebody else that a command would rewrite.

use crate::output::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file that the command line names, or that stands in a folder that it names.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// True if the command line names the file itself, so that a link there is meant to be followed.
    pub(crate) named: bool,
}

/// The files that `paths` name, at least one; those of a folder in the order of their names.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    Ok(find(paths)?.into_iter().map(|found| found.path).collect())
}

/// The same, for those who write.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<Found>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { walk(path, &mut files)? } else { files.push(Found { path: path.clone(), named: true }) }
    }
    if files.is_empty() { Err(Failure::usage("there is no `.ptx` file in these folders")) } else { Ok(files) }
}

fn walk(folder: &Path, files: &mut Vec<Found>) -> Result<(), Failure> {
    let unreadable = |e: std::io::Error| Failure::usage(format!("{}: {e}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    paths.sort();
    for path in paths {
        let named = path.extension().is_some_and(|e| e == "ptx");
        match std::fs::symlink_metadata(&path).map(|found| found.file_type()) {
            Ok(kind) if kind.is_dir() => walk(&path, files)?,
            Ok(kind) if kind.is_file() && named => files.push(Found { path, named: false }),
            Ok(kind) if named => {
                let what = if kind.is_symlink() { "a link" } else { "no file" };
                // Without standard error there is nobody to tell.
                let _ = writeln!(std::io::stderr(), "note: {} is {what}, and is left out", path.display());
            }
            _ => {}
        }
    }
    Ok(())
}
