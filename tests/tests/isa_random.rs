//! The checker against ptxas on random spellings of random rows, half of them with a mistake, on random targets and
//! versions.
//!
//! Ignored: a figure, not a yes or no. `cargo test --release -p ptx-tests --test isa_random -- --ignored --nocapture`, with
//! `PTX_RANDOM_SIZE` (instructions, 4000 if not set), `PTX_RANDOM_SEED`, and `PTX_RANDOM_KIND` (one kind of mistake only).
#![allow(clippy::print_stdout, clippy::expect_used, reason = "tests")]

use ptx_core::isa::{Arch, Member, Row, Version, table};

use ptx_tests::agreement::compare;
use ptx_tests::instance::any_instance;
use ptx_tests::instruction::Instruction;
use ptx_tests::judge::Judge;
use ptx_tests::kinds::kind;
use ptx_tests::mutate::mutate;
use ptx_tests::point::point;
use ptx_tests::ptxas::ENDLESS;
use ptx_tests::random::{Random, setting};
use ptx_tests::vocabulary::Vocabulary;
use std::collections::BTreeMap;

/// Number of instructions that share a target and a version.
const GROUP: usize = 1600;

/// A kind that nobody has explained yet.
const UNKNOWN: &str = "unknown";

/// At most one disagreement in so many instructions.
const ALLOWED: usize = 500;

#[test]
#[ignore = "long, and needs ptxas: see CONTRIBUTING.md"]
fn random_instructions_are_judged_alike() {
    let judge = Judge::find().expect("a ptxas");
    let mut random = Random::new(setting("PTX_RANDOM_SEED", 1) as u64);
    let words = Vocabulary::of_table();
    let size = setting("PTX_RANDOM_SIZE", 4000);
    let (mut wrong, mut endless) = (BTreeMap::<&str, usize>::new(), 0);
    for _ in 0..size.div_ceil(GROUP) {
        let (arch, version) = point(&mut random).expect("a target");
        let all: Vec<(Instruction, &str)> =
            (0..GROUP).filter_map(|_| one(arch, version, &words, &mut random)).collect();
        let instructions: Vec<&Instruction> = all.iter().map(|(i, _)| i).collect();
        let outcome = compare(&judge, arch, version, &instructions).expect("ptxas runs");
        endless += outcome.endless.len();
        for found in &outcome.disagreements {
            let (instruction, mistake) = &all[found.at];
            let kind = kind(instruction, &found.said).unwrap_or(UNKNOWN);
            *wrong.entry(kind).or_default() += 1;
            println!("{kind}: {mistake}: {}", found.text);
        }
        outcome.endless.iter().for_each(|found| println!("{}", found.text));
    }
    let total: usize = wrong.values().sum();
    println!("{total} of {size} verdicts differ: {wrong:#?}; {endless}: {ENDLESS}");
    assert!(total * ALLOWED <= size, "more than one in {ALLOWED}");
}

/// A spelling of a random row, with a mistake or without, and the kind of the mistake.
fn one(arch: Arch, version: Version, words: &Vocabulary, random: &mut Random) -> Option<(Instruction, &'static str)> {
    let row = row(arch, version, random)?;
    let slots: Vec<_> = row.slots.iter().map(|s| member(s.members, s.optional, random)).collect();
    let mut instruction = any_instance(row, &slots, random.once_in(2), random)?.instruction;
    let kind = if random.once_in(2) { mutate(&mut instruction, words, random)? } else { "none" };
    std::env::var("PTX_RANDOM_KIND").ok().is_none_or(|only| only == kind).then_some((instruction, kind))
}

/// Mostly one that exists there.
fn row(arch: Arch, version: Version, random: &mut Random) -> Option<&'static Row> {
    let opcodes = table().opcodes();
    let fits = |row: &&'static Row| row.gate.admits(arch, version);
    let rows: Vec<&Row> = (0..20).filter_map(|_| any_row(&opcodes, random)).collect();
    if random.once_in(8) { rows.first().copied() } else { rows.into_iter().find(fits) }
}

fn any_row(opcodes: &[&str], random: &mut Random) -> Option<&'static Row> {
    let opcode = random.pick(opcodes)?;
    random.pick(table().forms(opcode))
}

fn member(all: &'static [Member], optional: bool, random: &mut Random) -> Option<&'static Member> {
    if optional && !random.once_in(4) { None } else { random.pick(all) }
}
