//! The checker against ptxas on random spellings of random rows, half of them with a mistake, on random targets and
//! versions.
//!
//! Ignored: a figure, not a yes or no. `cargo test --release -p ptx-tests --test isa_random -- --ignored --nocapture`, with
//! the settings of `ptx_tests::agreement::hunt` (4000 instructions if not set).
#![allow(clippy::expect_used, reason = "tests")]

use ptx_core::isa::{Arch, Member, Row, Version, table};

use ptx_tests::agreement::{Try, hunt};
use ptx_tests::instance::any_instance;
use ptx_tests::mutate::mutate;
use ptx_tests::random::Random;
use ptx_tests::vocabulary::Vocabulary;

#[test]
#[ignore = "long, and needs ptxas: see tests/README.md"]
fn random_instructions_are_judged_alike() {
    let words = Vocabulary::of_table();
    let tally = hunt(4000, |arch, version, random| one(arch, version, &words, random)).expect("ptxas runs");
    assert!(tally.passes(), "too many verdicts differ");
}

/// A spelling of a random row, with a mistake or without, and the kind of the mistake.
fn one(arch: Arch, version: Version, words: &Vocabulary, random: &mut Random) -> Option<Try> {
    let row = row(arch, version, random)?;
    let slots: Vec<_> = row.slots.iter().map(|s| member(s.members, s.optional, random)).collect();
    let mut instruction = any_instance(row, &slots, random.once_in(2), random)?.instruction;
    let kind = if random.once_in(2) { mutate(&mut instruction, words, random)? } else { "none" };
    Some((instruction, kind))
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
