//! Speed from text to tree to text: `cargo bench -p ptx-tests --bench roundtrip [PATH…]`.
//!
//! Without paths, the files of the corpus that have at least 100 kB. Best of several runs, single thread, MB = 10^6 bytes.

use ptx_core::{emit, lex, parse};
use ptx_tests::corpus;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SMALLEST: usize = 100_000;
const RUNS: u32 = 15;

fn main() -> std::io::Result<()> {
    let files = corpus::given_or_all()?.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let files: Vec<Vec<u8>> = files.into_iter().filter(|text| text.len() >= SMALLEST).collect();
    let total = Sample { bytes: files.iter().map(Vec::len).sum(), ..Sample::default() };
    let total = files.iter().map(|text| measure(text)).fold(total, |sum, one| Sample {
        lex: sum.lex + one.lex,
        parse: sum.parse + one.parse,
        print: sum.print + one.print,
        whole: sum.whole + one.whole,
        ..sum
    });
    println!("{} files, {:.1} MB", files.len(), total.bytes as f64 / 1e6);
    for (name, time) in [("lex", total.lex), ("parse", total.parse), ("print", total.print), ("whole", total.whole)] {
        println!("{name:>6} {:7.0} MB/s", total.bytes as f64 / 1e6 / time.as_secs_f64());
    }
    Ok(())
}

/// The best time of each phase, and of all of them with the tree's drop.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    bytes: usize,
    lex: Duration,
    parse: Duration,
    print: Duration,
    whole: Duration,
}

fn measure(text: &[u8]) -> Sample {
    let (lex, parse, print, whole) = (0..RUNS)
        .map(|_| once(text))
        .fold((Duration::MAX, Duration::MAX, Duration::MAX, Duration::MAX), |best, run| {
            (best.0.min(run.0), best.1.min(run.1), best.2.min(run.2), best.3.min(run.3))
        });
    Sample { bytes: text.len(), lex, parse, print, whole }
}

fn once(text: &[u8]) -> (Duration, Duration, Duration, Duration) {
    let start = Instant::now();
    let (source, _) = lex::lex(black_box(text));
    let lexed = start.elapsed();
    let (tree, _) = parse::parse(source);
    let parsed = start.elapsed();
    let out = emit::tree::print_tree(&tree);
    let printed = start.elapsed();
    black_box(&out);
    drop((tree, out));
    (lexed, parsed - lexed, printed - parsed, start.elapsed())
}
