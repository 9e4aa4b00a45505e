//! The manifest of `corpus/`: PTX made from sources of this repository.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The fields of one `[[file]]` that the tests need.
#[derive(Clone, Debug, Deserialize)]
pub struct Sample {
    /// Inside of `corpus/`: `ptx/nvcc-13.5/saxpy.sm_75.ptx`.
    pub path: String,
    /// Its `.target`.
    pub target: String,
    /// `accepted` or `refused`.
    pub ptxas: String,
    /// The first message of ptxas for a rejected file.
    pub message: Option<String>,
}

#[derive(Deserialize)]
struct Manifest {
    file: Vec<Sample>,
}

impl Sample {
    /// Its path.
    pub fn file(&self) -> PathBuf {
        folder().join(&self.path)
    }

    /// The target that ptxas assembles for: the file's, or the oldest that ptxas still has.
    pub fn arch(&self) -> &str {
        let number = self.target.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
        if number.parse().is_ok_and(|n: u32| n < 75) { "sm_75" } else { &self.target }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

/// All files of the manifest.
///
/// # Errors
/// If it cannot be read, or is not as described in `corpus/README.md`.
pub fn samples() -> Result<Vec<Sample>, String> {
    let text = std::fs::read_to_string(folder().join("manifest.toml")).map_err(|e| e.to_string())?;
    let manifest: Manifest = toml::from_str(&text).map_err(|e| e.to_string())?;
    match manifest.file.iter().find(|f| (f.ptxas == "accepted") != f.message.is_none()) {
        Some(odd) => Err(format!("{}: `{}` with {:?}", odd.path, odd.ptxas, odd.message)),
        None => Ok(manifest.file),
    }
}
