//! The files of `corpus/`: each prints back byte for byte, is checked without an error exactly when by its manifest
//! ptxas accepts it, and ptxas still does.
#![allow(clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ptx_core::check::check;
use ptx_core::lower::Options;
use ptx_core::{emit, parse};
use ptx_tests::{own, ptxas};

fn main() -> std::process::ExitCode {
    let trials = match own::samples() {
        Ok(samples) => samples.into_iter().flat_map(trials).collect(),
        Err(error) => vec![Trial::test("manifest", move || Err(error.into()))],
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(sample: own::Sample) -> [Trial; 3] {
    let (name, checked, judged) = (sample.path.clone(), sample.clone(), sample.clone());
    [
        Trial::test(format!("{name} round-trips"), move || roundtrip(&sample)),
        Trial::test(format!("{name} is {}", checked.ptxas), move || agrees(&checked)),
        Trial::ignorable_test(format!("{name} assembles as recorded"), move || assembles(&judged)),
    ]
}

fn roundtrip(sample: &own::Sample) -> Result<(), Failed> {
    let text = std::fs::read(sample.file())?;
    let (tree, _) = parse::parse_text(&text[..]);
    if emit::tree::print_tree(&tree) == text { Ok(()) } else { Err("prints other bytes".into()) }
}

/// The checker and ptxas say the same.
fn agrees(sample: &own::Sample) -> Result<(), Failed> {
    let text = std::fs::read(sample.file())?;
    let (tree, earlier) = parse::parse_text(&text[..]);
    let (_, diagnostics) = check(tree, earlier, &Options::default());
    let first = diagnostics.iter().find(|d| d.is_error());
    match (first, sample.message.as_deref()) {
        (None, None) | (Some(_), Some(_)) => Ok(()),
        (None, Some(said)) => Err(format!("found nothing wrong; ptxas: {said}").into()),
        (Some(found), None) => {
            let line = 1 + text.iter().take(found.span.lo as usize).filter(|&&b| b == b'\n').count();
            Err(format!("line {line}: {}", found.message).into())
        }
    }
}

fn assembles(sample: &own::Sample) -> Result<Completion, Failed> {
    if ptxas::find().is_none() {
        return Ok(Completion::ignored_with(ptxas::ABSENT));
    }
    let verdict = ptxas::assemble_file(&sample.file(), sample.arch());
    match (verdict, sample.message.as_deref()) {
        (Ok(()), None) | (Err(_), Some(_)) => Ok(Completion::Completed),
        (Ok(()), Some(said)) => Err(format!("ptxas accepts it; it said: {said}").into()),
        (Err(said), None) => Err(said.into()),
    }
}
