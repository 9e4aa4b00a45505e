//! Load time of the table, and checking speed: `cargo bench -p ptx-tests --bench check [PATH…]`.
//!
//! Without paths, the files of the corpus that have at least 500 kB. Best of several runs, one thread, MB = 10^6 bytes.
//!
//! How long the table takes in a dev build of somebody who uses these crates, where nothing is optimized:
//! `cargo bench --profile dev --config profile.dev.package.ptx-core.opt-level=0 -p ptx-tests --bench check Cargo.toml`.

use ptx_core::check::check;
use ptx_core::isa::table;
use ptx_core::lower::Options;
use ptx_core::parse::parse_text;
use ptx_tests::corpus;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SMALLEST: usize = 500_000;
const RUNS: u32 = 9;

fn main() -> std::io::Result<()> {
    let start = Instant::now();
    let targets = table().targets.len();
    let index = start.elapsed();
    let rows = table().rows().count();
    println!("table: {index:.2?} for {targets} targets and the index, {:.2?} with all {rows} rows", start.elapsed());
    for path in corpus::given_or_all()? {
        let text = std::fs::read(&path)?;
        if text.len() >= SMALLEST {
            let best = (0..RUNS).map(|_| once(&text)).min().unwrap_or(Duration::MAX);
            println!("{:7.1} MB/s {}", text.len() as f64 / 1e6 / best.as_secs_f64(), path.display());
        }
    }
    Ok(())
}

fn once(text: &[u8]) -> Duration {
    let start = Instant::now();
    let (tree, earlier) = parse_text(black_box(text));
    black_box(check(tree, earlier, &Options::default()));
    start.elapsed()
}
