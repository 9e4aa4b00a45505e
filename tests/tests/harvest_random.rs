//! The checker against ptxas on random instructions that are made of those in files: nothing here comes from the table.
//!
//! Ignored: a figure, not a yes or no. `cargo test --release -p ptx-tests --test harvest_random -- --ignored --nocapture`, with
//! `PTX_HARVEST` (a folder of files with instructions, read beside those of `shared/corpus`) and the settings of
//! `ptx_tests::agreement::hunt` (20000 instructions if not set).
#![allow(clippy::print_stdout, clippy::expect_used, reason = "tests")]

use ptx_tests::agreement::hunt;
use ptx_tests::harvest::{folder, harvest};
use ptx_tests::recombine::recombine;

#[test]
#[ignore = "long, and needs ptxas: see tests/README.md"]
fn random_instructions_of_files_are_judged_alike() {
    let harvest = harvest(folder().as_deref()).expect("files");
    let count: usize = harvest.templates.values().map(Vec::len).sum();
    println!("{count} instructions of {} opcodes in {} files", harvest.templates.len(), harvest.files);
    let tally = hunt(20_000, |_, _, random| recombine(&harvest, random)).expect("ptxas runs");
    assert!(tally.passes(), "too many verdicts differ");
}
