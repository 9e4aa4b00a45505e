//! Pass `lets`: a register is declared where it lives: in the innermost block that holds every mention, in front of the
//! first, or by that first one if it is an assignment. Without the pass everything is declared at the top.

use super::body::{Body, For, Node, Piece, is_ptx};
use super::print::declared_width;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Declares all registers at the top.
pub(super) fn at_top(body: &mut Body) {
    let mut nodes = std::mem::take(&mut body.nodes);
    let mut declared = (0..body.regs.len()).filter(|reg| body.regs[*reg].param).collect();
    top(body, &mut nodes, None, &mut declared);
    body.nodes = nodes;
}

/// Declares in front of statements what they name; the own registers of a `for` at its top.
fn top(body: &Body, nodes: &mut Vec<Node>, within: Option<&For>, declared: &mut BTreeSet<usize>) {
    let mut all = BTreeSet::new();
    nodes.iter().for_each(|node| outside(body, node, &mut all));
    all.retain(|reg| within.is_none_or(|of| of.owns(body, *reg)) && declared.insert(*reg));
    for node in nodes.iter_mut() {
        tops(body, node, declared);
    }
    if !all.is_empty() {
        nodes.insert(0, Node::Declare(all.into_iter().collect()));
    }
}

fn tops(body: &Body, node: &mut Node, declared: &mut BTreeSet<usize>) {
    if let Node::For(of) = node {
        let whole = of.clone();
        return top(body, &mut of.body, Some(&whole), declared);
    }
    node.blocks_mut().into_iter().flatten().for_each(|node| tops(body, node, declared));
}

/// Names that a statement uses, except a `for`'s own.
fn outside(body: &Body, node: &Node, all: &mut BTreeSet<usize>) {
    let mut named = BTreeSet::new();
    node.pieces(&mut |piece| {
        body.registers(piece, &mut |reg| {
            named.insert(variable(body, reg));
        })
    });
    node.blocks().into_iter().flatten().for_each(|inner| outside(body, inner, &mut named));
    if let Node::For(of) = node {
        named.retain(|reg| !of.owns(body, *reg));
    }
    all.extend(named);
}

impl For {
    /// Returns true if a register, or the array that it stands for, is another one in each turn.
    fn owns(&self, body: &Body, reg: usize) -> bool {
        match body.regs[reg].element {
            Some((array, _)) => body.arrays[array].regs.iter().all(|reg| self.own.contains(reg)),
            None => self.own.contains(&reg),
        }
    }
}

/// Declares each where it lives.
pub(super) fn pass(body: &mut Body) {
    let mut nodes = std::mem::take(&mut body.nodes);
    let mut total = HashMap::new();
    count(body, &nodes, &mut total);
    let mut declared = (0..body.regs.len()).filter(|reg| body.regs[*reg].param).collect();
    block(body, &mut nodes, &total, &mut declared);
    body.nodes = nodes;
}

/// The first register of an array stands for all of it.
fn variable(body: &Body, reg: usize) -> usize {
    body.regs[reg].element.map_or(reg, |(array, _)| body.arrays[array].regs[0])
}

fn count(body: &Body, nodes: &[Node], total: &mut HashMap<usize, usize>) {
    for node in nodes {
        node.mentions(body, &mut |reg| *total.entry(variable(body, reg)).or_default() += 1);
    }
}

