//! Every helper is called: those of the library, and those of the modules that kernels of `ptx-kernels` share. A helper that nothing calls was never
//! checked as a program.

use ptx_language::prelude::{FILES, helpers};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[test]
fn a_test_or_an_example_comes_to_every_helper() {
    let texts: Vec<String> = callers().iter().flat_map(|folder| files(folder)).collect();
    let shared = shared_modules(&texts);
    let mut library = library();
    library.extend(shared.iter().flat_map(|(name, text)| helpers_of(name, text)));
    let is_root = |text: &&String| !shared.iter().any(|(name, _)| text.contains(&part(name)));
    let roots = texts.iter().filter(is_root).map(|text| (text.clone(), String::new()));
    let (mut pending, mut reached) = (roots.collect::<Vec<_>>(), BTreeSet::new());
    while let Some((text, home)) = pending.pop() {
        for (path, (module, code)) in &library {
            if !reached.contains(path) && calls(&text, path, *module == home) {
                reached.insert(path);
                pending.push((code.clone(), module.clone()));
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
    // A third of the files; all with `PTX_THOROUGH`, as in `.ci/run`.
    let step = if std::env::var_os("PTX_THOROUGH").is_some() { 1 } else { 3 };
    let callers = callers();
    let texts = callers.iter().flat_map(|folder| files(folder)).filter(|text| text.contains("ptx_kernel"));
    for text in texts.step_by(step) {
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
type Library = BTreeMap<String, (String, String)>;

fn library() -> Library {
    FILES.iter().flat_map(|(module, source)| helpers_of(module, source)).collect()
}

fn helpers_of(module: &str, source: &str) -> Library {
    let entry = |helper: ptx_language::prelude::Helper<'_>| {
        let code: String = helper.text.lines().filter(|line| !line.trim_start().starts_with("///")).collect();
        (format!("{module}::{}", helper.name), (module.to_owned(), code))
    };
    helpers(source).into_iter().map(entry).collect()
}

/// The parts that kernel modules name in `modules(…)`: their names, and their items as a file of the library has them.
fn shared_modules(texts: &[String]) -> Vec<(String, String)> {
    let lists = texts.iter().flat_map(|text| text.split("modules(").skip(1));
    let words = lists.flat_map(|list| {
        list.split(')').next().unwrap_or_default().split(|c: char| !(c.is_alphanumeric() || c == '_'))
    });
    let names: BTreeSet<&str> = words.filter(|word| !word.is_empty()).collect();
    let items = |name: &&str| texts.iter().find_map(|text| text.split(&part(name)).nth(1));
    let dedent =
        |text: &str| text.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    names.into_iter().filter_map(|name| Some((name.to_owned(), dedent(items(&name)?)))).collect()
}

/// The beginning of a part.
fn part(name: &str) -> String {
    format!("#[ptx_part]\npub(crate) mod {name} {{\n")
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
