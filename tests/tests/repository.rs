//! Rules about the files of this repository that no other tool holds.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ptx_tests::device_code::DeviceCode;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The most bytes of a tracked file.
const LARGEST: u64 = 1 << 20;

/// The corpus holds files as their compilers wrote them.
const CORPUS: &str = "corpus/";

/// The files that may ask for the system's folder for temporary files: one makes private folders there, and processes of one user find each other by a
/// socket of the other, which only they can open.
const TEMPORARY: [&str; 2] = ["ptx-expand/src/temp_dir.rs", "ptx-runtime/src/process_group/rendezvous.rs"];

fn main() -> ExitCode {
    let trials = vec![
        rule("no tracked file is above 1 MiB, but the corpus", small),
        rule("temporary files lie in private folders", private),
        rule("doc comments start with their subject", plain),
        rule("words are spelled as in American English", american),
        Trial::ignorable_test("the plain GEMM is short", short),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn rule(name: &str, holds: fn(&[String]) -> Result<(), Failed>) -> Trial {
    Trial::ignorable_test(name, move || match tracked() {
        None => Ok(Completion::ignored_with("this is no git checkout, or there is no git")),
        Some(files) => holds(&files).map(|()| Completion::Completed),
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files that git tracks.
fn tracked() -> Option<Vec<String>> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().ok()?;
    let files = String::from_utf8(listed.stdout).ok()?.split_terminator('\0').map(str::to_owned).collect::<Vec<_>>();
    (listed.status.success() && !files.is_empty()).then_some(files)
}

fn small(files: &[String]) -> Result<(), Failed> {
    let size = |file: &&String| root().join(file).metadata().map_or(0, |data| data.len());
    let large: Vec<_> = files.iter().filter(|f| !f.starts_with(CORPUS) && size(f) > LARGEST).collect();
    if large.is_empty() { Ok(()) } else { Err(format!("above {LARGEST} bytes: {large:?}").into()) }
}

fn private(files: &[String]) -> Result<(), Failed> {
    let call = concat!("temp_dir", "()");
    let uses = |file: &&String| std::fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains(call));
    let others: Vec<_> =
        files.iter().filter(|f| f.ends_with(".rs") && !TEMPORARY.contains(&f.as_str())).filter(uses).collect();
    if others.is_empty() { Ok(()) } else { Err(format!("`ptx_expand::temp_dir` belongs into {others:?}").into()) }
}

/// Doc comments may open with one of [`ODD`] in one of this many.
const ONE_IN: usize = 100;

/// Words that turn a description into a question: "What it is called" is "Its name".
const ODD: [&str; 4] = ["What ", "Whether ", "How ", "Where "];

fn plain(files: &[String]) -> Result<(), Failed> {
    let (mut all, mut odd) = (0, Vec::new());
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let text = std::fs::read_to_string(root().join(file))?;
        let mut goes_on = false;
        for (at, line) in text.lines().map(str::trim_start).enumerate() {
            let comment = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
            if let Some(comment) = comment.filter(|_| !goes_on) {
                all += 1;
                odd.extend(ODD.iter().any(|word| comment.starts_with(word)).then(|| format!("{file}:{}", at + 1)));
            }
            goes_on = line.starts_with("///") || line.starts_with("//!");
        }
    }
    if odd.len() * ONE_IN <= all { Ok(()) } else { Err(format!("{} of {all}: {odd:?}", odd.len()).into()) }
}

/// Beginnings of British spellings that this project has had.
const BRITISH: [&str; 16] = [
    "behaviour",
    "cancelled",
    "centre",
    "colour",
    "favour",
    "finalise",
    "grey",
    "initialis",
    "labelled",
    "licence",
    "neighbour",
    "optimise",
    "organis",
    "recognis",
    "serialis",
    "specialis",
];

/// The file that has them for this rule.
const SPELLING: &str = "tests/tests/repository.rs";

fn american(files: &[String]) -> Result<(), Failed> {
    const KINDS: [&str; 5] = [".rs", ".md", ".py", ".isa", ".toml"];
    let ours = |file: &&String| {
        !file.starts_with(CORPUS) && *file != SPELLING && KINDS.iter().any(|kind| file.ends_with(kind))
    };
    let mut found = Vec::new();
    for file in files.iter().filter(ours) {
        let text = std::fs::read_to_string(root().join(file))?.to_lowercase();
        for (at, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_ascii_alphabetic());
            let wrong = words.filter(|word| BRITISH.iter().any(|stem| word.starts_with(stem)));
            found.extend(wrong.map(|word| format!("{file}:{}: {word}", at + 1)));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("British spellings: {found:#?}").into()) }
}

/// The scheduler of the large GEMM for Hopper, whose roles a reader should take in at once.
const PLAIN_GEMM: &str = "ptx-kernels/src/gemm/sm90/claimed.rs";

/// The most lines of its device code: structs and functions without attributes, comments and blank lines, formatted at 100 columns.
const PLAIN_LINES: usize = 150;

fn short() -> Result<Completion, Failed> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024", "--emit", "stdout", "--config", "max_width=100,use_small_heuristics=Max"]);
    let Ok(formatted) = rustfmt.stdin(File::open(root().join(PLAIN_GEMM))?).output() else {
        return Ok(Completion::ignored_with("there is no rustfmt"));
    };
    let lines = DeviceCode::read(&String::from_utf8(formatted.stdout)?, false)?.lines;
    match lines {
        1..=PLAIN_LINES => Ok(Completion::Completed),
        _ => Err(format!("{PLAIN_GEMM} has {lines} lines of device code, of at most {PLAIN_LINES}").into()),
    }
}
