//! Differences between the turns of a loop, place by place: a column of values, one per turn.

use super::Span;
use super::runs::{Candidate, Turns, Value};
use crate::affine::Affine;
use crate::body::Body;
use ptx_language::MOST_REGISTERS;
use std::collections::{HashMap, HashSet, VecDeque};

/// The single expression for the values of a place.
#[derive(Clone, Debug)]
pub(super) enum Column {
    /// The same in each turn, or a register of each turn's own.
    Same,
    /// A number that grows: by how much.
    Count(Affine, i64),
    /// Numbers.
    Table(Vec<i64>),
    /// Elements of an array.
    Element(usize, Affine, i64),
    /// Parts of an array: where the first starts, how far they are apart, how many elements.
    Range(usize, Affine, i64, usize),
    /// Elements of a new array: which, and the first.
    New(usize, usize),
}

/// A loop.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) candidate: Candidate,
    pub(super) columns: Vec<Column>,
    /// The registers of arrays that are to be made.
    pub(super) arrays: Vec<Vec<usize>>,
}

/// As many turns as can be one loop, and the number of values that were looked at.
pub(super) fn plan(body: &Body, spans: &[Span], arrays: bool, turns: Turns<'_>) -> (Option<Plan>, usize) {
    let first = turns.values(0);
    let (partners, joined) = (HashMap::new(), HashSet::new());
    let mut reader = Reader { body, spans, arrays, turns, first, partners, joined, visited: 0 };
    let count = 1 + (1..reader.turns.count()).take_while(|turn| reader.fits(*turn)).count();
    // Two turns say little about where the registers of a third would be.
    let plan = (count >= if arrays { 3 } else { 2 }).then(|| reader.finish(count)).flatten();
    (plan, reader.visited)
}

struct Reader<'b> {
    body: &'b Body,
    spans: &'b [Span],
    arrays: bool,
    turns: Turns<'b>,
    /// The values of the first turn.
    first: &'b [Value],
    /// Which register of a turn is which of the first turn's own, and the other way round.
    partners: HashMap<(usize, usize, bool), usize>,
    /// The registers of the columns that are to be arrays, so far.
    joined: HashSet<(usize, usize)>,
    /// Number of values that were looked at.
    visited: usize,
}

