//! Launches that may start while the one before them still runs: each thread waits for that one before it accesses global memory.

use crate::finding::blank;
use crate::machine::Machine;
use crate::report::{Finding, Property, Verdict};
use crate::trace::{Kind, Mark, Node};
use ptx_core::check::waiting;
use ptx_core::hash::Set;
use ptx_core::ir::Space;
use std::collections::BTreeMap;

/// Returns true if the entry waits somewhere. The launch of a text that never does begins behind the one before.
pub(crate) fn waits(machine: &Machine<'_>) -> bool {
    waiting(machine.module).iter().any(|found| found.entry == machine.function.name)
}

/// Makes unknown what the launch before may disturb.
pub(crate) fn check(machine: &Machine<'_>, found: &mut BTreeMap<usize, Finding>) {
    let (early, ends) = early(machine);
    for (inst, finding) in found.iter_mut() {
        if early.contains(inst) && finding.verdict == Verdict::Proved {
            finding.verdict = Verdict::Unknown(EARLY.to_owned());
        }
    }
    // The next launch waits for this one alone.
    if ends {
        let verdict = Verdict::Unknown(ENDS.to_owned());
        found.entry(usize::MAX).or_insert_with(|| Finding { verdict, ..blank(machine, Property::Races, usize::MAX) });
    }
}

const EARLY: &str = "the launch before may still use this memory: let `griddepcontrol.wait` come first";
const ENDS: &str =
    "a thread may end without `griddepcontrol.wait`, so that the next launch does not wait for the one before this";

/// Instructions that may access global memory before their thread waits; true if a thread may end without that.
fn early(machine: &Machine<'_>) -> (Set<usize>, bool) {
    let nodes = &machine.trace.nodes;
    // True where all ways to the start of a node wait.
    let mut starts: Vec<bool> = nodes.iter().enumerate().map(|(at, _)| at != 0).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (at, node) in nodes.iter().enumerate() {
            if starts[at] || node.marks.iter().any(|mark| matches!(mark, Mark::Waits)) {
                continue;
            }
            for (next, _) in &node.next {
                changed |= std::mem::replace(&mut starts[*next], false);
            }
        }
    }
    let mut found = Set::default();
    let mut ends = false;
    for (node, start) in nodes.iter().zip(starts) {
        ends |= !walk(machine, node, start, &mut found) && (node.may_end || node.next.is_empty());
    }
    (found, ends)
}

/// Adds the early accesses of a node; true if its thread has waited behind it.
fn walk(machine: &Machine<'_>, node: &Node, start: bool, found: &mut Set<usize>) -> bool {
    let mut waited = start;
    for mark in &node.marks {
        match mark {
            Mark::Waits => waited = true,
            Mark::Map(at) if !waited => drop(found.insert(machine.trace.maps[*at].inst)),
            Mark::Access(at) if !waited => {
                let access = &machine.trace.accesses[*at];
                if access.kind != Kind::Fetch && machine.bases[access.base].space == Space::Global {
                    found.insert(access.inst);
                }
            }
            _ => {}
        }
    }
    waited
}
