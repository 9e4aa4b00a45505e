//! The kernels of `examples/` against the libraries that people use instead, in turns.
//!
//! ```text
//! cargo run --release -p ptx-benches --features rivals -- --all --json benches/results/h200.json
//! cargo run --release -p ptx-benches --features rivals -- --pages
//! ```
//!
//! Correctness first: fresh random inputs, poisoned outputs, a reference in `f64`. Then every kernel and its rivals take
//! turns, timed by events: medians, and the spread of the middle half. Rivals that are libraries for C run in this process
//! (`rivals/`), those of Python and C++ in companions that are told when it is their turn (`companion`). The copy bandwidth
//! and the matrix rate of the same run stand beside them, and what was promised (`targets`). A rival that is not here is a
//! line with the reason.
//!
//! What one kernel is compared with, at which sizes, is data of its file in `suites/`.
#![allow(unreachable_pub, reason = "in a program, `pub` says what its other files use")]

mod bench;
mod budget;
mod chart;
mod companion;
mod data;
mod fit;
mod machine;
mod options;
mod page;
mod report;
mod results;
mod rivals;
mod suites;
mod tables;
mod targets;

use bench::Bench;
use budget::Budget;
use clap::Parser;
use options::Options;
use ptx_launch::prelude::*;
use results::Results;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Kernels against libraries, in turns, on this machine's GPU.
#[derive(Parser)]
struct Arguments {
    /// Only kernels whose name contains this; several are allowed
    #[arg(long)]
    filter: Vec<String>,
    /// Only sizes that contain this: `4096`, `8192x1024`; several are allowed
    #[arg(long)]
    sizes: Vec<String>,
    /// Number of turns of each contestant
    #[arg(long, default_value_t = 7)]
    turns: u32,
    /// Length of a turn in milliseconds, of which the second half is timed; default 200
    #[arg(long)]
    turn_ms: Option<f64>,
    /// Every variant of our kernels whose name contains one of these, not only the one that the dispatch takes
    #[arg(long)]
    sweep: Vec<String>,
    /// Check only, time nothing
    #[arg(long)]
    check: bool,
    /// Without rivals
    #[arg(long)]
    alone: bool,
    /// Seed of the random inputs; default: the time of day
    #[arg(long)]
    seed: Option<u32>,
    /// All that is promised and all tables of benchmarks.md, turns of at most 100 ms, 20 minutes; lists what no run makes
    #[arg(long)]
    all: bool,
    /// Share so many minutes among all contests: turns become shorter; after that time none begins
    #[arg(long)]
    minutes: Option<f64>,
    /// Small sizes, timed on any device: to try the program, not the kernels
    #[arg(long)]
    rehearse: bool,
    /// Rivals in a process of their own: a command; several are allowed
    #[arg(long, default_values = ["python3 benches/companion.py", "target/cutlass"])]
    companion: Vec<String>,
    /// Keep the results here, after every kernel
    #[arg(long)]
    json: Option<PathBuf>,
    /// Results of other runs to show, too: files of `--json`
    #[arg(long)]
    merge: Vec<PathBuf>,
    /// Write the tables (`report.md`) and the charts of this run into this folder
    #[arg(long)]
    docs: Option<PathBuf>,
    /// Renew the tables and charts of the repository's documents from `benches/results`, and end
    #[arg(long)]
    pages: bool,
    /// Add the times of all algorithms for random products (`--filter "gemm choice"`) to this file of tuning records
    #[arg(long)]
    records: Option<PathBuf>,
    /// Launches in a row of each way to make these products
    #[arg(long, default_value_t = 1)]
    row: u32,
    /// Fit the times by which the library chooses to tuning records, and print them
    #[arg(long)]
    fit: Vec<PathBuf>,
    /// Measure nothing, only show what `--merge` brings
    #[arg(long)]
    show: bool,
    /// List the kernels and end
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if every result was right.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    if arguments.list {
        suites::SUITES.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(true);
    }
    if arguments.pages {
        page::write(Path::new("."))?;
        return Ok(true);
    }
    if !arguments.fit.is_empty() {
        print!("{}", fit::fit(&arguments.fit)?);
        return Ok(true);
    }
    let mut results = if arguments.show { Results::default() } else { measure(arguments)? };
    for path in &arguments.merge {
        results.merge(serde_json::from_slice(&std::fs::read(path)?)?);
    }
    print!("{results}");
    if arguments.all {
        print!("{}", tables::coverage(&results)?);
    }
    keep(&results, arguments)?;
    if let Some(folder) = &arguments.docs {
        report::write_docs(&results, folder)?;
    }
    Ok(results.all_right())
}

/// Writes the results down, where that is asked for.
fn keep(results: &Results, arguments: &Arguments) -> std::io::Result<()> {
    let Some(path) = &arguments.json else { return Ok(()) };
    std::fs::write(path, serde_json::to_vec_pretty(results)?)
}

fn measure(arguments: &Arguments) -> Result<Results, Box<dyn std::error::Error>> {
    let minutes = arguments.minutes.or(arguments.all.then_some(20.0));
    let turn = arguments.turn_ms.unwrap_or(if arguments.all { 100.0 } else { 200.0 });
    let options = Options {
        sizes: arguments.sizes.clone(),
        sweep: arguments.sweep.clone(),
        turns: arguments.turns,
        turn: Duration::from_secs_f64(turn / 1e3),
        check_only: arguments.check,
        promised: arguments.all,
        rehearse: arguments.rehearse,
        alone: arguments.alone,
        records: arguments.records.clone(),
        row: arguments.row,
        seed: arguments.seed.unwrap_or_else(bench::time_of_day),
    };
    let companions = if arguments.alone || arguments.check { &[][..] } else { &arguments.companion };
    let wanted = |name: &str| arguments.filter.is_empty() || arguments.filter.iter().any(|part| name.contains(part));
    let until = minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    let mut bench = Bench::new(Device::best()?, options, companions)?;
    let chosen = || suites::SUITES.iter().filter(|(name, _)| wanted(name));
    bench.budget = Budget::counting(until);
    // A suite that fails here fails below, too, where that is reported.
    chosen().for_each(|(_, suite)| drop(suite(&mut bench)));
    bench.budget.is_counting = false;
    for (name, suite) in chosen() {
        // What fails is one suite's; the others may still be measured.
        if let Err(why) = suite(&mut bench) {
            bench.fails(name, &why);
        }
        keep(&bench.results, arguments)?;
    }
    Ok(bench.results)
}
