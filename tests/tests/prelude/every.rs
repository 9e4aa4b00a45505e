//! No helper is left out: what nothing calls is text that nobody has read as a program.

use ptx_language::prelude::{FILES, helpers};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn a_test_or_an_example_comes_to_every_helper() {
    let library = library();
    let sources = callers().map(|folder| (read(&folder), ""));
    let (mut pending, mut reached) = (sources.to_vec(), BTreeSet::new());
    while let Some((text, home)) = pending.pop() {
        for (path, (module, code)) in &library {
            if calls(&text, path, *module == home) && reached.insert(path) {
                pending.push((code.clone(), module));
            }
        }
    }
    let left: Vec<_> = library.keys().filter(|path| !reached.contains(path)).collect();
    assert!(left.is_empty(), "nothing calls {left:?}");
}

/// Errors inside a helper are reported at its call, so that `ptx!` in a helper is not held to the rules of `mut` and `&mut`
/// there. Here it is.
#[test]
fn helpers_write_only_what_they_may() {
    for text in callers().iter().flat_map(|folder| files(folder)).filter(|text| text.contains("ptx_kernel")) {
        if let Err(failure) = ptx_expand::modules_with_library(&text) {
            assert!(ptx_expand::modules(&text).is_err(), "{failure}");
        }
    }
}

/// The folders with the kernels that call helpers.
fn callers() -> [PathBuf; 4] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    ["tests/tests", "examples", "ptx-kernels/src", "ptx-launch/tests"].map(|folder| root.join(folder))
}

/// `module::function`, its module and its text without comments.
fn library() -> BTreeMap<String, (&'static str, String)> {
    let of = |(module, source): &(&'static str, &'static str)| {
        let module = *module;
        let entry = move |helper: ptx_language::prelude::Helper<'_>| {
            let code: String = helper.text.lines().filter(|line| !line.trim_start().starts_with("///")).collect();
            (format!("{module}::{}", helper.name), (module, code))
        };
        helpers(source).into_iter().map(entry).collect::<Vec<_>>()
    };
    FILES.iter().flat_map(of).collect()
}

/// Returns true if a text calls a helper: by its path, or in its own module by its name; a method behind a dot or its type; a type by its
/// name.
fn calls(text: &str, path: &str, at_home: bool) -> bool {
    let name = path.rsplit("::").next().unwrap_or(path);
    if path.matches("::").count() == 2 {
        return [".", "::"]
            .iter()
            .any(|dot| ["(", "::<"].iter().any(|end| text.contains(&format!("{dot}{name}{end}"))));
    }
    if name.starts_with(char::is_uppercase) {
        return text.contains(path) || at_home && text.contains(name);
    }
    let called = |name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let (before, behind) = (&text[..at], &text[at + name.len()..]);
            behind.starts_with(['(', ':']) && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
        })
    };
    called(path) || at_home && called(name)
}

/// The Rust files of a folder, one behind the other.
fn read(folder: &Path) -> String {
    files(folder).concat()
}

/// The texts of the Rust files of a folder and of those in it.
fn files(folder: &Path) -> Vec<String> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            texts.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(&path).unwrap_or_default());
        }
    }
    texts
}
