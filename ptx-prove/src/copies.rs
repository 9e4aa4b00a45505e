//! The order of asynchronous copies: between `cp.async` and the wait for it, its thread does nothing that the copy could disturb.
//!
//! Then a copy is an access at its instruction. Copies that go on while their thread passes a barrier, as in a pipeline, are not described yet.

use crate::machine::Machine;
use crate::trace::{Kind, Mark, Step};
use ptx_core::ir::Space;

/// Copies that may go on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Pending {
    /// In no group yet.
    alone: bool,
    /// In a group.
    grouped: bool,
}

impl Pending {
    fn any(self) -> bool {
        self.alone || self.grouped
    }

    fn and(self, other: Pending) -> Pending {
        Pending { alone: self.alone || other.alone, grouped: self.grouped || other.grouped }
    }

    fn after(self, step: Step) -> Pending {
        match step {
            Step::Commit => Pending { alone: false, grouped: self.any() },
            Step::WaitGroups => Pending { grouped: false, ..self },
            Step::WaitAll => Pending::default(),
        }
    }
}

/// The first instruction that something may disturb, or that disturbs something: an access, a barrier or the end of the thread while copies go on.
pub(crate) fn disorder(machine: &Machine<'_>) -> Option<usize> {
    let nodes = &machine.trace.nodes;
    let mut starts = vec![Pending::default(); nodes.len()];
    let mut pending: Vec<usize> = (0..nodes.len()).collect();
    let mut found = None;
    while let Some(at) = pending.pop() {
        let (end, wrong) = walk(machine, at, starts[at]);
        found = found.or(wrong);
        for (next, _) in &nodes[at].next {
            let joined = starts[*next].and(end);
            if joined != starts[*next] {
                starts[*next] = joined;
                pending.push(*next);
            }
        }
    }
    found
}

/// The copies behind a node, and the first instruction in it that is out of order.
fn walk(machine: &Machine<'_>, at: usize, mut state: Pending) -> (Pending, Option<usize>) {
    let (trace, node) = (&machine.trace, &machine.trace.nodes[at]);
    let (mut wrong, mut last) = (None, 0);
    for mark in &node.marks {
        let disturbs = match mark {
            Mark::Copy(step) => {
                state = state.after(*step);
                None
            }
            Mark::Waits | Mark::Tensor(_) | Mark::Map(_) => None,
            Mark::Barrier(barrier) => Some(trace.barriers[*barrier].inst),
            Mark::Access(access) => {
                let access = &trace.accesses[*access];
                last = access.inst;
                if access.is_copy {
                    state.alone = true;
                    None
                } else {
                    let is_shared = machine.bases[access.base].space == Space::Shared;
                    (is_shared || !matches!(access.kind, Kind::Read | Kind::Fetch)).then_some(access.inst)
                }
            }
        };
        wrong = wrong.or(disturbs.filter(|_| state.any()));
    }
    let ends = node.may_end || node.next.is_empty();
    (state, wrong.or((ends && state.any()).then_some(last)))
}
