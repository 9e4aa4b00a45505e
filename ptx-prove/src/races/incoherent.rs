//! Reads that need not see what the launch writes: those of caches that are not coherent. No barrier orders them, not even that of a thread with itself.

use super::{Pair, Turns, Which, conflict, each_once};
use crate::machine::Machine;
use crate::report::Verdict;
use crate::trace::Kind;

/// Modifiers and opcodes of such loads.
const MODIFIER: &str = "nc";
const OPCODE: &str = "ldu";

const MISSING: &str =
    "this reads by a cache that is not coherent, and need not see what the launch writes to these bytes";

/// Pairs of such a read and a write by a thread of the block. Those of two blocks are compared as all others are.
pub(super) fn pairs(machine: &Machine<'_>) -> Vec<Pair> {
    let trace = &machine.trace;
    let is_one = |at: &usize| {
        let access = &trace.accesses[*at];
        let site = machine.site(access.inst).filter(|_| access.kind == Kind::Read);
        site.is_some_and(|site| site.is(MODIFIER) || site.row.opcode() == OPCODE)
    };
    let accesses = each_once(machine);
    let turns: Turns = (0..trace.loops.len()).map(|own| (own, None)).collect();
    let mut found = Vec::new();
    for first in accesses.iter().copied().filter(is_one) {
        for second in accesses.iter().copied().filter(|second| conflict(machine, first, *second, true)) {
            let of = |which| Pair { which, turns: turns.clone(), ..Pair::of_blocks(first, second) };
            found.extend([Which::Thread, Which::Block].map(of));
        }
    }
    found
}

/// A verdict on such a pair: what is read is not known, which is no race.
pub(super) fn verdict(decided: Verdict) -> Verdict {
    match decided {
        Verdict::Refuted(_) => Verdict::Unknown(MISSING.to_owned()),
        other => other,
    }
}
