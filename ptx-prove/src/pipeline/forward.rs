//! Facts about registers, followed along all ways until they stay.

use super::code::successors;
use crate::flow::Flow;
use ptx_core::ir::Function;

/// Follows facts from the entry on: `step` takes them through an instruction, more than once where ways meet again, and `join` adds those of another way.
/// Returns the first instruction for which `step` is true.
pub(super) fn forward<F: Clone + PartialEq>(
    (function, flow): (&Function, &Flow),
    first: F,
    mut step: impl FnMut(usize, &mut F) -> bool,
    join: impl Fn(&mut F, &F),
) -> Option<usize> {
    let count = flow.ends.len();
    let mut starts: Vec<Option<F>> = vec![None; count];
    starts[0] = Some(first);
    let (mut pending, mut found) = (vec![0], None);
    while let Some(block) = pending.pop() {
        let Some(mut facts) = starts[block].clone() else { continue };
        for at in flow.graph.range(block) {
            if step(at, &mut facts) {
                found = Some(found.map_or(at, |first: usize| first.min(at)));
            }
        }
        for to in successors(flow, function, block).into_iter().filter(|to| *to < count) {
            let mut joined = starts[to].clone().unwrap_or_else(|| facts.clone());
            join(&mut joined, &facts);
            if starts[to].as_ref() != Some(&joined) {
                starts[to] = Some(joined);
                pending.push(to);
            }
        }
    }
    found
}