impl Reader<'_> {
    /// Returns true if a register is mentioned in this turn alone.
    fn is_own(&self, turn: usize, reg: usize) -> bool {
        // A parameter is there before all of them.
        let (first, last) = self.spans[reg];
        !self.body.regs[reg].param && first >= self.turns.number(turn) && last < self.turns.number(turn + 1)
    }

    /// Returns true if a turn continues what the turns before it do.
    fn fits(&mut self, turn: usize) -> bool {
        let (one, other) = (self.first, self.turns.values(turn));
        let differs = (0..one.len()).find(|at| !self.continues(turn, *at, (&one[*at], &other[*at])));
        self.visited += differs.map_or(one.len(), |at| at + 1);
        differs.is_none()
    }

    fn continues(&mut self, turn: usize, at: usize, values: (&Value, &Value)) -> bool {
        match values {
            (Value::Text, Value::Text) => true,
            (Value::Guard(a), Value::Guard(b)) => self.register(turn, *a, *b).unwrap_or(a == b),
            (Value::Count(a), Value::Count(b)) => a.terms == b.terms && (a.terms.is_empty() || self.steps(turn, at)),
            (Value::Element(a, _), Value::Element(b, _)) => a == b && self.steps(turn, at),
            (Value::Range(a, _, m), Value::Range(b, _, n)) => a == b && m == n && self.steps(turn, at),
            (Value::Reg(a), Value::Reg(b)) => match self.register(turn, *a, *b) {
                Some(fits) => fits,
                None if self.turns.values(1)[at] == Value::Reg(*a) => a == b,
                None if self.body.regs[*a].element.is_some() => self.element(*a).is_some() && self.steps(turn, at),
                None => self.arrays && self.can_join(turn, at, *a, *b),
            },
            _ => false,
        }
    }

    /// Returns true if two registers are the same one of each turn; `None` if they are not local to a turn.
    fn register(&mut self, turn: usize, a: usize, b: usize) -> Option<bool> {
        if !self.is_own(0, a) {
            return None;
        }
        let alike = self.body.regs[a].ty == self.body.regs[b].ty
            && self.body.regs[a].element.is_none()
            && self.body.regs[b].element.is_none();
        let there = *self.partners.entry((turn, a, false)).or_insert(b) == b;
        let back = *self.partners.entry((turn, b, true)).or_insert(a) == a;
        Some(alike && there && back && self.is_own(turn, b))
    }

    fn element(&self, reg: usize) -> Option<(usize, Affine)> {
        self.body.regs[reg].element.map(|(array, at)| (array, Affine::from(at as i64)))
    }

    /// The number at a place of a turn, and the array that it is a place of.
    fn number(&self, turn: usize, at: usize) -> Option<(Option<usize>, Affine)> {
        match &self.turns.values(turn)[at] {
            Value::Count(count) => Some((None, count.clone())),
            Value::Element(array, count) | Value::Range(array, count, _) => Some((Some(*array), count.clone())),
            Value::Reg(reg) => self.element(*reg).map(|(array, count)| (Some(array), count)),
            Value::Guard(_) | Value::Text => None,
        }
    }

    /// Returns true if a number has grown from the turn before by as much as from the first turn to the second.
    fn steps(&self, turn: usize, at: usize) -> bool {
        let numbers: Option<Vec<_>> = [0, 1, turn - 1, turn].into_iter().map(|turn| self.number(turn, at)).collect();
        let Some([a, b, c, d]) = numbers.as_deref() else { return false };
        let step = |x: &Affine, y: &Affine| (x.terms == y.terms).then(|| y.plus.wrapping_sub(x.plus));
        a.0 == d.0 && step(&a.1, &b.1).is_some() && step(&a.1, &b.1) == step(&c.1, &d.1)
    }

    /// Returns true if the register of a turn can be an element of an array behind those of the turns before it.
    fn can_join(&mut self, turn: usize, at: usize, first: usize, reg: usize) -> bool {
        let (a, b) = (&self.body.regs[first], &self.body.regs[reg]);
        let free = |r: usize| self.body.regs[r].element.is_none() && !self.body.regs[r].param;
        let alike = a.ty == b.ty && a.declared == b.declared && a.owner == b.owner && free(first) && free(reg);
        if turn == 1 {
            self.joined.insert((at, first));
        }
        alike && self.joined.insert((at, reg))
    }

    fn finish(&self, count: usize) -> Option<Plan> {
        let mut lists = Lists::default();
        let columns = (0..self.first.len()).map(|at| self.column(at, count, &mut lists)).collect::<Option<_>>()?;
        let candidate = Candidate { length: 0, turns: count };
        let mut plan = Plan { candidate, columns, arrays: lists.lists.into_iter().map(Vec::from).collect() };
        for column in &mut plan.columns {
            if let Column::New(array, plus) = column {
                *plus = plus.wrapping_add(lists.moved[*array]);
            }
        }
        Some(plan)
    }

    fn column(&self, at: usize, count: usize, lists: &mut Lists) -> Option<Column> {
        let own = |reg: &usize| self.is_own(0, *reg);
        match &self.first[at] {
            Value::Text | Value::Guard(_) => return Some(Column::Same),
            Value::Reg(reg) if own(reg) => return Some(Column::Same),
            Value::Reg(reg) if self.body.regs[*reg].element.is_none() => {
                let reg_of = |turn: &[Value]| if let Value::Reg(reg) = turn[at] { Some(reg) } else { None };
                let regs: Vec<usize> = (0..count).map(|turn| reg_of(self.turns.values(turn))).collect::<Option<_>>()?;
                return match regs.iter().all(|r| r == reg) {
                    true => Some(Column::Same),
                    false => lists.add(&regs).map(|(array, plus)| Column::New(array, plus)),
                };
            }
            _ => {}
        }
        let numbers: Vec<(Option<usize>, Affine)> =
            (0..count).map(|turn| self.number(turn, at)).collect::<Option<_>>()?;
        let (array, first) = numbers[0].clone();
        let step = Affine::step(&numbers.iter().map(|(_, number)| number).collect::<Vec<_>>());
        Some(match (&self.first[at], array, step) {
            (_, _, Some(0)) => Column::Same,
            (Value::Range(_, _, length), Some(array), Some(step)) => Column::Range(array, first, step, *length),
            (_, Some(array), Some(step)) => Column::Element(array, first, step),
            (_, None, Some(step)) => Column::Count(first, step),
            (_, None, None) => Column::Table(numbers.iter().map(|(_, number)| number.plus).collect()),
            (_, Some(_), None) => return None,
        })
    }
}

