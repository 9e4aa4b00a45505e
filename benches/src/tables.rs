//! The tables of `benchmarks.md`, by their files in `benches/results`: the suites that make the figures of each again, or why no run of `bench` does.
//! `--all` measures all of these suites, and lists in the end which tables it made.

use crate::results::Results;
use crate::targets::ALL_ROWS;
use std::fmt::{self, Write};

/// The origin of a table's figures.
enum Origin {
    /// Kernels that `--all` measures.
    Kernels(&'static [&'static str]),
    /// Another command, and what it needs that a run of `bench` has not.
    Command(&'static str, &'static str),
    /// No command, and the reason.
    Nothing(&'static str),
}

use Origin::{Command, Kernels, Nothing};

/// Row-wise kernels of `bf16`.
const ROWS: &[&str] = &["rms_norm bf16", "layer_norm bf16", "softmax bf16", "swiglu bf16"];
const CHOICES: &[&str] =
    &["gemm choice bf16", "gemm choice f16", "gemm choice tf32", "gemm choice e4m3", "gemm choice i8"];

/// The files, without their ending.
const TABLES: &[(&str, Origin)] = &[
    (
        "h200",
        Kernels(&["copy f32", "gemm bf16", "gemm e4m3", "gemm bf16 sm_80", "grouped gemm f32", "grouped gemm bf16"]),
    ),
    ("h200-rows", Kernels(ALL_ROWS)),
    ("rows-h100", Kernels(ROWS)),
    ("gemm-h100", Kernels(&["gemm bf16"])),
    ("gemm-e4m3-h100", Kernels(&["gemm e4m3"])),
    ("h200-gemm", Kernels(&["gemm bf16"])),
    ("gemm-choice-h200", Kernels(CHOICES)),
    ("gemm-through", Kernels(&["gemm bf16", "gemm e4m3", "gemm f16"])),
    ("gemm-unaligned", Kernels(&["gemm unaligned bf16"])),
    ("gemm-choice", Kernels(CHOICES)),
    ("gemm-host", Kernels(&["gemm host"])),
    ("attention", Kernels(&["attention bf16", "attention backward bf16"])),
    ("attention-runs", Kernels(&["attention bf16", "attention backward bf16"])),
    ("attention-wide", Kernels(&["attention bf16"])),
    ("attention-growth", Kernels(&["attention bf16"])),
    ("attention-h100", Kernels(&["attention bf16"])),
    ("attention-backward-wide", Kernels(&["attention backward bf16"])),
    ("attention-backward-h100", Kernels(&["attention backward bf16"])),
    ("attention-bias", Nothing("a script measured the forward pass with a bias beside PyTorch; no suite has it")),
    ("attention-e4m3", Kernels(&["attention e4m3"])),
    ("attention-errors", Kernels(&["attention error O"])),
    ("attention-host", Kernels(&["attention host"])),
    ("decode", Kernels(&["decode bf16"])),
    ("decode-h100", Kernels(&["decode bf16"])),
    ("decode-paged", Kernels(&["decode bf16"])),
    ("decode-latent", Kernels(&["decode latent bf16"])),
    ("decode-flash-mla", Kernels(&["decode latent bf16"])),
    (
        "all-reduce",
        Command("cargo run --release -p ptx-kernels --all-features --example ranks -- latency", "two GPUs or more"),
    ),
    (
        "products",
        Command("cargo run --release -p ptx-kernels --all-features --example ranks -- products", "two GPUs or more"),
    ),
    (
        "decoder",
        Command(
            "PTX_LARGE=1 cargo run --release -p ptx-kernels --features measure --example decoder",
            "two GPUs or more",
        ),
    ),
    ("first-calls", Command("python/tests/first_call.py FOLDER", "PyTorch, and a library with machine code in FOLDER")),
    ("commands", Command("cargo examples, cargo test --workspace", "an empty `target` folder, and no GPU")),
    ("sizes", Command(".ci/sizes", "release builds, of crates outside of the workspace, too")),
    ("summary", Nothing("it names cells of other files")),
];

