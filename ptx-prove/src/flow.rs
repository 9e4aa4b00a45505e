//! The shape of a function: basic blocks in an order in which predecessors come first, and its loops.

use crate::live::Live;
use ptx_core::check::access;
use ptx_core::check::graph::Graph;
use ptx_core::ir::{Function, Inst, Operand};
use ptx_core::isa::SpecialRegister;

/// The end of a basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The next block follows.
    Fall,
    /// A jump, perhaps guarded, to a block.
    Jump(usize),
    /// Threads end.
    Leave,
    /// Anything else.
    Other,
}

/// Finds the end of a block by its last instruction.
type Ending = fn(&Graph, &Function, &Inst) -> End;

/// Instructions that end a block, and what threads do there.
const ENDS: [(&str, Ending); 4] =
    [("ret", |_, _, _| End::Leave), ("exit", |_, _, _| End::Leave), ("trap", |_, _, _| End::Leave), ("bra", jump)];
/// Of these, the one that ends the whole launch with an error.
const ABORTS: &str = "trap";

fn jump(graph: &Graph, function: &Function, inst: &Inst) -> End {
    let Some(Operand::Label(label)) = inst.operands.first() else { return End::Other };
    match function.labels.get(label.index()) {
        Some(label) if (label.at as usize) < function.insts.len() => End::Jump(graph.block_of(label.at as usize)),
        Some(_) => End::Leave,
        None => End::Other,
    }
}

/// A natural loop.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// By block.
    pub(crate) blocks: Vec<bool>,
}

/// The shape of a function.
pub(crate) struct Flow {
    pub(crate) graph: Graph,
    pub(crate) ends: Vec<End>,
    /// The place of each block in an order in which predecessors come first, jumps back aside.
    pub(crate) order: Vec<usize>,
    /// The loop of which a block is the header.
    pub(crate) loops: Vec<Option<Loop>>,
    /// True if a thread that goes on at this block can reach one of the marked instructions.
    pub(crate) reaches_barrier: Vec<bool>,
    /// True if a thread that goes on at this block reaches no barrier, but work behind one: it passes by the barrier.
    pub(crate) passes_by: Vec<bool>,
    /// True if a block ends at an instruction that ends the launch with an error, perhaps guarded.
    pub(crate) traps: Vec<bool>,
    /// True if every thread that goes on at this block ends the launch with an error, and comes to no barrier before.
    pub(crate) aborts: Vec<bool>,
    /// By dimension: true if the function reads the place of its block there, or the extent of the grid.
    pub(crate) reads_block: [bool; 3],
    /// True if every loop has one entry and no jump is computed.
    pub(crate) is_structured: bool,
    /// The blocks that follow a block.
    pub(crate) next: Vec<Vec<usize>>,
    pub(crate) live: Live,
}

impl Flow {
    /// The instructions behind one, in its basic block.
    pub(crate) fn rest_of_block(&self, from: usize) -> std::ops::Range<usize> {
        let mut ends = (0..self.ends.len()).map(|block| self.graph.range(block)).filter(|range| range.contains(&from));
        ends.next().map_or(from..from, |range| from..range.end)
    }
}

impl Flow {
    pub(crate) fn new(function: &Function, is_barrier: &dyn Fn(&Inst) -> bool) -> Flow {
        let graph = Graph::new(function);
        let count = graph.next.len();
        let ends: Vec<End> = (0..count).map(|block| end(&graph, function, block)).collect();
        let next: Vec<Vec<usize>> = (0..count).map(|block| successors(&graph, function, &ends, block)).collect();
        let (order, backward) = depth_first(&next);
        let mut loops: Vec<Option<Loop>> = vec![None; count];
        let mut is_structured = !ends.contains(&End::Other);
        for (from, header) in backward {
            is_structured &= dominates(&next, header, from);
            let blocks = body(&next, header, from);
            match &mut loops[header] {
                Some(found) => found.blocks.iter_mut().zip(blocks).for_each(|(old, new)| *old |= new),
                none => *none = Some(Loop { blocks }),
            }
        }
        let holds = |block: usize| function.insts[graph.range(block)].iter().any(is_barrier);
        let reaches_barrier =
            (0..count).map(|block| reach(&next, block, None).iter().enumerate().any(|(b, r)| *r && holds(b)));
        let reaches_barrier = reaches_barrier.collect();
        let mut behind = vec![false; count];
        for block in (0..count).filter(|block| holds(*block)) {
            for after in &next[block] {
                behind.iter_mut().zip(reach(&next, *after, None)).for_each(|(old, new)| *old |= new);
            }
        }
        let works = |block: usize| graph.range(block).len() > 1 || ends[block] != End::Leave;
        let passes = |block: usize| {
            let reached = reach(&next, block, None);
            (0..count).any(|at| reached[at] && behind[at] && works(at))
                && !(0..count).any(|at| reached[at] && holds(at))
        };
        let passes_by = (0..count).map(passes).collect();
        let opcode = |block: usize| function.insts.get(graph.starts[block + 1] - 1)?.row.map(|row| row.opcode());
        let traps: Vec<bool> = (0..count).map(|block| opcode(block) == Some(ABORTS)).collect();
        let aborts = aborts(&next, &traps, &holds);
        let reads_block = std::array::from_fn(|dimension| reads(function, dimension));
        let live = Live::new(function, &graph, &next);
        Flow {
            graph,
            ends,
            order,
            loops,
            reaches_barrier,
            passes_by,
            traps,
            aborts,
            reads_block,
            is_structured,
            next,
            live,
        }
    }
}

