//! The checker against ptxas on random instructions that are made of those in files: nothing here comes from the table.
//!
//! Ignored: a figure, not a yes or no. `cargo test --release -p ptx-tests --test harvest_random -- --ignored --nocapture`, with
//! `PTX_HARVEST` (a folder of files with instructions, read beside those of `shared/corpus`), `PTX_RANDOM_SIZE` (instructions,
//! 20000 if not set), `PTX_RANDOM_SEED`, and `PTX_RANDOM_SHOW` (how many of a kind are printed, all if not set).
#![allow(clippy::print_stdout, clippy::expect_used, reason = "tests")]

use ptx_tests::agreement::compare;
use ptx_tests::harvest::{folder, harvest};
use ptx_tests::instruction::Instruction;
use ptx_tests::judge::Judge;
use ptx_tests::kinds::kind;
use ptx_tests::point::point;
use ptx_tests::ptxas::ENDLESS;
use ptx_tests::random::{Random, setting};
use ptx_tests::recombine::recombine;
use std::collections::BTreeMap;

/// Number of instructions that share a target and a version.
const GROUP: usize = 1600;

/// A kind that nobody has explained yet.
const UNKNOWN: &str = "unknown";

/// At most one disagreement in so many instructions.
const ALLOWED: usize = 500;

#[test]
#[ignore = "long, and needs ptxas: see CONTRIBUTING.md"]
fn random_instructions_of_files_are_judged_alike() {
    let judge = Judge::find().expect("a ptxas");
    let harvest = harvest(folder().as_deref()).expect("files");
    let count: usize = harvest.templates.values().map(Vec::len).sum();
    println!("{count} instructions of {} opcodes in {} files", harvest.templates.len(), harvest.files);
    let mut random = Random::new(setting("PTX_RANDOM_SEED", 1) as u64);
    let (size, shown) = (setting("PTX_RANDOM_SIZE", 20_000), setting("PTX_RANDOM_SHOW", usize::MAX));
    let (mut wrong, mut endless, mut taken) = (BTreeMap::<&str, usize>::new(), 0, 0);
    for _ in 0..size.div_ceil(GROUP) {
        let (arch, version) = point(&mut random).expect("a target");
        let tries = std::iter::repeat_with(|| recombine(&harvest, &mut random));
        let all: Vec<(Instruction, &str)> = tries.flatten().take(GROUP).collect();
        let instructions: Vec<&Instruction> = all.iter().map(|(i, _)| i).collect();
        let outcome = compare(&judge, arch, version, &instructions).expect("ptxas runs");
        taken += outcome.taken;
        endless += outcome.endless.len();
        for found in &outcome.disagreements {
            let (instruction, how) = &all[found.at];
            let kind = kind(instruction, &found.said).unwrap_or(UNKNOWN);
            let seen = wrong.entry(kind).or_default();
            *seen += 1;
            if *seen <= shown || kind == UNKNOWN {
                println!("{kind}: {how}: {}", found.text);
            }
        }
        outcome.endless.iter().for_each(|found| println!("{}", found.text));
    }
    let total: usize = wrong.values().sum();
    println!("{total} of {size} verdicts differ, {taken} are taken by both: {wrong:#?}; {endless}: {ENDLESS}");
    assert!(total * ALLOWED <= size, "more than one in {ALLOWED}");
}
