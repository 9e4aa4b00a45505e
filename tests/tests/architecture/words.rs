//! Words of comments: code returns, reads, computes, checks and waits. It does not know, want, ask or speak. Words of kernels: those of CUTLASS,
//! FlashAttention and the CUDA manual.

use crate::source;
use std::path::{Path, PathBuf};

/// Verbs that only a person is the subject of.
const VERBS: [&str; 8] = ["says", "knows", "wants", "asks", "speaks", "trusts", "hears", "tells"];

/// Comments with such a verb that are left. The number only shrinks.
pub(crate) const LEFT: usize = 0;

/// Words for which the field has others: work tile, chunk or atom; exponentiate, speculate and rescale; scheduler state; idle warps; run.
const PRIVATE: [&str; 15] = [
    "piece",
    "pieces",
    "weigh",
    "weighs",
    "weighed",
    "guess",
    "guesses",
    "guessed",
    "settle",
    "settles",
    "settled",
    "whereabouts",
    "spare",
    "streak",
    "streaks",
];

/// Names for which the field has others: tile counters, prefetch distance, capacity, head block. In comments these words have their usual meanings.
const PRIVATE_NAMES: [&str; 6] = ["claims", "near", "room", "rooms", "section", "sections"];

/// The folders of kernels and of what they call.
const KERNELS: [&str; 2] = ["ptx-kernels/src", "ptx-language/src/prelude"];

/// The lines of kernels that have a private word.
pub(crate) fn private() -> Vec<String> {
    let mut found = Vec::new();
    for path in KERNELS.iter().flat_map(|folder| source::paths_below(&source::root().join(folder))) {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(source::root()).unwrap_or(&path).display().to_string();
        let lines = text.lines().enumerate().filter(|(_, line)| is_private(line));
        found.extend(lines.map(|(at, line)| format!("{name}:{}: {}", at + 1, line.trim())));
    }
    found
}

/// Returns true for a line with a private word, or with a private name in its code.
fn is_private(line: &str) -> bool {
    let code = line.len() - comment(line).map_or(0, str::len);
    let has = |text: &str, list: &[&str]| words(text).any(|word| list.contains(&word.to_lowercase().as_str()));
    has(line, &PRIVATE) || has(&line[..code], &PRIVATE_NAMES)
}

/// The words of a text and of its names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
}

/// The lines of the repository's Rust files whose comments have such a verb.
pub(crate) fn spoken() -> Vec<String> {
    let mut found = Vec::new();
    for path in paths() {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(source::root()).unwrap_or(&path).display().to_string();
        let lines = text.lines().enumerate().filter(|(_, line)| comment(line).is_some_and(has_verb));
        found.extend(lines.map(|(at, line)| format!("{name}:{}: {}", at + 1, line.trim())));
    }
    found
}

/// The Rust files of all folders, without what a build made.
fn paths() -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for folder in entries(source::root()).into_iter().filter(|path| path.is_dir() && !is_made(path)) {
        for path in entries(&folder) {
            match path.is_dir() {
                true if !is_made(&path) => paths.extend(source::paths_below(&path)),
                false if path.extension().is_some_and(|extension| extension == "rs") => paths.push(path),
                _ => {}
            }
        }
    }
    paths.sort();
    paths
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Returns true for `target`, `.git` and the like.
fn is_made(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name == "target" || name.starts_with('.'))
}

/// The comment of a line. A `//` behind a colon is an address.
fn comment(line: &str) -> Option<&str> {
    let mut starts = line.match_indices("//").map(|(at, _)| at);
    starts.find(|at| !line[..*at].ends_with(':')).map(|at| &line[at..])
}

fn has_verb(comment: &str) -> bool {
    comment.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| VERBS.contains(&word))
}
