//! The files of `../shared/corpus`, where they are present. Read by the tests that need real PTX.

use libtest_mimic::{Completion, Trial};
use std::path::{Path, PathBuf};

/// Why a test of the corpus is ignored.
pub const ABSENT: &str = "no shared/corpus here, see PTX_CORPUS";

/// One line of the corpus' manifest.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Path inside the corpus: `triton3.4/softmax.ptx`.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Its `.target`.
    pub target: String,
    /// True if ptxas accepts it.
    pub accepted: bool,
    /// The first message of ptxas, if it rejects the file.
    pub refusal: String,
}

impl Sample {
    /// The line that ptxas' first error names: `line 14; error : …`.
    pub fn refused_line(&self) -> Option<usize> {
        let (number, _) = self.refusal.strip_prefix("line ")?.split_once(';')?;
        number.parse().ok()
    }
}

/// The folder of the corpus: `PTX_CORPUS`, or `shared/corpus` beside the workspace or a folder above it.
pub fn folder() -> Option<PathBuf> {
    let from_env = std::env::var_os("PTX_CORPUS").map(PathBuf::from);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let beside = workspace.map(|dir| dir.join("shared/corpus"));
    from_env.into_iter().chain(beside).find(|dir| dir.join("manifest.tsv").is_file())
}

/// The trials of every sample; without a corpus one that is ignored, with a broken manifest one that fails.
pub fn trials<T: IntoIterator<Item = Trial>>(of: impl Fn(Sample) -> T) -> Vec<Trial> {
    match folder().map(|folder| samples(&folder)) {
        Some(Ok(samples)) => samples.into_iter().flat_map(of).collect(),
        Some(Err(error)) => vec![Trial::test("manifest", move || Err(error.to_string().into()))],
        None => vec![Trial::ignorable_test("corpus", || Ok(Completion::ignored_with(ABSENT)))],
    }
}

/// All samples of a corpus.
///
/// # Errors
/// If the manifest cannot be read.
pub fn samples(folder: &Path) -> std::io::Result<Vec<Sample>> {
    let manifest = std::fs::read_to_string(folder.join("manifest.tsv"))?;
    let sample = |line: &str| {
        let mut fields = line.split('\t');
        let name = fields.next()?.to_owned();
        let target = fields.nth(1)?.to_owned();
        let accepted = fields.nth(1)? == "accepted";
        let refusal = fields.next().unwrap_or_default().to_owned();
        Some(Sample { path: folder.join(&name), name, target, accepted, refusal })
    };
    Ok(manifest.lines().skip(1).filter_map(sample).collect())
}

/// The files that a benchmark was called with; without any, those of the corpus, if it is there.
///
/// # Errors
/// If the manifest cannot be read.
pub fn given_or_all() -> std::io::Result<Vec<PathBuf>> {
    let given: Vec<PathBuf> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).map(PathBuf::from).collect();
    match folder() {
        Some(folder) if given.is_empty() => Ok(samples(&folder)?.into_iter().map(|s| s.path).collect()),
        _ => Ok(given),
    }
}
