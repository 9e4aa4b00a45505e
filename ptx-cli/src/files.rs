//! Paths of the command line: a file is itself, a folder all the `.ptx` files in it.

use crate::output::Failure;
use std::path::{Path, PathBuf};

/// The files that `paths` name, at least one; those of a folder in the order of their names.
pub(crate) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { walk(path, &mut files)? } else { files.push(path.clone()) }
    }
    if files.is_empty() { Err(Failure::usage("there is no `.ptx` file in these folders")) } else { Ok(files) }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let unreadable = |e: std::io::Error| Failure::usage(format!("{}: {e}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    paths.sort();
    for path in paths {
        // A link to a folder may lead back here.
        if path.is_dir() && !path.is_symlink() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "ptx") {
            files.push(path);
        }
    }
    Ok(())
}
