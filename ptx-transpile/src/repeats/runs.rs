//! Runs of statements of the same shape.

use crate::affine::Affine;
use crate::body::{Node, Piece, Slot};
use ptx_language::MOST_TURNS;
use std::collections::HashMap;

/// No longer turn is looked for.
const LONGEST: usize = 256;

/// A loop that could be made: how many statements a turn has, how many turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) length: usize,
    pub(super) turns: usize,
}

impl Candidate {
    /// Number of statements saved.
    pub(super) fn saved(self) -> usize {
        self.length * (self.turns - 1)
    }
}

/// A value that may differ between the turns of a loop.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A register.
    Reg(usize),
    /// A register that cannot be an element of an array where it stands: a guard.
    Guard(usize),
    Count(Affine),
    Element(usize, Affine),
    Range(usize, Affine, usize),
    /// Text: it is the same.
    Text,
}

/// The statements of a block by their shape.
pub(super) struct Runs {
    shapes: Vec<u32>,
    values: Vec<Value>,
    /// Start of the values of each statement, and the end of the last.
    starts: Vec<usize>,
    /// For each distance the statements, first and one past the last, whose shape is that of the one so far behind.
    equal: Vec<(usize, usize)>,
}

impl Runs {
    pub(super) fn find(nodes: &[Node]) -> Runs {
        let mut known: HashMap<String, u32> = HashMap::new();
        let mut runs = Runs {
            shapes: Vec::with_capacity(nodes.len()),
            values: Vec::new(),
            starts: vec![0],
            equal: vec![(0, 0); LONGEST.min(nodes.len() / 2) + 1],
        };
        for (at, node) in nodes.iter().enumerate() {
            let shape = shape(node, &mut runs.values);
            let next = known.len() as u32;
            // Loops that are made already stay what they are.
            let shape = shape.map_or(u32::MAX - at as u32, |shape| *known.entry(shape).or_insert(next));
            runs.shapes.push(shape);
            runs.starts.push(runs.values.len());
        }
        runs
    }

    /// Number of values of all statements, at least one for each.
    pub(super) fn values(&self) -> usize {
        self.values.len().max(self.shapes.len())
    }

    /// The loops that shapes allow at a statement.
    pub(super) fn at(&mut self, at: usize) -> Vec<Candidate> {
        let longest = (self.equal.len() - 1).min((self.shapes.len() - at) / 2);
        (1..=longest).filter_map(|length| self.run(at, length)).collect()
    }

    fn run(&mut self, at: usize, length: usize) -> Option<Candidate> {
        let (start, end) = self.equal[length];
        if at < start || at >= end {
            let same = |n: usize| n + length < self.shapes.len() && self.shapes[n] == self.shapes[n + length];
            let mut here = at;
            while same(here) && !(here >= start && here < end) {
                here += 1;
            }
            let joins = here >= start && here < end;
            self.equal[length] = (at, if joins { end } else { here });
        }
        let (_, end) = self.equal[length];
        let turns = (1 + end.saturating_sub(at) / length).min(MOST_TURNS as usize);
        (turns > 1).then_some(Candidate { length, turns })
    }

    /// The turns of a loop; `numbers` are those of the statements.
    pub(super) fn turns<'r>(&'r self, at: usize, candidate: Candidate, numbers: &'r [usize]) -> Turns<'r> {
        Turns { values: &self.values, starts: &self.starts[at..], numbers: &numbers[at..], candidate }
    }
}

/// The turns of a loop that could be made: looked at one by one, since most do not fit from the second one on.
pub(super) struct Turns<'r> {
    values: &'r [Value],
    starts: &'r [usize],
    numbers: &'r [usize],
    candidate: Candidate,
}

impl<'r> Turns<'r> {
    pub(super) fn count(&self) -> usize {
        self.candidate.turns
    }

    /// The values of a turn.
    pub(super) fn values(&self, turn: usize) -> &'r [Value] {
        let from = turn * self.candidate.length;
        &self.values[self.starts[from]..self.starts[from + self.candidate.length]]
    }

    /// The number of a turn's first statement; behind the last turn, of the one behind it.
    pub(super) fn number(&self, turn: usize) -> usize {
        self.numbers[turn * self.candidate.length]
    }
}

/// The parts that two statements must share to be turns of one loop; the rest goes to `values`. `None` if it holds a
/// loop.
fn shape(node: &Node, values: &mut Vec<Value>) -> Option<String> {
    let mut node = node.clone();
    node.slots(&mut |slot| match slot {
        Slot::Reg(reg) => values.push(Value::Guard(std::mem::take(reg))),
        Slot::Piece(piece) => {
            let (value, shape) = match piece {
                Piece::Reg(reg) => (Value::Reg(*reg), Piece::Reg(0)),
                Piece::Int(value) => (Value::Count(Affine::from(*value)), Piece::Int(0)),
                Piece::Count(count) => (Value::Count(count.clone()), Piece::Int(0)),
                Piece::Element(array, at) => (Value::Element(*array, at.clone()), Piece::Reg(0)),
                Piece::Range(array, at, length) => {
                    (Value::Range(*array, at.clone(), *length), Piece::Range(0, Affine::default(), 0))
                }
                Piece::Text(_) | Piece::Label(_) => return values.push(Value::Text),
            };
            *piece = shape;
            values.push(value);
        }
    });
    (!holds_loop(&node)).then(|| format!("{node:?}"))
}

fn holds_loop(node: &Node) -> bool {
    matches!(node, Node::For(_)) || node.blocks().into_iter().flatten().any(holds_loop)
}
