//! Every real file that ptxas accepts, as Rust: plain it is the file byte for byte, or instruction for instruction where
//! Rust's lexer does not take its bytes; sugared it is what can be proved, and something always can.

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::emit::rust;
use ptx_core::parse::parse_text;
use ptx_tests::corpus::{self, Sample};
use ptx_transpile::prove::prove;
use ptx_transpile::{Without, same};

/// Raising is tried on files up to this size, so that the test takes a minute or two; `ptx transpile --sugar` on a folder
/// does all.
const RAISED: usize = 24_000;

fn main() -> std::process::ExitCode {
    let trials = corpus::trials(|sample| Some(sample).filter(|s| s.accepted).into_iter().flat_map(trials));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trials(sample: Sample) -> [Trial; 2] {
    let (plain, sugar) = (sample.clone(), sample);
    [
        Trial::test(format!("plain {}", plain.name), move || is_the_file(&plain)),
        Trial::test(format!("sugar {}", sugar.name), move || is_proved(&sugar)),
    ]
}

fn expand(source: &str) -> Result<String, String> {
    let modules = ptx_expand::modules(source).map_err(|e| e.to_string())?;
    modules.into_iter().next().and_then(|m| m.ptx.into_iter().next()).ok_or_else(|| "no module".to_owned())
}

fn is_the_file(sample: &Sample) -> Result<(), Failed> {
    let bytes = std::fs::read(&sample.path)?;
    let (tree, _) = parse_text(&bytes[..]);
    let plain = rust::plain(&tree, "m");
    let ptx = expand(&plain.text)?;
    if plain.rewritten.is_empty() && ptx.as_bytes() != bytes {
        return Err("the bytes are others".into());
    }
    match same::difference(&tree, &parse_text(ptx.as_bytes()).0, true) {
        None => Ok(()),
        Some(found) => Err(format!("{found:?}").into()),
    }
}

fn is_proved(sample: &Sample) -> Result<(), Failed> {
    let bytes = std::fs::read(&sample.path)?;
    if bytes.len() > RAISED {
        return Ok(());
    }
    let (tree, _) = parse_text(&bytes[..]);
    match prove(&tree, "m", &Without::new(), &expand) {
        Ok(proved) => match same::difference(&tree, &parse_text(proved.ptx.as_bytes()).0, false) {
            None => Ok(()),
            Some(found) => Err(format!("{found:?}").into()),
        },
        // What the language cannot declare stays plain.
        Err(why)
            if ["option", "directive", "debug", "statement", "parameter", "without"]
                .iter()
                .any(|w| why.contains(w)) =>
        {
            Ok(())
        }
        Err(why) => Err(why.into()),
    }
}
