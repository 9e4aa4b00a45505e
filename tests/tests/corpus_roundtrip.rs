//! Every real file prints back byte for byte, and what ptxas accepts parses without a diagnostic.
#![allow(clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::{emit, parse};
use ptx_tests::corpus::{self, Sample};

fn main() -> std::process::ExitCode {
    let trials = match corpus::folder().map(|folder| corpus::samples(&folder)) {
        Some(Ok(samples)) => samples.into_iter().map(trial).collect(),
        Some(Err(error)) => vec![Trial::test("manifest", move || Err(error.to_string().into()))],
        None => vec![
            Trial::test("corpus (ignored: no shared/corpus here, see PTX_CORPUS)", || Ok(())).with_ignored_flag(true),
        ],
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(sample: Sample) -> Trial {
    Trial::test(sample.name.clone(), move || roundtrip(&sample))
}

fn roundtrip(sample: &Sample) -> Result<(), Failed> {
    let text = std::fs::read(&sample.path)?;
    let (tree, diagnostics) = parse::parse_text(&text);
    if let Some(at) = first_difference(&text, &emit::ptx::print(&tree)) {
        return Err(format!("differs at byte {at}").into());
    }
    match diagnostics.first() {
        Some(first) if sample.accepted => {
            let line = 1 + text[..first.span.lo as usize].iter().filter(|&&b| b == b'\n').count();
            Err(format!("line {line}: {} ({} in all)", first.message, diagnostics.len()).into())
        }
        _ => Ok(()),
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (same < a.len().max(b.len())).then_some(same)
}
