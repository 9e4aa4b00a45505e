//! References in the documents exist: links, paths of this repository, tests in commands, code of the book.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The documents for people; those that commands print are tested where they are printed.
const DOCUMENTS: [&str; 23] = [
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/README.md",
    "docs/comparison.md",
    "docs/cpu-device.md",
    "docs/language/language.md",
    "docs/language/launching.md",
    "docs/language/layouts.md",
    "docs/language/library.md",
    "docs/profile.md",
    "docs/python.md",
    "docs/transpile.md",
    "docs/watcher.md",
    "docs/benchmarks/fa3.md",
    "docs/benchmarks/benchmarks.md",
    "docs/benchmarks/tried.md",
    "ptx-core/isa/README.md",
    "ptx-kernels/docs/map.md",
    "corpus/README.md",
    "tests/README.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Each document with what is missing in it by `find`.
fn missing(find: impl Fn(&Path, &str) -> Vec<String>) -> Vec<String> {
    let of = |name: String| {
        let text = read_to_string(root().join(&name)).unwrap();
        let folder = Path::new(&name).parent().unwrap().to_owned();
        let found = find(&folder, &text);
        found.into_iter().map(|what| format!("{name}: {what}")).collect::<Vec<_>>()
    };
    let records = CRATES.iter().flat_map(|krate| chapters(&format!("{krate}/docs/decisions")));
    DOCUMENTS.iter().map(|name| (*name).to_owned()).chain(chapters(CHAPTERS)).chain(records).flat_map(of).collect()
}

/// The crates with records of decisions.
const CRATES: [&str; 10] = [
    "ptx-core",
    "ptx-language",
    "ptx-expand",
    "ptx-launch",
    "ptx-runtime",
    "ptx-interp",
    "ptx-kernels",
    "ptx-ffi",
    "ptx-lsp",
    "ptx-pack",
];

/// The folder of the book's chapters.
const CHAPTERS: &str = "docs/book/text";

/// The chapters in a folder and those below it.
fn chapters(folder: &str) -> Vec<String> {
    let entries = read_dir(root().join(folder)).unwrap().flatten();
    let inside = entries.flat_map(|entry| {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() { chapters(&path) } else { vec![path] }
    });
    inside.filter(|path| !path.ends_with(".png")).collect()
}

#[test]
fn links_lead_somewhere() {
    let none: [String; 0] = [];
    assert_eq!(missing(|folder, text| links(text).filter(|to| !leads(folder, to)).map(str::to_owned).collect()), none);
}

/// The targets of `[words](target)`, those of the web and of rustdoc left out.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("::") && !target.starts_with("http") && !target.starts_with('#'))
}

fn leads(folder: &Path, to: &str) -> bool {
    root().join(folder).join(to.split('#').next().unwrap_or(to)).exists()
}

/// A longer cell does not fit a table: it is a paragraph, or a record of its own.
const LONGEST_CELL: usize = 300;

#[test]
fn cells_of_tables_are_short() {
    let long = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with('|'));
        let cells = rows.flat_map(|row| row.split('|')).filter(|cell| cell.len() > LONGEST_CELL);
        cells.map(|cell| cell.chars().take(60).collect()).collect()
    };
    let none: [String; 0] = [];
    assert_eq!(missing(|_, text| long(text)), none);
}

#[test]
fn every_record_is_listed() {
    let map = read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let records = CRATES.iter().flat_map(|krate| chapters(&format!("{krate}/docs/decisions")));
    let lost: Vec<String> = records.filter(|record| !map.contains(&format!("]({record})"))).collect();
    assert!(lost.is_empty(), "ARCHITECTURE.md does not name {lost:?}");
}

#[test]
fn paths_are_there() {
    let none: [String; 0] = [];
    assert_eq!(
        missing(|folder, text| paths(text)
            .filter(|path| !leads(folder, path) && !leads(Path::new(""), path))
            .map(str::to_owned)
            .collect()),
        none
    );
}

