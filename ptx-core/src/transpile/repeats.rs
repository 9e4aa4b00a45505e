//! Pass `repeats`: statements that follow each other in the same shape to a `for`, with a table of the numbers in which
//! they differ. A `for` is unrolled: the instructions come out as they were.

use super::body::{Body, Node, Piece, Slot, each_block};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// No longer run of statements is looked for.
const LONGEST: usize = 96;
/// At least this many statements must become fewer.
const LEAST: usize = 4;

/// Returns how many loops it made.
pub(super) fn pass(body: &mut Body) -> usize {
    let mut total = HashMap::new();
    for node in &body.nodes {
        node.mentions(body, &mut |reg| *total.entry(reg).or_default() += 1);
    }
    let mut nodes = std::mem::take(&mut body.nodes);
    let mut finder = Finder { body, total, made: 0 };
    each_block(&mut nodes, &mut |block| finder.block(block));
    let made = finder.made;
    body.nodes = nodes;
    made
}

struct Finder<'b> {
    body: &'b Body,
    /// How often each register is mentioned in all.
    total: HashMap<usize, usize>,
    made: usize,
}

/// What a register or number of a statement is in every turn.
enum Column {
    /// The same.
    Same,
    /// A register of each turn's own.
    Own,
    /// Numbers.
    Numbers(Vec<i64>),
    /// Elements of an array: times, plus.
    Elements(usize, i64, i64),
}

impl Finder<'_> {
    fn block(&mut self, block: &mut Vec<Node>) {
        let shapes: Vec<u64> = block.iter().map(shape).collect();
        let (mut out, mut at) = (Vec::with_capacity(block.len()), 0);
        while at < block.len() {
            match self.best(block, &shapes, at) {
                Some((length, turns, raised)) => {
                    out.push(raised);
                    at += length * turns;
                    self.made += 1;
                }
                None => {
                    out.push(block[at].clone());
                    at += 1;
                }
            }
        }
        *block = out;
    }

    /// The loop that starts here and saves the most statements.
    fn best(&self, block: &[Node], shapes: &[u64], at: usize) -> Option<(usize, usize, Node)> {
        let mut best: Option<(usize, usize, Node)> = None;
        for length in 1..=LONGEST.min((block.len() - at) / 2) {
            let same = (0..)
                .take_while(|n| shapes.get(at + n) == shapes.get(at + length + n) && at + length + n < shapes.len());
            let turns = 1 + same.count() / length;
            let saved = length * (turns - 1);
            if turns < 2 || saved < LEAST || best.as_ref().is_some_and(|(l, t, _)| saved <= l * (t - 1)) {
                continue;
            }
            for turns in (2..=turns).rev().take(3) {
                if length * (turns - 1) >= LEAST
                    && let Some(raised) = self.raise(&block[at..at + length * turns], length)
                {
                    best = Some((length, turns, raised));
                    break;
                }
            }
        }
        best
    }

    fn raise(&self, nodes: &[Node], length: usize) -> Option<Node> {
        let turns: Vec<Vec<Node>> = nodes.chunks(length).map(<[Node]>::to_vec).collect();
        let slots: Vec<Vec<Piece>> = turns.iter().map(|turn| slots(turn)).collect();
        let own = self.own(&turns);
        let mut partners: HashMap<(usize, usize), usize> = HashMap::new();
        let mut columns = Vec::new();
        for at in 0..slots[0].len() {
            let pieces: Vec<&Piece> = slots.iter().map(|slots| slots.get(at)).collect::<Option<_>>()?;
            columns.push(self.column(&pieces, &own, &mut partners)?);
        }
        build(turns.into_iter().next()?, &columns, slots.len())
    }

    /// The registers of each turn that nothing else mentions.
    fn own(&self, turns: &[Vec<Node>]) -> Vec<HashMap<usize, usize>> {
        let of = |turn: &Vec<Node>| {
            let mut here: HashMap<usize, usize> = HashMap::new();
            turn.iter().for_each(|node| node.mentions(self.body, &mut |reg| *here.entry(reg).or_default() += 1));
            here.retain(|reg, count| self.total.get(reg) == Some(count));
            here
        };
        turns.iter().map(of).collect()
    }

    fn column(
        &self,
        pieces: &[&Piece],
        own: &[HashMap<usize, usize>],
        partners: &mut HashMap<(usize, usize), usize>,
    ) -> Option<Column> {
        let first = pieces[0];
        if let Piece::Reg(reg) = first
            && own[0].contains_key(reg)
        {
            for (turn, piece) in pieces.iter().enumerate() {
                let Piece::Reg(other) = piece else { return None };
                let alike = self.body.regs[*other].ty == self.body.regs[*reg].ty;
                let partner = *partners.entry((turn, *reg)).or_insert(*other);
                if !alike || partner != *other || !own[turn].contains_key(other) {
                    return None;
                }
            }
            return Some(Column::Own);
        }
        if pieces.iter().all(|piece| *piece == first) {
            return Some(Column::Same);
        }
        match first {
            Piece::Int(_) => {
                let number = |piece: &&Piece| if let Piece::Int(value) = piece { Some(*value) } else { None };
                pieces.iter().map(number).collect::<Option<_>>().map(Column::Numbers)
            }
            Piece::Reg(_) => {
                let element = |piece: &&Piece| match piece {
                    Piece::Reg(reg) => self.body.regs[*reg].element,
                    _ => None,
                };
                let elements: Vec<(usize, usize)> = pieces.iter().map(element).collect::<Option<_>>()?;
                let (array, plus) = (elements[0].0, elements[0].1 as i64);
                let times = elements[1].1 as i64 - plus;
                let regular =
                    |(at, (a, n)): (usize, &(usize, usize))| *a == array && *n as i64 == plus + times * at as i64;
                (times > 0 && elements.iter().enumerate().all(regular)).then_some(Column::Elements(array, times, plus))
            }
            _ => None,
        }
    }
}

