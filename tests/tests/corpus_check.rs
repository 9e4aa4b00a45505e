//! Every real file: what ptxas accepts has no error, what it refuses has one.

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::check::check;
use ptx_core::parse;
use ptx_tests::corpus::{self, Sample};

/// Refusals that depend on more than the text: another module may define the function.
const BEYOND_THE_TEXT: &[&str] = &["Unresolved extern function"];

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
    Trial::test(sample.name.clone(), move || verdict(&sample))
}

fn verdict(sample: &Sample) -> Result<(), Failed> {
    let text = std::fs::read(&sample.path)?;
    let (tree, earlier) = parse::parse_text(&text);
    let (_, diagnostics) = check(tree, earlier, &Default::default());
    let mut errors = diagnostics.iter().filter(|d| d.is_error());
    match errors.next() {
        Some(error) if sample.accepted => {
            let line = 1 + text[..error.span.lo as usize].iter().filter(|&&b| b == b'\n').count();
            Err(format!("line {line}: {}: {} ({} more)", error.code.id, error.message, errors.count()).into())
        }
        None if !sample.accepted && !BEYOND_THE_TEXT.iter().any(|why| sample.refusal.contains(why)) => {
            Err(format!("no error; ptxas: {}", sample.refusal).into())
        }
        _ => Ok(()),
    }
}
