//! `ptx roundtrip`

use crate::files;
use crate::output::{Outcome, count};
use crate::source::Source;
use ptx_core::emit::tree::print_tree;
use ptx_core::parse::parse_text;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// PTX files, and folders of them.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

#[derive(Default)]
struct Total {
    files: usize,
    identical: usize,
    bytes: usize,
    time: Duration,
}

/// Sound if every file comes back as it was.
pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Outcome {
    let mut total = Total::default();
    for path in files::expand(&arguments.paths)? {
        let source = Source::read(&path)?;
        // The parser keeps the text that it is given; ours is to compare with.
        let text = source.bytes.clone();
        let start = Instant::now();
        let printed = print_tree(&parse_text(text).0);
        total.time += start.elapsed();
        total.files += 1;
        total.bytes += source.bytes.len();
        match first_difference(&source.bytes, &printed) {
            None => total.identical += 1,
            Some(at) => writeln!(out, "{}", difference(&source, &printed, at))?,
        }
    }
    let speed = total.bytes as f64 / 1e6 / total.time.as_secs_f64();
    let Total { files, identical, bytes, .. } = total;
    let (all, size) = (count(files, "file"), count(bytes, "byte"));
    writeln!(out, "{all}, {size}, {identical} identical, {speed:.0} MB/s")?;
    Ok(identical == files)
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (same < a.len().max(b.len())).then_some(same)
}

/// Number of lines shown of each side.
const SHOWN: usize = 32;

fn difference(source: &Source, printed: &[u8], at: usize) -> String {
    let position = source.position(u32::try_from(at).unwrap_or(u32::MAX));
    let piece =
        |bytes: &[u8]| bytes.iter().skip(at).take(SHOWN).copied().collect::<Vec<u8>>().escape_ascii().to_string();
    let (name, line, column) = (&source.name, position.line, position.column);
    format!("{name}:{line}:{column}: `{}` became `{}`", piece(&source.bytes), piece(printed))
}
