//! Pass `flow`: branches and labels to loops, labeled blocks, `if` and `else`. No instruction moves.
//!
//! The order of the code decides: a label that is jumped to from behind starts a loop that reaches to the last such
//! jump, one that is jumped to from in front ends a block that begins at the first such jump. Blocks and loops are grown
//! until they nest; a label inside of a loop that is jumped to from outside has no such shape and stays, as do the
//! labels of `brx.idx`.

use super::body::{Body, Expr, Inst, Jump, Node, Piece, each_block};
use ptx_core::sort::SortSmall;
use std::collections::{HashMap, HashSet};

/// Raises the body. Returns how many loops and blocks it made.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut regions = regions(&body.nodes);
    regions.sort_small_by_key(|r| (r.start, std::cmp::Reverse(r.end), r.is_loop));
    let nodes = std::mem::take(&mut body.nodes);
    let raised = regions.iter().map(|region| region.label).collect();
    let builder = Builder { nodes: &nodes, regions: &regions, raised: &raised };
    let Some(raised) = builder.build(0, nodes.len(), 0, &mut Vec::new()) else {
        body.nodes = nodes;
        return 0;
    };
    body.nodes = raised;
    for _ in 0..2 {
        each_block(&mut body.nodes, &mut |block| block.iter_mut().for_each(if_else));
    }
    each_block(&mut body.nodes, &mut unwrap);
    if matches!(body.nodes.last(), Some(Node::Jump(None, Jump::Return))) {
        body.nodes.pop();
    }
    regions.len()
}

/// A range of statements that a label stands for.
#[derive(Clone, Copy, Debug)]
struct Region {
    start: usize,
    end: usize,
    label: usize,
    is_loop: bool,
}

/// The label that an instruction jumps to.
fn target(node: &Node) -> Option<(Option<(usize, bool)>, usize)> {
    let Node::Inst(Inst { guard, name, operands }) = node else { return None };
    let plain = name == "bra" || (name == "bra.uni" && guard.is_none());
    match operands.as_slice() {
        [operand] if plain => match operand.as_slice() {
            [Piece::Label(label)] => Some((*guard, *label)),
            _ => None,
        },
        _ => None,
    }
}

/// The loops and blocks of a body, which nest. Labels that a table of targets names are none, nor those inside of a loop
/// that something jumps to from outside, nor those of regions in which such labels stand.
fn regions(nodes: &[Node]) -> Vec<Region> {
    let place: HashMap<usize, usize> = labels(nodes).collect();
    let mut kept = HashSet::new();
    for node in nodes.iter().filter(|node| target(node).is_none()) {
        node.pieces(&mut |piece| {
            if let Piece::Label(label) = piece {
                kept.insert(*label);
            }
        });
    }
    let mut jumps: Vec<(usize, usize)> =
        nodes.iter().enumerate().filter_map(|(at, node)| Some((at, target(node)?.1))).collect();
    kept.extend(jumps.iter().map(|(_, label)| *label).filter(|label| !place.contains_key(label)));
    // The language writes no jump to what follows.
    let mut uses: HashMap<usize, usize> = HashMap::new();
    jumps.iter().for_each(|(_, label)| *uses.entry(*label).or_default() += 1);
    let follows = |(from, label): &(usize, usize)| {
        let between = place.get(label).and_then(|to| nodes.get(from + 1..*to));
        let plain = matches!(&nodes[*from], Node::Inst(inst) if inst.guard.is_none());
        plain && between.is_some_and(|nodes| nodes.iter().all(|node| matches!(node, Node::Label(_))))
    };
    kept.extend(jumps.iter().filter(|jump| follows(jump) && uses[&jump.1] > 1).map(|(_, label)| *label));
    jumps.retain(|jump| !(follows(jump) && uses[&jump.1] == 1));
    // A code of jumps across each other has no shape that is worth the time to look for.
    let mut effort = (jumps.len() + nodes.len()).saturating_mul(EFFORT);
    loop {
        effort = effort.saturating_sub(jumps.len() + nodes.len());
        let mut regions: Vec<Region> = Vec::new();
        let mut known: HashMap<(usize, bool), usize> = HashMap::new();
        for &(from, label) in jumps.iter().filter(|(_, label)| !kept.contains(label)) {
            let to = place[&label];
            let (start, end, is_loop) = if to <= from { (to, from + 1, true) } else { (from, to, false) };
            let at = *known.entry((label, is_loop)).or_insert(regions.len());
            match regions.get_mut(at) {
                Some(region) => {
                    region.start = region.start.min(start);
                    region.end = region.end.max(end);
                }
                None => regions.push(Region { start, end, label, is_loop }),
            }
        }
        let before = kept.len();
        kept.extend(nest(&mut regions, &mut effort));
        if effort == 0 {
            return Vec::new();
        }
        if kept.len() == before {
            kept.extend(too_deep(&regions));
        }
        // How many labels that stay are in front of each statement: none of those is a region's own.
        let stay = nodes.iter().scan(0usize, |count, node| {
            *count += usize::from(matches!(node, Node::Label(label) if kept.contains(label)));
            Some(*count)
        });
        let stay: Vec<usize> = std::iter::once(0).chain(stay).collect();
        let holds = |region: &Region| stay[region.end] > stay[region.start];
        if kept.len() == before {
            kept.extend(regions.iter().filter(|region| holds(region)).map(|region| region.label).collect::<Vec<_>>());
        }
        if kept.len() == before {
            return regions;
        }
    }
}

