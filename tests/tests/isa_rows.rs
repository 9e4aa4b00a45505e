//! The table against ptxas: each row is judged on every target, at its first version and just below it.
#![allow(clippy::panic, reason = "tests")]

use libtest_mimic::{Arguments, Failed, Trial};
use ptx_core::isa::{Arch, Version, table};
use ptx_tests::agreement::{Finding, compare};
use ptx_tests::instance::{Instance, instances};
use ptx_tests::instruction::Instruction;
use ptx_tests::judge::Judge;
use ptx_tests::ptxas;
use std::collections::{BTreeMap, BTreeSet};

/// Number of disagreements that a failure prints.
const SHOWN: usize = 40;

fn main() -> std::process::ExitCode {
    let trials = match Judge::find() {
        Some(judge) => files().into_iter().map(|(file, all)| trial(&judge, file, all)).collect(),
        None => vec![Trial::test(format!("rows (ignored: {})", ptxas::ABSENT), || Ok(())).with_ignored_flag(true)],
    };
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn files() -> BTreeMap<&'static str, Vec<Instance>> {
    let mut files: BTreeMap<_, Vec<Instance>> = BTreeMap::new();
    for row in table().rows() {
        files.entry(row.file).or_default().extend(instances(row));
    }
    files
}

fn trial(judge: &Judge, file: &'static str, all: Vec<Instance>) -> Trial {
    let judge = judge.clone();
    Trial::test(file, move || agree(&judge, &all))
}

fn agree(judge: &Judge, all: &[Instance]) -> Result<(), Failed> {
    let mut points: BTreeMap<(Arch, Version), Vec<&Instance>> = BTreeMap::new();
    for instance in all {
        for point in points_of(instance) {
            points.entry(point).or_default().push(instance);
        }
    }
    let (mut judged, mut wrong) = (0, Vec::new());
    for ((arch, version), instances) in points {
        judged += instances.len();
        let all: Vec<&Instruction> = instances.iter().map(|instance| &instance.instruction).collect();
        let outcome = compare(judge, arch, version, &all)?;
        let row = |at: usize| instances[at].row;
        let line = |found: Finding| format!("{} line {}: {}", row(found.at).file, row(found.at).line, found.text);
        wrong.extend(outcome.disagreements.into_iter().chain(outcome.endless).map(line));
    }
    match wrong.len() {
        0 => Ok(()),
        n => Err(format!("{n} of {judged} verdicts differ:\n{}", wrong[..n.min(SHOWN)].join("\n")).into()),
    }
}

/// Every target in the newest version, those that are gone with `PTX_THOROUGH=1`; and for each gate of the row and of its modifiers the first version, and the
/// one before, on the first target.
fn points_of(instance: &Instance) -> BTreeSet<(Arch, Version)> {
    let newest = table().targets.iter().map(|t| t.since).max();
    let targets = || table().targets.iter().filter(|t| t.assembled);
    let all = std::env::var_os("PTX_THOROUGH").is_some();
    // ptxas assembles modules of targets that are gone for the next one; before sm_20 its code generation differs.
    let judged = table().targets.iter().filter(|t| t.assembled || all && (20..75).contains(&t.arch.number));
    let mut points: BTreeSet<_> = judged.filter_map(|t| Some((t.arch, newest?))).collect();
    let members = instance.slots.iter().flatten().filter_map(|m| m.gate.as_ref());
    for (needed, since) in std::iter::once(&instance.row.gate).chain(members).flat_map(|g| &g.anyof) {
        let Some(first) = targets().find(|t| t.arch.provides(*needed)) else { continue };
        let since = (*since).max(first.since);
        points.insert((first.arch, since));
        points.extend(before(since).filter(|v| *v >= first.since).map(|v| (first.arch, v)));
    }
    points
}

/// The version that came out before this one, as far as it is in the same major version or is the last of the other.
fn before(version: Version) -> Option<Version> {
    const LAST: &[(u8, u8)] = &[(6, 5), (7, 8), (8, 8)];
    match version.minor.checked_sub(1) {
        Some(minor) => Some(Version { minor, ..version }),
        None => LAST.iter().find(|l| l.0 + 1 == version.major).map(|&(major, minor)| Version { major, minor }),
    }
}
