//! Pass `repeats`: statements that follow each other in the same shape to a `for`, whose variable counts what differs, or
//! which has a table of it. A `for` is unrolled: the instructions come out as they were.
//!
//! First the outermost loops, and with registers that each turn has for itself. Then, inside of them too, those whose
//! turns share registers that no other turn names: these become arrays.

mod columns;
mod runs;

use super::affine::Affine;
use super::body::{Array, Body, For, Node, Piece, Slot, each_block};
use columns::{Column, Plan};
use ptx_core::sort::SortSmall;
use runs::{Candidate, Runs};
use std::collections::BTreeSet;

/// At least this many statements must become fewer.
const LEAST: usize = 4;
/// Number of the most promising candidates that are tried at a place.
const TRIES: usize = 32;
/// Number of visits to each value of a block, on average, until no more loops are looked for. Compilers' code takes fewer.
const EFFORT: usize = 4096;
/// Maximum distance from the first loop found to the start of a better one.
const AHEAD: usize = 24;

/// Returns how many loops it made.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut made = 0;
    each_block(&mut body.nodes, &mut |block| addresses(block, &mut offset));
    for arrays in [false, true] {
        let mut nodes = std::mem::take(&mut body.nodes);
        let mut spans = vec![(usize::MAX, 0); body.regs.len()];
        span(body, &nodes, &mut 0, &mut spans);
        let mut finder = Finder { body, spans, arrays, made: 0 };
        finder.block(&mut nodes, 0);
        made += finder.made;
        body.nodes = nodes;
    }
    each_block(&mut body.nodes, &mut |block| addresses(block, &mut no_zero));
    made
}

fn addresses(block: &mut [Node], change: &mut dyn FnMut(&mut Vec<Piece>)) {
    for node in block {
        if let Node::Inst(inst) = node {
            inst.operands.iter_mut().for_each(&mut *change);
        }
    }
}

/// `[a]` to `[a+0]`, `[a + -8]` to `[a+-8]`: what counts starts anywhere.
fn offset(operand: &mut Vec<Piece>) {
    let is = |piece: &Piece, text: &str| matches!(piece, Piece::Text(t) if t == text);
    match operand.as_slice() {
        [open, _, close] if is(open, "[") && is(close, "]") => {
            operand.splice(2..2, [Piece::Text("+".to_owned()), Piece::Int(0)]);
        }
        [open, _, plus, minus, Piece::Int(value), _] if is(open, "[") && is(plus, "+") && is(minus, "-") => {
            let value = Piece::Int(-value);
            operand.splice(3..5, [value]);
        }
        _ => {}
    }
}

/// Takes `+0` away again.
fn no_zero(operand: &mut Vec<Piece>) {
    let plus = |piece: &Piece| matches!(piece, Piece::Text(t) if t == "+");
    if let [_, _, sign, Piece::Int(0), _] = operand.as_slice()
        && plus(sign)
    {
        operand.drain(2..4);
    }
}

/// From which statement to which a register is mentioned. Statements are counted as they stand, inner ones too.
type Span = (usize, usize);

fn span(body: &Body, nodes: &[Node], at: &mut usize, spans: &mut [Span]) {
    for node in nodes {
        node.pieces(&mut |piece| {
            body.registers(piece, &mut |reg| {
                let (first, last) = &mut spans[reg];
                (*first, *last) = ((*first).min(*at), (*last).max(*at));
            });
        });
        *at += 1;
        node.blocks().into_iter().for_each(|block| span(body, block, at, spans));
    }
}

/// Number of statements in a statement, nested ones included.
fn size(node: &Node) -> usize {
    1 + node.blocks().into_iter().flatten().map(size).sum::<usize>()
}

struct Finder<'b> {
    body: &'b mut Body,
    spans: Vec<Span>,
    /// True if registers may become arrays.
    arrays: bool,
    made: usize,
}

/// A block whose loops are looked for.
struct Place<'n> {
    nodes: &'n [Node],
    /// The number of each statement, and the one behind the last.
    numbers: Vec<usize>,
    runs: Runs,
    /// The best loop that starts at a statement, once it is known.
    best: Vec<Option<Option<Plan>>>,
    /// Number of values that may still be visited.
    effort: usize,
}

