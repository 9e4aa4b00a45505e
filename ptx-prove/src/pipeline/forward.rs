//! Facts about registers, followed along all ways until they stay.

use super::code::successors;
use crate::flow::Flow;
use ptx_core::ir::Function;

/// Follows facts from the entry on: `step` takes them through an instruction, more than once where ways meet again, and `join` adds those of another way.
pub(super) fn forward<F: Clone + PartialEq>(
    (function, flow): (&Function, &Flow),
    first: F,
    mut step: impl FnMut(usize, &mut F),
    join: impl Fn(&mut F, &F),
) {
    let count = flow.ends.len();
    let mut starts: Vec<Option<F>> = vec![None; count];
    starts[0] = Some(first);
    let mut pending = vec![0];
    while let Some(block) = pending.pop() {
        let Some(mut facts) = starts[block].clone() else { continue };
        flow.graph.range(block).for_each(|at| step(at, &mut facts));
        for to in successors(flow, function, block).into_iter().filter(|to| *to < count) {
            let mut joined = starts[to].clone().unwrap_or_else(|| facts.clone());
            join(&mut joined, &facts);
            if starts[to].as_ref() != Some(&joined) {
                starts[to] = Some(joined);
                pending.push(to);
            }
        }
    }
}