fn block(body: &Body, nodes: &mut Vec<Node>, total: &HashMap<usize, usize>, declared: &mut BTreeSet<usize>) {
    let mut here: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (reg, (at, inside)) in first_mentions(body, nodes, total) {
        if !inside && declared.insert(reg) {
            here.entry(at).or_default().push(reg);
        }
    }
    // Too rare for a place of its own: the block around declares it.
    for reg in nodes.iter().flat_map(|node| on_both_sides(body, node)) {
        if declared.insert(reg) {
            here.entry(0).or_default().push(reg);
        }
    }
    for node in nodes.iter_mut() {
        for inner in node.blocks_mut() {
            block(body, inner, total, declared);
        }
    }
    // What instructions name is declared in front of all instructions that stand together.
    let mut placed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, regs) in here {
        let start = (0..at).rev().take_while(|n| is_ptx(&nodes[*n])).last().filter(|_| is_ptx(&nodes[at]));
        placed.entry(start.unwrap_or(at)).or_default().extend(regs);
    }
    placed.retain(|at, regs| {
        declare_by_value(body, &mut nodes[*at], regs);
        !regs.is_empty()
    });
    let mut declarations = together(body, placed).into_iter().peekable();
    let old = std::mem::take(nodes);
    nodes.reserve(old.len() + declarations.len());
    for (at, node) in old.into_iter().enumerate() {
        nodes.extend(declarations.next_if(|(place, _)| *place == at).map(|(_, regs)| Node::Declare(regs)));
        nodes.push(node);
    }
}

/// The first mention of each register, and whether the blocks of one statement contain all its mentions.
fn first_mentions(body: &Body, nodes: &[Node], total: &HashMap<usize, usize>) -> BTreeMap<usize, (usize, bool)> {
    let mut first: BTreeMap<usize, (usize, bool)> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut here: HashMap<usize, usize> = HashMap::new();
        node.mentions(body, &mut |reg| *here.entry(variable(body, reg)).or_default() += 1);
        for (reg, count) in here {
            let each = if let Node::For(of) = node { of.owns(body, reg) } else { true };
            let inside = !node.blocks().is_empty() && total.get(&reg) == Some(&count) && !own(body, node, reg) && each;
            first.entry(reg).or_insert((at, inside));
        }
    }
    first
}

/// The registers that both sides of an `if` name.
fn on_both_sides(body: &Body, node: &Node) -> Vec<usize> {
    let names = |side: &Vec<Node>| {
        let mut names = BTreeSet::new();
        let mut note = |reg| {
            names.insert(variable(body, reg));
        };
        side.iter().for_each(|node| node.mentions(body, &mut note));
        names
    };
    match node.blocks().as_slice() {
        [a, b] => names(a).intersection(&names(b)).copied().collect(),
        _ => Vec::new(),
    }
}

/// An assignment that is the first mention of its register declares it.
fn declare_by_value(body: &Body, node: &mut Node, regs: &mut Vec<usize>) {
    let Node::Assign(Piece::Reg(dest), value, declares) = node else { return };
    let mut reads = false;
    value.pieces(&mut |piece| reads |= *piece == Piece::Reg(*dest));
    let place = regs.iter().position(|reg| reg == dest);
    if let Some(place) = place.filter(|_| !reads && body.regs[*dest].element.is_none()) {
        *declares = true;
        regs.remove(place);
    }
}

/// Maximum distance from a register's first mention to its declaration, in statements.
const NEAR: usize = 24;
/// Maximum width of a `let` after grouping.
const WIDE: usize = 84;

/// Declarations that are near each other become one.
fn together(body: &Body, placed: BTreeMap<usize, Vec<usize>>) -> Vec<(usize, Vec<usize>)> {
    // Registers of one type share it.
    let width = |known: &[usize], more: &[usize]| -> usize {
        let mut types = BTreeSet::new();
        let of = |reg: &usize| {
            let reg = &body.regs[*reg];
            if types.insert(&reg.ty) { declared_width(&reg.name, &reg.ty) } else { reg.name.len() + 2 }
        };
        known.iter().chain(more).map(of).sum()
    };
    let mut joined: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, regs) in placed {
        match joined.last_mut() {
            Some((start, known)) if at - *start <= NEAR && width(known, &regs) <= WIDE => known.extend(regs),
            _ => joined.push((at, regs)),
        }
    }
    joined
}

/// Returns true if a statement itself names a register, not only what is inside of it.
fn own(body: &Body, node: &Node, reg: usize) -> bool {
    let mut found = false;
    node.pieces(&mut |piece| body.registers(piece, &mut |named| found |= variable(body, named) == reg));
    found
}
