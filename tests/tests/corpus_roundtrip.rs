//! Every real file prints back byte for byte, from a tree whose text was shuffled; what ptxas accepts parses without a
//! diagnostic.
#![allow(clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::syntax::Tree;
use ptx_core::token::{Place, Source};
use ptx_core::{emit, parse};
use ptx_tests::corpus::{self, Sample};

fn main() -> std::process::ExitCode {
    let trials = corpus::trials(|sample| [trial(sample)]);
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(sample: Sample) -> Trial {
    Trial::test(sample.name.clone(), move || roundtrip(&sample))
}

fn roundtrip(sample: &Sample) -> Result<(), Failed> {
    let text = std::fs::read(&sample.path)?;
    let (mut tree, diagnostics) = parse::parse_text(&text[..]);
    scatter(&mut tree.source);
    if let Some(at) = first_difference(&text, &emit::tree::print_tree(&tree)) {
        return Err(format!("differs at byte {at}").into());
    }
    formats(&tree)?;
    match diagnostics.first() {
        Some(first) if sample.accepted => {
            let line = 1 + text[..first.span.lo as usize].iter().filter(|&&b| b == b'\n').count();
            Err(format!("line {line}: {} ({} in all)", first.message, diagnostics.len()).into())
        }
        _ => Ok(()),
    }
}

/// Formatting changes blanks only, and once.
fn formats(tree: &Tree) -> Result<(), Failed> {
    let once = emit::fmt::format(tree);
    let (again, _) = parse::parse_text(&once[..]);
    let tokens = |t: &Source| t.tokens.iter().map(|token| token.kind).collect::<Vec<_>>();
    let texts = |t: &Source| (0..t.tokens.len() as u32).map(|id| t.bytes(id)).collect::<Vec<_>>().concat();
    if tokens(&tree.source) != tokens(&again.source) || texts(&tree.source) != texts(&again.source) {
        return Err("formatting changes the tokens".into());
    }
    match first_difference(&once, &emit::fmt::format(&again)) {
        Some(at) => Err(format!("formatting again differs at byte {at}").into()),
        None => Ok(()),
    }
}

/// Moves every token's bytes, so that nothing but a walk over the tree can bring back their order.
fn scatter(source: &mut Source) {
    let old = std::mem::take(&mut source.bytes);
    for token in (0..source.tokens.len() as u32).rev() {
        let Place { lead, lo, hi } = source.place(token);
        let from = source.bytes.len() as u32;
        source.bytes.extend_from_slice(&old[lead as usize..hi as usize]);
        source.set_place(token, Place { lead: from, lo: from + lo - lead, hi: from + hi - lead });
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    (a != b).then(|| a.iter().zip(b).take_while(|(a, b)| a == b).count())
}
