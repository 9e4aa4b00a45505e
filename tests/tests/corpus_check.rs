//! Every real file: what ptxas accepts has no error, what it refuses has one, on the line that ptxas names.

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::check::check;
use ptx_core::diag::Diagnostic;
use ptx_core::parse;
use ptx_tests::corpus::{self, Sample};

fn main() -> std::process::ExitCode {
    let trials = corpus::trials(|sample| [trial(sample)]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(sample: Sample) -> Trial {
    Trial::test(sample.name.clone(), move || verdict(&sample))
}

fn verdict(sample: &Sample) -> Result<(), Failed> {
    let text = std::fs::read(&sample.path)?;
    let (tree, earlier) = parse::parse_text(&text[..]);
    let (_, diagnostics) = check(tree, earlier, &Default::default());
    let line = |d: &Diagnostic| 1 + text[..d.span.lo as usize].iter().filter(|&&b| b == b'\n').count();
    let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.is_error()).collect();
    let named = sample.refused_line();
    match errors.first() {
        Some(error) if sample.accepted => {
            let (line, more) = (line(error), errors.len() - 1);
            Err(format!("line {line}: {}: {} ({more} more)", error.code.id, error.message).into())
        }
        None if !sample.accepted => Err(format!("no error; ptxas: {}", sample.refusal).into()),
        Some(_) if named.is_some_and(|named| errors.iter().all(|error| line(error) != named)) => {
            Err(format!("no error on the line that ptxas names: {}", sample.refusal).into())
        }
        _ => Ok(()),
    }
}
