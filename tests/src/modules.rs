//! Whole modules as the material of chance: the texts of all files there are, of `corpus/`, `shared/corpus`, the
//! filetests and the folder that `PTX_HARVEST` names,
//! and a place for those on which a test fails. How mistakes come into them is [`crate::disturb`]'s.

use crate::{corpus, harvest, own};
use std::path::{Path, PathBuf};

/// The texts of the files of at most so many bytes, in an order that does not change.
///
/// # Errors
/// If the filetests or a manifest cannot be read.
pub fn of_at_most(bytes: u64) -> Result<Vec<String>, String> {
    let mut paths = filetests().map_err(|e| e.to_string())?;
    paths.extend(own::samples()?.iter().map(own::Sample::file));
    if let Some(folder) = corpus::folder() {
        let samples = corpus::samples(&folder).map_err(|e| e.to_string())?;
        paths.extend(samples.into_iter().map(|sample| sample.path));
    }
    if let Some(folder) = harvest::folder() {
        paths.extend(
            harvest::files(&folder).map_err(|e| e.to_string())?.into_iter().filter(|path| harvest::is_module(path)),
        );
    }
    paths.sort();
    paths.retain(|path| path.metadata().is_ok_and(|m| m.len() <= bytes));
    Ok(paths.into_iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect())
}

fn filetests() -> std::io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let paths = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "ptx")).collect())
}

/// Keeps a text in the folder that `PTX_RANDOM_KEEP` names, if it names one.
///
/// # Errors
/// If it cannot be written there.
pub fn keep(text: &str, number: usize) -> std::io::Result<()> {
    match std::env::var_os("PTX_RANDOM_KEEP") {
        Some(folder) => std::fs::write(PathBuf::from(folder).join(format!("{number}.ptx")), text),
        None => Ok(()),
    }
}