/// The registers that are to become arrays.
#[derive(Default)]
struct Lists {
    lists: Vec<VecDeque<usize>>,
    /// By how many places the elements of each have moved since columns named them.
    moved: Vec<usize>,
    /// The list of each register, and its place there before anything moved.
    places: HashMap<usize, (usize, usize)>,
}

impl Lists {
    /// Which array these registers are a part of, and where it starts; what overlaps is one array: `x[i + 1] = x[i] + …`.
    fn add(&mut self, regs: &[usize]) -> Option<(usize, usize)> {
        let list = regs.iter().filter_map(|reg| self.list_of(*reg)).min();
        let new = regs.iter().filter(|reg| self.list_of(**reg).is_none()).count();
        if new + list.map_or(0, |list| self.lists[list].len()) > MOST_REGISTERS as usize {
            return None;
        }
        let Some(list) = list else {
            self.lists.push(VecDeque::new());
            self.moved.push(0);
            self.extend(self.lists.len() - 1, regs);
            return Some((self.lists.len() - 1, 0));
        };
        if regs.iter().any(|reg| self.list_of(*reg).is_some_and(|of| of != list)) {
            return None;
        }
        let (known, moved) = (&self.lists[list], self.moved[list]);
        if let Some((_, place)) = self.places.get(&regs[0]).copied() {
            let start = place.wrapping_add(moved);
            let common = regs.len().min(known.len() - start);
            let fits = known.range(start..start + common).eq(&regs[..common]);
            if !fits || regs[common..].iter().any(|reg| self.list_of(*reg).is_some()) {
                return None;
            }
            self.extend(list, &regs[common..]);
            return Some((list, place));
        }
        let front = regs.iter().position(|reg| Some(reg) == known.front())?;
        let common = (regs.len() - front).min(known.len());
        let fits = known.range(..common).eq(&regs[front..front + common]) && front + common == regs.len();
        if !fits || regs[..front].iter().any(|reg| self.list_of(*reg).is_some()) {
            return None;
        }
        for reg in regs[..front].iter().rev() {
            self.lists[list].push_front(*reg);
            self.moved[list] += 1;
            self.places.insert(*reg, (list, 0usize.wrapping_sub(self.moved[list])));
        }
        Some((list, 0usize.wrapping_sub(self.moved[list])))
    }

    fn list_of(&self, reg: usize) -> Option<usize> {
        self.places.get(&reg).map(|(list, _)| *list)
    }

    fn extend(&mut self, list: usize, regs: &[usize]) {
        for reg in regs {
            let place = self.lists[list].len().wrapping_sub(self.moved[list]);
            self.places.entry(*reg).or_insert((list, place));
            self.lists[list].push_back(*reg);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lists;
    use ptx_language::MOST_REGISTERS;

    /// A longer array would be an error of the language, and all sugar of its kernel would be taken back.
    #[test]
    fn arrays_have_no_more_registers_than_the_language_allows() {
        let most = MOST_REGISTERS as usize;
        let all: Vec<usize> = (0..=most).collect();
        assert_eq!(Lists::default().add(&all), None);
        let mut lists = Lists::default();
        assert_eq!(lists.add(&all[..most]), Some((0, 0)));
        assert_eq!(lists.add(&all[1..]), None, "one more at the end");
    }
}