impl Finder<'_> {
    /// `start` is the number of the first statement.
    fn block(&mut self, nodes: &mut Vec<Node>, start: usize) {
        let old = std::mem::take(nodes);
        let mut numbers = vec![start];
        numbers.extend(old.iter().scan(start, |number, node| {
            *number += size(node);
            Some(*number)
        }));
        let best = old.iter().map(|_| None).collect();
        let runs = Runs::find(&old);
        let effort = runs.values().saturating_mul(EFFORT);
        let mut place = Place { nodes: &old, numbers, runs, best, effort };
        let mut at = 0;
        while at < old.len() {
            let number = place.numbers[at];
            let (mut node, inside, length) = match self.chosen(&mut place, at) {
                Some((raised, length)) => (raised, number, length),
                None => (old[at].clone(), number + 1, 1),
            };
            let mut inside = inside;
            for inner in node.blocks_mut() {
                let length = inner.iter().map(size).sum::<usize>();
                self.block(inner, inside);
                inside += length;
            }
            nodes.push(node);
            at += length;
        }
    }

    /// The loop that starts here, and how many statements it replaces.
    fn chosen(&mut self, place: &mut Place<'_>, at: usize) -> Option<(Node, usize)> {
        let found = self.best(place, at)?;
        let end = (at + found.length * found.turns).min(at + AHEAD).min(place.nodes.len());
        let better = |later: Candidate| later.saved() > 2 * found.saved();
        if (at + 1..end).any(|later| self.best(place, later).is_some_and(better)) {
            return None;
        }
        let plan = place.best[at].take().flatten()?;
        let span = (place.numbers[at], place.numbers[at + found.length]);
        let raised = self.build(place.nodes[at..at + found.length].to_vec(), &plan, span)?;
        self.made += 1;
        if !plan.arrays.is_empty() {
            // Other loops may be possible with them.
            place.best.iter_mut().for_each(|best| *best = None);
        }
        Some((raised, found.length * found.turns))
    }

    fn best(&self, place: &mut Place<'_>, at: usize) -> Option<Candidate> {
        if place.best[at].is_none() {
            place.best[at] = Some(self.find(place, at));
        }
        place.best[at].as_ref()?.as_ref().map(|plan| plan.candidate)
    }

    fn find(&self, place: &mut Place<'_>, at: usize) -> Option<Plan> {
        if place.effort == 0 {
            return None;
        }
        let mut candidates = place.runs.at(at);
        candidates.sort_small_by_key(|c| (std::cmp::Reverse(c.saved()), c.length));
        let mut best: Option<Plan> = None;
        for candidate in candidates.into_iter().take(TRIES) {
            let least = best.as_ref().map_or(LEAST, |plan| plan.candidate.saved() + 1);
            if candidate.saved() < least {
                break;
            }
            let turns = place.runs.turns(at, candidate, &place.numbers);
            let (plan, visited) = columns::plan(self.body, &self.spans, self.arrays, turns);
            place.effort = place.effort.saturating_sub(1 + visited);
            let plan =
                plan.map(|plan| Plan { candidate: Candidate { length: candidate.length, ..plan.candidate }, ..plan });
            best = plan.filter(|plan| plan.candidate.saved() >= least).or(best);
        }
        best
    }

    /// The loop, from the statements of its first turn.
    fn build(&mut self, mut turn: Vec<Node>, plan: &Plan, (from, to): Span) -> Option<Node> {
        let mut own = BTreeSet::new();
        turn.iter().for_each(|node| {
            node.mentions(self.body, &mut |reg| {
                let (first, last) = self.spans[reg];
                own.extend((first >= from && last < to).then_some(reg));
            })
        });
        own.iter().for_each(|reg| self.body.regs[*reg].owner = Some(self.body.variables));
        let first = self.body.arrays.len();
        plan.arrays.iter().for_each(|regs| self.array(regs));
        let variable = self.body.variables;
        let mut table: Vec<(usize, Vec<i64>)> = Vec::new();
        let mut columns = plan.columns.iter();
        let mut sound = true;
        turn.iter_mut().for_each(|node| {
            node.slots(&mut |slot| {
                let new = match columns.next() {
                    Some(Column::Same) | None => return,
                    Some(Column::Count(start, step)) => Piece::Count(start.with(variable, *step)),
                    Some(Column::Table(values)) => {
                        let known = table.iter().find(|(_, known)| known == values).map(|(column, _)| *column);
                        let column = known.unwrap_or_else(|| {
                            table.push((variable + 1 + table.len(), values.clone()));
                            variable + table.len()
                        });
                        Piece::Count(Affine::default().with(column, 1))
                    }
                    Some(Column::Element(array, start, step)) => Piece::Element(*array, start.with(variable, *step)),
                    Some(Column::Range(array, start, step, length)) => {
                        Piece::Range(*array, start.with(variable, *step), *length)
                    }
                    Some(Column::New(array, plus)) => {
                        Piece::Element(first + array, Affine::from(*plus as i64).with(variable, 1))
                    }
                };
                match slot {
                    Slot::Piece(piece) => *piece = new,
                    Slot::Reg(_) => sound = false,
                }
            })
        });
        self.body.variables += 1 + table.len();
        let raised = For { turns: plan.candidate.turns, variable, table, own, body: turn };
        sound.then(|| Node::For(Box::new(raised)))
    }

    /// Makes registers the elements of an array.
    fn array(&mut self, regs: &[usize]) {
        let array = self.body.arrays.len();
        let name = self.body.free_name(stem(&self.body.regs[regs[0]].declared));
        for (at, reg) in regs.iter().enumerate() {
            self.body.regs[*reg].element = Some((array, at));
        }
        self.body.arrays.push(Array { name, regs: regs.to_vec() });
    }
}

/// The usual name in compilers for a register of a type.
fn stem(declared: &str) -> &'static str {
    const STEMS: [(&str, &str); 5] = [("pred", "p"), ("f32", "f"), ("f64", "fd"), ("64", "rd"), ("16", "h")];
    STEMS.iter().find(|(ty, _)| declared.ends_with(ty)).map_or("r", |(_, stem)| stem)
}
