//! The checker against ptxas on every row with every class of register, and with literals of every kind, in every place.
//!
//! Ignored: long. `cargo test --release -p ptx-tests --test isa_product -- --ignored --nocapture`; `PTX_PRODUCT_FILE=convert.isa`
//! assembles the rows of one file only. What chance finds once in a while (`isa_random`), this finds for sure.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "tests")]

use ptx_core::isa::{Arch, Row, Version, table};
use ptx_tests::agreement::compare;
use ptx_tests::instance::instances;
use ptx_tests::instruction::Instruction;
use ptx_tests::judge::Judge;
use ptx_tests::ptxas::ENDLESS;
use ptx_tests::spelling::CLASSES;
use std::collections::BTreeMap;

/// One literal of each kind.
const LITERALS: &[&str] =
    &["0", "7", "-1", "4294967296", "1.5", "0f3F800000", "0d3FF0000000000000", "_", "%tid.x", "WARP_SZ"];

/// At most one disagreement in so many instructions.
const ALLOWED: usize = 500;

#[test]
#[ignore = "long, and needs ptxas: see tests/README.md"]
fn every_register_in_every_place_is_judged_alike() {
    let judge = Judge::find().expect("a ptxas");
    let newest = table().targets.iter().map(|t| t.since).max().expect("a version");
    let file = std::env::var("PTX_PRODUCT_FILE").ok();
    let mut points: BTreeMap<Arch, Vec<Instruction>> = BTreeMap::new();
    for row in table().rows().filter(|row| file.as_deref().is_none_or(|file| row.file == file)) {
        for arch in targets(row, newest) {
            points.entry(arch).or_default().extend(variants(row));
        }
    }
    let (mut judged, mut wrong, mut endless) = (0, 0, 0);
    for (arch, all) in points {
        let all: Vec<&Instruction> = all.iter().collect();
        judged += all.len();
        let outcome = compare(&judge, arch, newest, &all).expect("ptxas runs");
        wrong += outcome.disagreements.len();
        endless += outcome.endless.len();
        outcome.disagreements.iter().chain(&outcome.endless).for_each(|found| println!("{}", found.text));
    }
    println!("{wrong} of {judged} verdicts differ; {endless}: {ENDLESS}");
    assert!(wrong * ALLOWED <= judged, "more than one in {ALLOWED}");
}

/// The first and the last target that have the row.
fn targets(row: &Row, newest: Version) -> Vec<Arch> {
    let mut all: Vec<Arch> = table().targets.iter().filter(|t| t.assembled).map(|t| t.arch).collect();
    all.retain(|arch| row.gate.admits(*arch, newest));
    let (first, last) = (all.first().copied(), all.last().copied());
    first.into_iter().chain(last.filter(|_| first != last)).collect()
}

/// The row's first spellings, without and with its optional parts, with another thing in each place.
fn variants(row: &'static Row) -> Vec<Instruction> {
    let spellings: Vec<Instruction> = instances(row).into_iter().map(|instance| instance.instruction).collect();
    let ends = spellings.first().into_iter().chain(spellings.last());
    ends.flat_map(|base| places(base).flat_map(|at| registers(base, at).chain(literals(base, at)))).collect()
}

/// The registers; of a long vector the first and the last.
fn places(base: &Instruction) -> impl Iterator<Item = usize> {
    let class = |at: usize| base.registers.get(at).map(|(class, _)| class);
    (0..base.registers.len()).filter(move |at| *at == 0 || class(at - 1) != class(*at) || class(at + 1) != class(*at))
}

fn registers(base: &Instruction, at: usize) -> impl Iterator<Item = Instruction> {
    CLASSES.iter().map(move |class| {
        let mut other = base.clone();
        other.registers[at].0 = (*class).to_owned();
        other
    })
}

fn literals(base: &Instruction, at: usize) -> impl Iterator<Item = Instruction> {
    LITERALS.iter().filter_map(move |literal| {
        let mut other = base.clone();
        let name = &base.registers[at].1;
        let ends =
            |operand: &str| operand.match_indices(name).find(|(i, _)| !digit(operand, i + name.len())).map(|f| f.0);
        let (operand, start) = other.operands.iter_mut().find_map(|o| ends(o).map(|start| (o, start)))?;
        operand.replace_range(start..start + name.len(), literal);
        Some(other)
    })
}

fn digit(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_some_and(u8::is_ascii_digit)
}