/// The statements of the first turn with what differs replaced.
fn build(mut turn: Vec<Node>, columns: &[Column], turns: usize) -> Option<Node> {
    let (mut names, mut rows): (Vec<String>, Vec<Vec<i64>>) = (Vec::new(), vec![Vec::new(); turns]);
    if columns.iter().any(|c| matches!(c, Column::Elements(..))) {
        names.push("i".to_owned());
        (0..turns).for_each(|turn| rows[turn].push(turn as i64));
    }
    let mut at = 0;
    let mut sound = true;
    for node in &mut turn {
        node.slots(&mut |slot| {
            match (&columns[at], slot) {
                (Column::Same | Column::Own, _) => {}
                (Column::Numbers(values), Slot::Piece(piece)) => {
                    let place = (0..names.len()).find(|n| rows.iter().zip(values).all(|(row, v)| row[*n] == *v));
                    let place = place.unwrap_or_else(|| {
                        names.push(format!("k{}", names.len()));
                        rows.iter_mut().zip(values).for_each(|(row, value)| row.push(*value));
                        names.len() - 1
                    });
                    *piece = Piece::Variable(names[place].clone());
                }
                (Column::Elements(array, times, plus), Slot::Piece(piece)) => {
                    *piece = Piece::Strided(*array, *times, *plus);
                }
                (_, Slot::Reg(_)) => sound = false,
            }
            at += 1;
        });
    }
    if names.is_empty() {
        names.push("_".to_owned());
        (0..turns).for_each(|turn| rows[turn].push(turn as i64));
    }
    sound.then_some(Node::For(names, rows, turn))
}

/// The registers and numbers of statements, in order.
fn slots(turn: &[Node]) -> Vec<Piece> {
    let mut out = Vec::new();
    for mut node in turn.iter().cloned() {
        node.slots(&mut |slot| match slot {
            Slot::Reg(reg) => out.push(Piece::Reg(*reg)),
            Slot::Piece(piece) => out.push(piece.clone()),
        });
    }
    out
}

/// What two statements must share to be turns of one loop.
fn shape(node: &Node) -> u64 {
    let mut node = node.clone();
    node.slots(&mut |slot| match slot {
        Slot::Reg(reg) => *reg = 0,
        Slot::Piece(piece @ Piece::Int(_)) => *piece = Piece::Int(0),
        Slot::Piece(piece @ Piece::Reg(_)) => *piece = Piece::Reg(0),
        Slot::Piece(_) => {}
    });
    let mut hasher = DefaultHasher::new();
    format!("{node:?}").hash(&mut hasher);
    hasher.finish()
}
