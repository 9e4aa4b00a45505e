//! The kernels of `examples/` against the libraries that people use instead, in turns, in one process.
//!
//! `cargo run --release -p ptx-benches -- --help`. Correctness first: fresh random inputs, poisoned outputs, a reference
//! in `f64`. Then every kernel and its rivals take turns, timed by events: medians, and the spread of the middle half.
//! The copy bandwidth and the matrix rate of the same run stand beside them. `--json FILE` keeps everything, `--merge
//! FILE` adds what a companion (`benches/torch_rivals.py`) measured, `--docs FOLDER` writes the table and the charts.
//!
//! What one kernel is compared with, at which sizes, is data of its file in `suites/`.
#![allow(unreachable_pub, reason = "in a program, `pub` says what its other files use")]

mod bench;
mod chart;
mod data;
mod machine;
mod report;
mod rivals;
mod suites;

use bench::{Bench, Options};
use clap::Parser;
use ptx_launch::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;

/// Kernels against libraries, in turns, on this machine's GPU.
#[derive(Parser)]
struct Arguments {
    /// Only kernels whose name contains this; several are allowed
    #[arg(long)]
    filter: Vec<String>,
    /// Only sizes that contain this: `4096`, `8192x1024`; several are allowed
    #[arg(long)]
    sizes: Vec<String>,
    /// How many turns each contestant has
    #[arg(long, default_value_t = 7)]
    turns: u32,
    /// How long a turn is, in milliseconds; its second half is timed
    #[arg(long, default_value_t = 200.0)]
    turn_ms: f64,
    /// Every variant of our kernels whose name contains one of these, not only the one that the dispatch takes
    #[arg(long)]
    sweep: Vec<String>,
    /// Check only, time nothing
    #[arg(long)]
    check: bool,
    /// Without rivals
    #[arg(long)]
    alone: bool,
    /// What the random inputs grow from; the time of day without it
    #[arg(long)]
    seed: Option<u32>,
    /// Keep the results here
    #[arg(long)]
    json: Option<PathBuf>,
    /// Results to show beside ours: files of `--json` or of `benches/torch_rivals.py`
    #[arg(long)]
    merge: Vec<PathBuf>,
    /// Write the table and the charts into this folder
    #[arg(long)]
    docs: Option<PathBuf>,
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

/// Whether every result was right.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn std::error::Error>> {
    if arguments.list {
        suites::SUITES.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(true);
    }
    let mut results = if arguments.show { report::Results::default() } else { measure(arguments)? };
    for path in &arguments.merge {
        results.merge(serde_json::from_slice(&std::fs::read(path)?)?);
    }
    print!("{results}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&results)?)?;
    }
    if let Some(folder) = &arguments.docs {
        report::write_docs(&results, folder)?;
    }
    Ok(results.all_right())
}

fn measure(arguments: &Arguments) -> ptx_launch::Result<report::Results> {
    let options = Options {
        sizes: arguments.sizes.clone(),
        sweep: arguments.sweep.clone(),
        turns: arguments.turns,
        turn: std::time::Duration::from_secs_f64(arguments.turn_ms / 1e3),
        check_only: arguments.check,
        alone: arguments.alone,
        seed: arguments.seed.unwrap_or_else(bench::time_of_day),
    };
    let wanted = |name: &str| arguments.filter.is_empty() || arguments.filter.iter().any(|part| name.contains(part));
    let mut bench = Bench::new(Device::best()?, options)?;
    for (_, suite) in suites::SUITES.iter().filter(|(name, _)| wanted(name)) {
        suite(&mut bench)?;
    }
    Ok(bench.results)
}
