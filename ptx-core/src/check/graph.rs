//! The basic blocks of a function and the edges between them. What flows along them belongs to the rules.

use crate::ir::{Function, Inst, LabelId, Operand};
use ptx_target::sort::SortSmall;

/// Instructions behind which a thread does not go on, unless they are guarded.
const ENDS: &[&str] = &["ret", "exit", "bra", "brx"];

/// The basic blocks of a function.
pub struct Graph {
    /// The first instruction of each block, and one past the last of all.
    pub starts: Vec<usize>,
    /// Successors of each block.
    pub next: Vec<Vec<usize>>,
    /// Which blocks the entry reaches.
    pub(super) reached: Vec<bool>,
    /// Which labels something names.
    pub(super) used: Vec<bool>,
}

impl Graph {
    /// Of a function.
    pub fn new(function: &Function) -> Graph {
        let end = function.insts.len();
        let mut starts: Vec<usize> = function.labels.iter().map(|l| (l.at as usize).min(end)).collect();
        starts.extend((0..end).filter(|i| ends(&function.insts[*i])).map(|i| i + 1));
        starts.extend([0, end]);
        starts.sort_small();
        starts.dedup();
        let block_at = |inst: usize| starts.partition_point(|s| *s <= inst) - 1;
        let mut used = vec![false; function.labels.len()];
        let mut next = Vec::new();
        for pair in starts.windows(2) {
            let mut to = Vec::new();
            let last = &function.insts[pair[1] - 1];
            last.operands.iter().for_each(|o| {
                labels(o, function, &mut |label| {
                    let at = function.labels.get(label.index()).map(|l| l.at as usize);
                    to.extend(at.filter(|at| *at < end).map(block_at));
                });
            });
            if (!ends(last) || last.guard.is_some()) && pair[1] < end {
                to.push(block_at(pair[1]));
            }
            next.push(to);
        }
        let operands = function.insts.iter().flat_map(|i| &i.operands);
        operands.for_each(|o| {
            labels(o, function, &mut |label| used.iter_mut().skip(label.index()).take(1).for_each(|u| *u = true));
        });
        let reached = reach(&next, vec![0]);
        Graph { starts, next, reached, used }
    }

    /// The instructions of a block.
    pub fn range(&self, block: usize) -> std::ops::Range<usize> {
        self.starts[block]..self.starts[block + 1]
    }

    /// The block of an instruction.
    pub fn block_of(&self, inst: usize) -> usize {
        self.starts.partition_point(|s| *s <= inst) - 1
    }

    /// The blocks that a thread can come to when it leaves this one.
    pub(super) fn behind(&self, block: usize) -> Vec<bool> {
        reach(&self.next, self.next[block].clone())
    }

    /// The blocks behind which a thread can come to one of those.
    pub(super) fn lead_to(&self, those: &[bool]) -> Vec<bool> {
        let back = reversed(&self.next);
        let before = (0..those.len()).filter(|b| those[*b]).flat_map(|b| back[b].iter().copied());
        reach(&back, before.collect())
    }
}

/// Returns true if it is one of those that end a block.
pub fn ends(inst: &Inst) -> bool {
    inst.row.is_some_and(|r| ENDS.contains(&r.opcode()))
}

/// The labels that an operand names, through a list of targets too.
fn labels(operand: &Operand, function: &Function, visit: &mut dyn FnMut(LabelId)) {
    match operand {
        Operand::Label(label) => visit(*label),
        Operand::Targets(id) => {
            for one in function.targets.get(id.index()).into_iter().flatten() {
                if let Operand::Label(label) = one {
                    visit(*label);
                }
            }
        }
        _ => {}
    }
}

/// The edges of a graph, the other way around.
pub(super) fn reversed(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut back = vec![Vec::new(); next.len()];
    next.iter().enumerate().for_each(|(from, to)| to.iter().for_each(|to| back[*to].push(from)));
    back
}

/// The nodes that can be reached from the pending ones, and those themselves.
pub(super) fn reach(next: &[Vec<usize>], mut pending: Vec<usize>) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    while let Some(node) = pending.pop() {
        if reached.get(node) == Some(&false) {
            reached[node] = true;
            pending.extend(&next[node]);
        }
    }
    reached
}

/// The state at the start of each reachable block: `step` over the instructions, `meet` where edges join; `meet`
/// returns true if it changed its first argument. States must grow, and not for ever.
pub(super) fn forward<S: Clone>(
    graph: &Graph,
    entry: S,
    step: impl Fn(&mut S, usize),
    meet: impl Fn(&mut S, &S) -> bool,
) -> Vec<Option<S>> {
    let mut starts: Vec<Option<S>> = vec![None; graph.next.len()];
    starts.first_mut().into_iter().for_each(|s| *s = Some(entry.clone()));
    let mut pending = vec![0];
    while let Some(block) = pending.pop() {
        let Some(mut state) = starts.get(block).cloned().flatten() else { continue };
        graph.range(block).for_each(|at| step(&mut state, at));
        for next in &graph.next[block] {
            let changed = match &mut starts[*next] {
                Some(old) => meet(old, &state),
                none => none.replace(state.clone()).is_none(),
            };
            if changed && !pending.contains(next) {
                pending.push(*next);
            }
        }
    }
    starts
}