/// The blocks from which every way ends in a trap, without a barrier and without a turn of a loop.
fn aborts(next: &[Vec<usize>], traps: &[bool], holds: &dyn Fn(usize) -> bool) -> Vec<bool> {
    let mut found = vec![false; next.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..next.len()).filter(|block| !holds(*block)) {
            let is = match next[block].as_slice() {
                [] => traps[block],
                next => next.iter().all(|to| found[*to]),
            };
            changed |= is && !std::mem::replace(&mut found[block], true);
        }
    }
    found
}

/// Special registers about the place of a block.
const PLACES: [&str; 6] = ["ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_ctarank"];

/// Returns true if the function reads a block's place in a dimension; x is always one.
fn reads(function: &Function, dimension: usize) -> bool {
    let names_it = |register: &SpecialRegister| {
        let name = register.name.trim_start_matches('%');
        let (name, component) = name.split_once('.').unwrap_or((name, register.component));
        PLACES.contains(&name) && (component.is_empty() || component == ["x", "y", "z"][dimension])
    };
    let mut found = dimension == 0;
    for operand in function.insts.iter().flat_map(|inst| &inst.operands) {
        access::specials(operand, &mut |register| found |= names_it(register));
    }
    found
}

fn end(graph: &Graph, function: &Function, block: usize) -> End {
    let Some(last) = function.insts.get(graph.starts[block + 1] - 1) else { return End::Other };
    let Some(row) = last.row else { return End::Other };
    match ENDS.iter().find(|(opcode, _)| *opcode == row.opcode()) {
        Some((_, of)) => of(graph, function, last),
        None if ptx_core::check::graph::ends(last) => End::Other,
        None => End::Fall,
    }
}

/// The blocks that follow.
fn successors(graph: &Graph, function: &Function, ends: &[End], block: usize) -> Vec<usize> {
    let mut next = Vec::new();
    if let End::Jump(to) = ends[block] {
        next.push(to);
    }
    let guarded = function.insts.get(graph.starts[block + 1] - 1).is_some_and(|last| last.guard.is_some());
    if (ends[block] == End::Fall || guarded) && block + 1 < graph.next.len() {
        next.push(block + 1);
    }
    next
}

/// The place of each block, and the jumps back. Blocks that nothing reaches come last.
fn depth_first(next: &[Vec<usize>]) -> (Vec<usize>, Vec<(usize, usize)>) {
    let count = next.len();
    let (mut open, mut seen) = (vec![false; count], vec![false; count]);
    let (mut finished, mut backward) = (Vec::new(), Vec::new());
    let mut stack = vec![(0, 0)];
    if count > 0 {
        (seen[0], open[0]) = (true, true);
    }
    while let Some((block, at)) = stack.pop().filter(|_| count > 0) {
        match next[block].get(at) {
            Some(to) => {
                stack.push((block, at + 1));
                if open[*to] {
                    backward.push((block, *to));
                } else if !seen[*to] {
                    (seen[*to], open[*to]) = (true, true);
                    stack.push((*to, 0));
                }
            }
            None => {
                open[block] = false;
                finished.push(block);
            }
        }
    }
    let mut order = vec![usize::MAX; count];
    finished.iter().rev().enumerate().for_each(|(place, block)| order[*block] = place);
    (order, backward)
}

/// The blocks that a block reaches, itself included, without passing one.
fn reach(next: &[Vec<usize>], from: usize, without: Option<usize>) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    let mut pending = vec![from];
    while let Some(block) = pending.pop() {
        if Some(block) != without && !std::mem::replace(&mut reached[block], true) {
            pending.extend(&next[block]);
        }
    }
    reached
}

fn dominates(next: &[Vec<usize>], header: usize, block: usize) -> bool {
    header == 0 || !reach(next, 0, Some(header))[block]
}

/// The blocks of the loop of a jump back.
fn body(next: &[Vec<usize>], header: usize, from: usize) -> Vec<bool> {
    let mut back = vec![Vec::new(); next.len()];
    next.iter().enumerate().for_each(|(from, to)| to.iter().for_each(|to| back[*to].push(from)));
    let mut body = reach(&back, from, Some(header));
    body[header] = true;
    body
}