/// The labels and where they stand.
fn labels(nodes: &[Node]) -> impl Iterator<Item = (usize, usize)> {
    nodes
        .iter()
        .enumerate()
        .filter_map(|(at, node)| if let Node::Label(label) = node { Some((*label, at)) } else { None })
}

/// Maximum number of visits to all statements until the regions nest. Compilers' code takes some ten times.
const EFFORT: usize = 1024;

/// Regions inside of each other beyond this stay labels: nobody reads them, and all who do recurse.
const DEEPEST: usize = 64;

/// The labels of regions that nest too deeply.
fn too_deep(regions: &[Region]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut deep = Vec::new();
    for region in regions {
        while ends.last().is_some_and(|end| *end <= region.start) {
            ends.pop();
        }
        if ends.len() >= DEEPEST {
            deep.push(region.label);
        } else {
            ends.push(region.end);
        }
    }
    deep
}

/// Grows regions until they nest. The labels of those that jump into a loop: they cannot be regions.
/// `effort` becomes 0 if that takes too long.
///
/// One walk from the front does: what it has passed nests, and neither change makes anything there overlap. A block that is grown to the
/// start of `x` holds all that began since, because whatever ends later would be what it overlaps first; and a loop that is grown to the
/// end of `y` stays inside of those around it for the same reason.
fn nest(regions: &mut [Region], effort: &mut usize) -> Vec<usize> {
    regions.sort_small_by_key(|r| (r.start, std::cmp::Reverse(r.end)));
    // The regions around the current one, by their place. The outer ones end later.
    let (mut open, mut dropped): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for b in 0..regions.len() {
        while open.last().is_some_and(|a| regions[*a].end <= regions[b].start) {
            open.pop();
        }
        let mut at = open.partition_point(|a| regions[*a].end >= regions[b].end);
        while let Some(a) = open.get(at).copied() {
            *effort = effort.saturating_sub(1);
            let (x, y) = (regions[a], regions[b]);
            match (x.is_loop, y.is_loop) {
                _ if x.start == y.start => break,
                (true, true) => regions[a].end = y.end,
                (_, false) => regions[b].start = x.start,
                (false, true) => {
                    dropped.push(x.label);
                    open.remove(at);
                    continue;
                }
            }
            at += usize::from(y.is_loop);
        }
        *effort = effort.saturating_sub(1);
        if *effort == 0 {
            break;
        }
        open.insert(at, b);
    }
    regions.sort_small_by_key(|r| (r.start, std::cmp::Reverse(r.end)));
    dropped
}

struct Builder<'n> {
    nodes: &'n [Node],
    /// Outer ones before inner ones.
    regions: &'n [Region],
    /// The labels of regions; the others stay.
    raised: &'n HashSet<usize>,
}

