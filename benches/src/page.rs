//! The tables in documents: a block between two comments is generated from the files in `benches/results`.
//!
//! `<!-- results: FILE -->` shows a table of figures (`table`), and `<!-- results: FILE, KERNEL -->` a kernel of a run that `--json` wrote.
//! Several runs are joined by `+`. In place of a kernel, `machine` shows where a run was measured, `targets` what is demanded and `charts`
//! the pictures. `<!-- results: summary -->` is the README's table (`summary`).

mod summary;
mod table;

use crate::report;
use crate::results::Results;
use crate::targets;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use table::Table;

/// The documents with blocks.
const PAGES: [&str; 2] = ["README.md", "docs/benchmarks/benchmarks.md"];
/// The folder of the files.
const FOLDER: &str = "benches/results";
/// The runs of which the page has charts.
const RUNS: &str = "h200+h200-rows";
const CHARTS: &str = "docs/benchmarks";
const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- end of results -->\n";

/// A reason for which a page cannot be written.
type Outcome<T> = Result<T, String>;

/// Writes the pages and charts of the repository at `root`.
pub fn write(root: &Path) -> Outcome<()> {
    for (path, text) in renewed(root)? {
        std::fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    Ok(())
}

/// Each page and chart as the files have it.
fn renewed(root: &Path) -> Outcome<Vec<(PathBuf, String)>> {
    let page = |name: &&str| Ok((root.join(name), renew(root, &read(&root.join(name))?)?));
    let mut all = PAGES.iter().map(page).collect::<Outcome<Vec<_>>>()?;
    let charts = report::charts(&runs(root, RUNS)?).into_iter();
    all.extend(charts.map(|(name, svg)| (root.join(CHARTS).join(name), svg)));
    Ok(all)
}

/// A page with its blocks generated again.
fn renew(root: &Path, page: &str) -> Outcome<String> {
    let (mut out, mut rest) = (String::with_capacity(page.len()), page);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (named, after) = after.split_once(" -->\n").ok_or("a comment `results` does not end its line")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("the block of `{named}` has no end"))?;
        out.extend([before, BEGIN, named, " -->\n\n", block(root, named)?.trim_end(), "\n\n", END]);
        rest = after;
    }
    Ok(out + rest)
}

fn block(root: &Path, named: &str) -> Outcome<String> {
    match named.split_once(", ") {
        None if named == "summary" => summary::markdown(root),
        None => Ok(file::<Table>(root, named)?.markdown()),
        Some((files, shown)) => Ok(of_runs(&runs(root, files)?, shown)),
    }
}

fn of_runs(results: &Results, shown: &str) -> String {
    match shown {
        "machine" => results.machine.to_string(),
        "targets" => targets::table(&results.pairs(), &results.machine),
        "charts" => results.kernels().iter().map(|name| format!("![{name}]({})\n", report::chart_file(name))).collect(),
        kernel => report::kernel_table(results, kernel),
    }
}

/// The runs of some files as one; the machine is that of the first.
fn runs(root: &Path, files: &str) -> Outcome<Results> {
    let mut all = Results::default();
    for name in files.split('+') {
        all.merge(file(root, name)?);
    }
    Ok(all)
}

fn file<T: DeserializeOwned>(root: &Path, name: &str) -> Outcome<T> {
    let path = root.join(FOLDER).join(format!("{name}.json"));
    serde_json::from_str(&read(&path)?).map_err(|why| format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn pages_show_the_files_of_results() {
        for (path, text) in renewed(&root()).unwrap() {
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            assert!(read(&path).unwrap_or_default() == text, "UPDATE_EXPECT=1 renews {}", path.display());
        }
    }

    #[test]
    fn every_file_is_shown() {
        let pages: String = PAGES.iter().map(|page| read(&root().join(page)).unwrap()).collect();
        for entry in std::fs::read_dir(root().join(FOLDER)).unwrap() {
            let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            let shown = pages.split(BEGIN).skip(1).any(|rest| {
                rest.split([',', '\n']).next().unwrap().trim_end_matches(" -->").split('+').any(|file| file == name)
            });
            assert!(shown, "no page shows {FOLDER}/{name}.json");
        }
    }

    /// The numbers with a point in a text outside of code.
    fn figures(text: &str) -> Vec<&str> {
        let prose = text.split("```").step_by(2).flat_map(|part| part.split('`').step_by(2));
        let words = prose.flat_map(|part| part.split(|letter: char| !letter.is_ascii_digit() && letter != '.'));
        words.map(|word| word.trim_matches('.')).filter(|word| word.contains('.')).collect()
    }

    /// Versions, which nobody measures.
    const VERSIONS: [&str; 2] = ["13.5", "2.0"];

    #[test]
    fn figures_of_the_readme_are_in_a_file() {
        let files = std::fs::read_dir(root().join(FOLDER)).unwrap();
        let known: String = files.map(|entry| read(&entry.unwrap().path()).unwrap()).collect();
        let readme = read(&root().join("README.md")).unwrap();
        let by_hand: String = readme.split(BEGIN).flat_map(|rest| rest.rsplit(END).next()).collect();
        let is_known = |figure: &&str| {
            VERSIONS.contains(figure) || known.split(|c: char| !c.is_ascii_digit() && c != '.').any(|it| it == *figure)
        };
        let unknown: Vec<&str> = figures(&by_hand).into_iter().filter(|figure| !is_known(figure)).collect();
        assert!(unknown.is_empty(), "no file in {FOLDER} has {unknown:?}");
    }

    #[test]
    fn a_block_without_an_end_is_an_error() {
        assert!(renew(&root(), "<!-- results: gemm-host -->\n").unwrap_err().contains("has no end"));
        assert!(renew(&root(), "<!-- results: none -->\n<!-- end of results -->\n").unwrap_err().contains("none.json"));
        assert_eq!(renew(&root(), "text\n").as_deref(), Ok("text\n"));
    }
}