/// The text in backticks that starts like a path of this repository.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    const TOP: [&str; 13] = [
        "ptx-target/",
        "ptx-core/",
        "ptx-language/",
        "ptx-expand/",
        "ptx-macros/",
        "ptx-runtime/",
        "ptx-launch/",
        "ptx-kernels/",
        "ptx-cli/",
        "examples/",
        "benches/",
        "tests/",
        "docs/",
    ];
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|words| {
        TOP.iter().any(|top| words.starts_with(top)) && !words.contains(['*', ' ', '…']) && !words.contains("OPERATION")
    })
}

#[test]
fn commands_name_tests_that_there_are() {
    let none: [String; 0] = [];
    assert_eq!(missing(|_, text| commands(text).filter(|c| !runs(c)).collect()), none);
}

/// Each `cargo test …`, up to the end of its words; a line may break inside of backticks.
fn commands(text: &str) -> impl Iterator<Item = String> {
    let rest = text.match_indices("cargo test").map(|(at, _)| &text[at..]);
    rest.map(|rest| {
        rest.split(['`', '#']).next().unwrap_or(rest).split("\n\n").next().unwrap_or(rest).replace('\n', " ")
    })
}

/// Returns true if the package has the test target that a command names.
fn runs(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let behind = |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1)).copied();
    let Some(folder) = behind("-p").map(folder) else { return behind("--test").is_none() };
    let runs = |folder: PathBuf, test: &str| has(&folder.join("tests"), test) || declares(&folder, test);
    folder.is_some_and(|folder| behind("--test").is_none_or(|test| runs(folder, test)))
}

/// Returns true if the manifest declares the test target, whose file may lie elsewhere.
fn declares(folder: &Path, test: &str) -> bool {
    let manifest = read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    manifest.contains(&format!("[[test]]\nname = \"{test}\"\n"))
}

/// The folder of a package of this workspace.
fn folder(package: &str) -> Option<PathBuf> {
    let named = |folder: &PathBuf| {
        let manifest = read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        manifest.contains(&format!("name = \"{package}\""))
    };
    let folders = read_dir(root()).unwrap().chain(read_dir(root().join("docs")).unwrap());
    folders.flatten().map(|entry| entry.path()).find(named)
}

fn has(tests: &Path, name: &str) -> bool {
    tests.join(format!("{name}.rs")).exists() || tests.join(name).join("main.rs").exists()
}

/// Rust in a chapter is copied from a listing, which the tests of the book compile and run, or is marked with `ignore`.
#[test]
fn code_in_the_book_is_a_listing_or_marked() {
    let none: [String; 0] = [];
    let own = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let unmarked = |line: &str| line.starts_with("```rust") && !line.contains("ignore");
        let wrong = lines.windows(2).filter(|pair| unmarked(pair[1]) && !pair[0].starts_with("<!-- "));
        wrong.map(|pair| format!("{} below `{}`", pair[1], pair[0])).collect::<Vec<_>>()
    };
    let chapters = chapters(CHAPTERS).into_iter();
    let found = chapters.flat_map(|name| {
        own(&read_to_string(root().join(&name)).unwrap()).into_iter().map(move |line| format!("{name}: {line}"))
    });
    assert_eq!(found.collect::<Vec<_>>(), none);
}

/// The laboratory notebook names files and constants of the code that there is.
#[test]
fn the_notebook_names_what_there_is() {
    let text = read_to_string(root().join("docs/benchmarks/tried.md")).unwrap();
    let code: Vec<(String, String)> = ["ptx-kernels/src", "ptx-language/src/prelude"]
        .iter()
        .flat_map(|folder| chapters(folder))
        .map(|path| {
            let text = read_to_string(root().join(&path)).unwrap_or_default();
            (path, text)
        })
        .collect();
    let is_constant = |name: &str| name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let is_ours = |name: &&str| name.contains('_') && is_constant(name) && !name.starts_with("CU_");
    let quoted = || text.split('`').skip(1).step_by(2);
    let files = quoted().filter(|name| name.ends_with(".rs") && !code.iter().any(|(path, _)| path.ends_with(name)));
    let constants = quoted().filter(is_ours).filter(|name| !code.iter().any(|(_, text)| text.contains(name)));
    assert_eq!(files.chain(constants).collect::<Vec<_>>(), [""; 0]);
}