/// Returns true if a table has figures of a kernel.
pub fn has(kernel: &str) -> bool {
    TABLES.iter().any(|(_, origin)| matches!(origin, Kernels(kernels) if kernels.contains(&kernel)))
}

/// A line for each table: how many sizes of its kernels this run measured, the rivals that it missed, or the command that makes it.
pub fn coverage(results: &Results) -> Result<String, fmt::Error> {
    let mut out = String::from("### tables\n\n| file | made by this run |\n|---|---|\n");
    for (file, origin) in TABLES {
        let made = match origin {
            Kernels(kernels) => measured(results, kernels)?,
            Command(command, needs) => format!("no: `{command}` makes it, which needs {needs}"),
            Nothing(why) => format!("no: {why}"),
        };
        writeln!(out, "| {file} | {made} |")?;
    }
    Ok(out)
}

/// `34 of 34 sizes; without pyptx: not installed`
fn measured(results: &Results, kernels: &[&str]) -> Result<String, fmt::Error> {
    let pairs = results.pairs();
    let of: Vec<_> = pairs.iter().filter(|pair| kernels.contains(&pair.kernel)).collect();
    let noted = kernels.iter().filter(|kernel| results.notes.iter().any(|note| note.starts_with(**kernel))).count();
    let ours = of.iter().filter(|pair| pair.ours.is_some()).count();
    let mut out = match (of.len(), noted) {
        (0, 0) => return Ok("no: nothing was measured".to_owned()),
        (0, _) => format!("{noted} of {} kernels", kernels.len()),
        (sizes, _) => format!("{ours} of {sizes} sizes"),
    };
    let mut missing: Vec<(&str, &str)> = Vec::new();
    for rival in of.iter().flat_map(|pair| &pair.rivals) {
        let Some(why) = &rival.why else { continue };
        if missing.iter().all(|(name, _)| *name != rival.contestant) {
            missing.push((&rival.contestant, why));
        }
    }
    for (name, why) in missing {
        write!(out, "; without {name}: {}", why.lines().next().unwrap_or_default())?;
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::results::Entry;
    use crate::suites::SUITES;
    use std::path::Path;

    #[test]
    fn every_file_of_results_has_its_origin() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut listed: Vec<&str> = TABLES.iter().map(|(file, _)| *file).collect();
        files.sort_unstable();
        listed.sort_unstable();
        assert_eq!(files, listed);
    }

    #[test]
    fn every_kernel_has_a_suite() {
        let kernels = TABLES.iter().filter_map(|(_, origin)| match origin {
            Kernels(kernels) => Some(kernels.iter()),
            _ => None,
        });
        // A suite may have several kernels, whose names begin with its own.
        let is_known = |kernel: &&&str| SUITES.iter().any(|(suite, _)| kernel.starts_with(suite));
        let unknown: Vec<_> = kernels.flatten().filter(|kernel| !is_known(kernel)).collect();
        assert!(unknown.is_empty(), "no suite has {unknown:?}");
    }

    #[test]
    fn a_run_lists_what_it_made_and_what_it_missed() {
        let entry = |contestant: &str, rate: f64, why: Option<&str>| Entry {
            kernel: "gemm bf16".to_owned(),
            size: "a".to_owned(),
            contestant: contestant.to_owned(),
            ours: contestant == "ours",
            rate,
            right: true,
            why: why.map(str::to_owned),
            ..Entry::default()
        };
        let entries = vec![entry("ours", 9.0, None), entry("pyptx", 0.0, Some("not installed"))];
        let text =
            coverage(&Results { entries, notes: vec!["gemm host: 1 µs".to_owned()], ..Results::default() }).unwrap();
        let line = |file: &str| text.lines().find(|line| line.starts_with(&format!("| {file} |"))).unwrap().to_owned();
        assert_eq!(line("gemm-h100"), "| gemm-h100 | 1 of 1 sizes; without pyptx: not installed |");
        assert_eq!(line("gemm-host"), "| gemm-host | 1 of 1 kernels |");
        assert_eq!(line("decode"), "| decode | no: nothing was measured |");
        assert!(line("products").ends_with("needs two GPUs or more |"));
    }
}
