//! A hunt for disagreements: random instructions on random targets, counted by kind.
//!
//! `PTX_RANDOM_SIZE` (instructions), `PTX_RANDOM_SEED`, `PTX_RANDOM_KIND` (one kind of mistake only) and `PTX_RANDOM_SHOW`
//! (number of disagreements of a known kind that are printed; all if not set).
#![allow(clippy::print_stdout, reason = "the report of a test")]

use super::{Finding, Outcome, compare};
use crate::instruction::Instruction;
use crate::judge::Judge;
use crate::kinds::kind;
use crate::point::point;
use crate::ptxas::ENDLESS;
use crate::random::{Random, setting};
use ptx_core::isa::{Arch, Version};
use std::collections::BTreeMap;
use std::io;

/// Number of instructions that share a target and a version.
const GROUP: usize = 1600;

/// A kind that nobody has explained yet.
const UNKNOWN: &str = "unknown";

/// Maximum number of tries for an instruction: a kind of mistake may be rare.
const MOST: usize = 100;

/// At most one disagreement in so many instructions.
const ALLOWED: usize = 500;

/// An instruction, and the mistake in it.
pub type Try = (Instruction, &'static str);

/// Counts of a hunt.
#[derive(Debug, Default)]
pub struct Tally {
    /// Disagreements by kind.
    pub wrong: BTreeMap<&'static str, usize>,
    /// Number of instructions that both sides accept.
    pub taken: usize,
    /// Number of instructions on which ptxas does not end.
    pub endless: usize,
    /// Number of instructions judged.
    pub asked: usize,
}

impl Tally {
    /// Number of disagreements.
    pub fn total(&self) -> usize {
        self.wrong.values().sum()
    }

    /// Returns true if the two sides agree often enough.
    pub fn passes(&self) -> bool {
        self.total() * ALLOWED <= self.asked
    }

    fn add(&mut self, all: &[Try], outcome: &Outcome, shown: usize) {
        self.asked += all.len();
        self.taken += outcome.taken;
        self.endless += outcome.endless.len();
        for found in &outcome.disagreements {
            self.disagreement(&all[found.at], found, shown);
        }
        outcome.endless.iter().for_each(|found| println!("{}", found.text));
    }

    fn disagreement(&mut self, (instruction, mistake): &Try, found: &Finding, shown: usize) {
        let kind = kind(instruction, &found.said).unwrap_or(UNKNOWN);
        let seen = self.wrong.entry(kind).or_default();
        *seen += 1;
        if *seen <= shown || kind == UNKNOWN {
            println!("{kind}: {mistake}: {}", found.text);
        }
    }
}

/// Asks both sides about the instructions that `make` gives for random targets and versions, as many as the environment
/// gives, or else `size`, and prints what differs.
///
/// # Errors
/// If there is no ptxas, or it cannot be run.
pub fn hunt(size: usize, mut make: impl FnMut(Arch, Version, &mut Random) -> Option<Try>) -> io::Result<Tally> {
    let judge = Judge::find().ok_or(io::ErrorKind::NotFound)?;
    let mut random = Random::new(setting("PTX_RANDOM_SEED", 1) as u64);
    let (size, shown) = (setting("PTX_RANDOM_SIZE", size), setting("PTX_RANDOM_SHOW", usize::MAX));
    let only = std::env::var("PTX_RANDOM_KIND").ok();
    let mut tally = Tally::default();
    while tally.asked < size {
        let (arch, version) = point(&mut random).ok_or(io::ErrorKind::NotFound)?;
        let tries = std::iter::repeat_with(|| make(arch, version, &mut random)).take(GROUP * MOST);
        let wanted = |(_, mistake): &Try| only.as_ref().is_none_or(|only| only == mistake);
        let all: Vec<Try> = tries.flatten().filter(wanted).take(GROUP).collect();
        let instructions: Vec<&Instruction> = all.iter().map(|(instruction, _)| instruction).collect();
        tally.add(&all, &compare(&judge, arch, version, &instructions)?, shown);
    }
    let Tally { wrong, taken, endless, asked } = &tally;
    println!(
        "{} of {asked} verdicts differ, {taken} are taken by both: {wrong:#?}; {endless}: {ENDLESS}",
        tally.total()
    );
    Ok(tally)
}
