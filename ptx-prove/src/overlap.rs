//! Launches that may start while the one before them still runs: each thread waits for that one before it accesses global memory, and a thread of each
//! block before it ends. Copies from shared memory to a tensor map's need not be behind a wait of their own thread: the exploration of the pipeline finds
//! those that are behind the wait of another one.

use crate::finding::blank;
use crate::machine::Machine;
use crate::pipeline::Pipeline;
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
pub(crate) fn check(machine: &Machine<'_>, found: &mut BTreeMap<usize, Finding>, pipeline: Option<&Pipeline>) {
    let (mut early, ends) = early(machine);
    early.retain(|inst| !pipeline.is_some_and(|own| own.is_behind_wait(*inst)));
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
const ENDS: &str = "all threads of a block may end without `griddepcontrol.wait`, so that the next launch does not wait for the one before this";

/// Instructions that may access global memory before their thread waits; true if each thread of a block may end without that.
///
/// A block ends when all of its threads have, and a launch when all of its blocks have. So one thread of each block that never ends without waiting
/// keeps the launch from ending before the one in front of it.
fn early(machine: &Machine<'_>) -> (Set<usize>, bool) {
    let nodes = &machine.trace.nodes;
    let none = vec![false; machine.world.threads];
    // By node: the threads that may come to its start without having waited.
    let mut open = vec![none.clone(); nodes.len()];
    let mut pending = Vec::new();
    if let Some(first) = open.first_mut() {
        first.fill(true);
        pending.push(0);
    }
    while let Some(at) = pending.pop() {
        if nodes[at].marks.iter().any(|mark| matches!(mark, Mark::Waits)) {
            continue;
        }
        let here = comes(machine, &nodes[at], &open[at]);
        for (next, _) in &nodes[at].next {
            let is_new = here.iter().zip(&open[*next]).any(|(comes, known)| *comes && !known);
            if is_new {
                open[*next].iter_mut().zip(&here).for_each(|(known, comes)| *known |= comes);
                pending.push(*next);
            }
        }
    }
    let (mut found, mut ends) = (Set::default(), none);
    for (node, open) in nodes.iter().zip(open) {
        let here = comes(machine, node, &open);
        let has_waited = walk(machine, node, &here, &mut found);
        if !has_waited && (node.may_end || node.next.is_empty()) {
            ends.iter_mut().zip(&here).for_each(|(ends, comes)| *ends |= comes);
        }
    }
    (found, ends.iter().all(|ends| *ends))
}

/// Of some threads, those that the way to a node does not exclude.
fn comes(machine: &Machine<'_>, node: &Node, threads: &[bool]) -> Vec<bool> {
    let mut found = threads.to_vec();
    for step in node.path.steps() {
        if let Some(table) = step.cond.decided(machine.world.threads) {
            found.iter_mut().zip(table).for_each(|(own, comes)| *own &= comes);
        }
    }
    found
}

/// Adds the early accesses of a node, of threads that come to it without having waited; true if these have waited behind it.
fn walk(machine: &Machine<'_>, node: &Node, threads: &[bool], found: &mut Set<usize>) -> bool {
    if !threads.contains(&true) {
        return true;
    }
    for mark in &node.marks {
        match mark {
            Mark::Waits => return true,
            Mark::Map(at) => drop(found.insert(machine.trace.maps[*at].inst)),
            Mark::Access(at) => {
                let access = &machine.trace.accesses[*at];
                if access.kind != Kind::Fetch && machine.bases[access.base].space == Space::Global {
                    found.insert(access.inst);
                }
            }
            _ => {}
        }
    }
    false
}