impl Builder<'_> {
    /// The statements `from..to`; regions from `next` on are not built yet, `open` are those around.
    fn build(&self, from: usize, to: usize, next: usize, open: &mut Vec<Region>) -> Option<Vec<Node>> {
        let (mut out, mut at, mut next) = (Vec::new(), from, next);
        while at < to {
            while self.regions.get(next).is_some_and(|r| r.start < at) {
                next += 1;
            }
            if let Some(region) = self.regions.get(next).filter(|r| r.start == at) {
                open.push(*region);
                let mut inner = self.build(at, region.end, next + 1, open)?;
                open.pop();
                at = region.end;
                out.push(match region.is_loop {
                    true => {
                        close(&mut inner, region.label);
                        Node::Loop(region.label, inner)
                    }
                    false => Node::Block(region.label, inner),
                });
                // Regions inside of this one are built.
                while self.regions.get(next).is_some_and(|r| r.start < at) {
                    next += 1;
                }
                continue;
            }
            out.extend(self.statement(&self.nodes[at], open)?);
            at += 1;
        }
        Some(out)
    }

    fn statement(&self, node: &Node, open: &[Region]) -> Option<Option<Node>> {
        if let Node::Label(label) = node {
            return Some((!self.raised.contains(label)).then(|| node.clone()));
        }
        if let Some((guard, label)) = target(node).filter(|(_, label)| self.raised.contains(label)) {
            let guard = guard.map(|(reg, negated)| (Expr::reg(reg), negated));
            let region = open.iter().rev().find(|r| r.label == label)?;
            let jump = if region.is_loop { Jump::Continue(label) } else { Jump::Break(label) };
            return Some(Some(Node::Jump(guard, jump)));
        }
        match node {
            Node::Inst(Inst { guard, name, operands }) if name == "ret" && operands.is_empty() => {
                let guard = guard.map(|(reg, negated)| (Expr::reg(reg), negated));
                Some(Some(Node::Jump(guard, Jump::Return)))
            }
            other => Some(Some(other.clone())),
        }
    }
}

/// The end of a loop jumps to its start by itself; what falls out of it breaks.
fn close(inner: &mut Vec<Node>, label: usize) {
    match inner.last() {
        Some(Node::Jump(None, Jump::Continue(to))) if *to == label => {
            inner.pop();
        }
        Some(last) if ends(last) => {}
        _ => inner.push(Node::Jump(None, Jump::Break(label))),
    }
}

/// Returns true if nothing runs behind a statement.
fn ends(node: &Node) -> bool {
    match node {
        Node::Jump(None, _) => true,
        Node::Inst(inst) => inst.ends(),
        _ => false,
    }
}

/// Number of times that a block is left by name.
fn uses(nodes: &[Node], label: usize) -> usize {
    let own = |node: &Node| {
        usize::from(matches!(node, Node::Jump(_, Jump::Break(to) | Jump::Continue(to)) if *to == label))
            + node.blocks().into_iter().map(|block| uses(block, label)).sum::<usize>()
    };
    nodes.iter().map(own).sum()
}

/// `'a: { if p { break 'a } A }` is `if !p { A }`; with a last `break 'b` out of a block around it and a B behind it,
/// `if !p { A } else { B }`.
fn if_else(node: &mut Node) {
    let Node::Block(end, outer) = node else { return };
    let end = *end;
    if let Some(raised) = lone_if(end, outer) {
        *node = raised;
        return;
    }
    let Some(Node::If(condition, negated, then, otherwise)) = outer.first() else { return };
    let leaves = matches!(then.last(), Some(Node::Jump(None, Jump::Break(to))) if *to == end);
    if !leaves || !otherwise.is_empty() || then.len() < 2 || outer.len() < 2 {
        return;
    }
    let (condition, negated, mut then) = (condition.clone(), *negated, then.clone());
    then.pop();
    let behind = outer.split_off(1);
    let both = Node::If(condition, negated, then, behind);
    *node = match uses(std::slice::from_ref(&both), end) {
        0 => both,
        _ => Node::Block(end, vec![both]),
    };
}

fn lone_if(label: usize, nodes: &[Node]) -> Option<Node> {
    let Some(Node::Jump(Some((condition, negated)), Jump::Break(to))) = nodes.first() else { return None };
    let then = nodes[1..].to_vec();
    // `if c { return }` is a jump with a guard, which this is not.
    let jumps = matches!(then.as_slice(), [Node::Jump(None, _)] | []);
    let sole = *to == label && uses(&then, label) == 0 && !jumps;
    sole.then(|| Node::If(condition.clone(), !negated, then, Vec::new()))
}

/// Opens blocks that nothing leaves by name.
fn unwrap(block: &mut Vec<Node>) {
    let nodes = std::mem::take(block);
    for node in nodes {
        match node {
            Node::Block(label, inner) if uses(&inner, label) == 0 => block.extend(inner),
            other => block.push(other),
        }
    }
}
