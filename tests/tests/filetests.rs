//! `filetests/`: PTX files that say in comments what is expected of them.
//!
//! The first lines hold directives, each one trial of the file:
//!
//! ```text
//! // check                  the diagnostics are those that the comments announce, and ptxas agrees about errors
//! // fmt                    the canonical layout is the file `NAME.fmt` beside it; UPDATE_EXPECT=1 renews that
//! // run 32 8               one block of 32 threads runs the only entry, whose only parameter is a buffer of 8 words
//! // ptxas: accepts: why    ptxas does not agree about errors, and why
//! ```
//!
//! What is expected stands beside the guilty line, several of them behind each other:
//!
//! ```text
//! add.u32 %r1, %f1, 1;      // error[P0302]: a `.f32` register
//! st.u32 [%rd1], 1;         // fault: no allocation holds
//! // result: 0 1 4 9        the words of the buffer after the run
//! ```
#![allow(clippy::panic, reason = "tests")]

#[path = "filetests/announced.rs"]
mod announced;
#[path = "filetests/run.rs"]
mod run;

use announced::Announced;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::isa::{Arch, table};
use ptx_core::{emit, parse};
use ptx_expand::temp_dir::TempDir;
use ptx_tests::ptxas::{self, Run};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let assembler = ptxas::find();
    let trials = match files(&folder) {
        Ok(files) => files.iter().flat_map(|file| trials(file, assembler.as_deref())).collect(),
        Err(error) => vec![Trial::test("filetests", move || Err(error.to_string().into()))],
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let paths = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<_> = paths.into_iter().filter(|p| p.extension().is_some_and(|e| e == "ptx")).collect();
    files.sort();
    Ok(files)
}

fn trials(file: &Path, assembler: Option<&Path>) -> Vec<Trial> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return vec![Trial::test(name, move || Err(error.to_string().into()))],
    };
    let directives: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("// ")).collect();
    let mut trials = Vec::new();
    for directive in &directives {
        let (text, file) = (text.clone(), file.to_owned());
        match directive.split_once(' ').unwrap_or((directive, "")) {
            ("check", _) => {
                let (copy, assembler) = (text.clone(), assembler.map(Path::to_owned));
                trials.push(Trial::test(format!("{name} check"), move || diagnostics(&text)));
                trials.push(Trial::ignorable_test(format!("{name} ptxas"), move || match &assembler {
                    None => Ok(Completion::ignored_with(ptxas::ABSENT)),
                    Some(assembler) => agreement(&copy, assembler).map(|()| Completion::Completed),
                }));
            }
            ("fmt", _) => trials.push(Trial::test(format!("{name} fmt"), move || formatted(&text, &file))),
            ("run", sizes) => {
                let sizes = sizes.to_owned();
                trials.push(Trial::test(format!("{name} run"), move || run::run(&text, &sizes)));
            }
            _ => {}
        }
    }
    if trials.is_empty() {
        trials.push(Trial::test(name, || Err("no directive in the first lines".into())));
    }
    trials
}

fn checked(text: &str) -> Vec<Diagnostic> {
    let (tree, earlier) = parse::parse_text(text.as_bytes());
    check(tree, earlier, &Default::default()).1
}

/// Everything found is announced, everything announced is found.
fn diagnostics(text: &str) -> Result<(), Failed> {
    let mut announced = announced::read(text);
    let mut wrong = Vec::new();
    for diagnostic in checked(text) {
        let found = Announced::of(&diagnostic, text);
        match announced.iter().position(|a| a.announces(&found)) {
            Some(at) => drop(announced.remove(at)),
            None => wrong.push(format!("not announced: {found}")),
        }
    }
    wrong.extend(announced.iter().map(|a| format!("not found:     {a}")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// ptxas refuses the file if, and only if, it has an error.
fn agreement(text: &str, assembler: &Path) -> Result<(), Failed> {
    let errors = checked(text).iter().any(Diagnostic::is_error);
    let differs = |verdict: &str| text.lines().any(|l| l.starts_with(&format!("// ptxas: {verdict}")));
    let expected = (errors && !differs("accepts")) || differs("refuses");
    match (expected, refusal(text, assembler)?) {
        (false, Some(why)) => Err(format!("ptxas refuses it: {why}").into()),
        (true, None) => Err("ptxas accepts it".into()),
        _ => Ok(()),
    }
}

/// Verdict of ptxas for the file's own target, or for a later one if it no longer assembles that.
fn refusal(text: &str, assembler: &Path) -> std::io::Result<Option<String>> {
    let target = text.lines().find_map(|l| l.trim().strip_prefix(".target ")).unwrap_or_default();
    let target: String = target.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let assembled = target.parse::<Arch>().ok().and_then(|a| table().target(a)).is_some_and(|t| t.assembled);
    let folder = TempDir::new("ptx-filetest")?;
    let input = folder.path().join("module.ptx");
    std::fs::write(&input, text)?;
    let arch = if assembled { target.as_str() } else { "sm_90" };
    Ok(match ptxas::run(assembler, arch, std::slice::from_ref(&input), ptxas::LIMIT)? {
        Run::Ended { success: true, .. } => None,
        Run::Ended { said, .. } => Some(said),
        Run::Endless => return Err(std::io::Error::other(ptxas::ENDLESS)),
    })
}

/// The layout is the expected one, and laying it out again changes nothing.
fn formatted(text: &str, file: &Path) -> Result<(), Failed> {
    let layout = |text: &str| emit::fmt::format(&parse::parse_text(text.as_bytes()).0);
    let once = String::from_utf8(layout(text))?;
    expect_test::expect_file![file.with_extension("fmt")].assert_eq(&once);
    if layout(&once) == once.as_bytes() { Ok(()) } else { Err("a second pass changes it".into()) }
}
