//! Numbers that are equal in both views of a question. Where conditions make a number equal, and it is a factor, the products of both views are one
//! product; and what the launch and equal numbers determine is equal, too. So a person finds that one place of a matrix belongs to one block: from the
//! row and the column to the tile, from the tile to its group, from that to the number of the block. Each step is a small question about sums.

use super::{Build, Group, Linear, Problem, Sym, Views};
use crate::form::{Cond, Form};
use crate::solver::{Answer, solve};
use crate::world::{Meaning, Origin};
use ptx_core::hash::Set;

/// The part of the work for a question that a step may take.
const PART: u32 = 4;
/// The most numbers that are looked at.
const MOST: usize = 24;

impl Views<'_> {
    /// The symbols of the second view that are equal to those of the first one, for a group of threads in each view; nothing if the conditions without
    /// alternatives and the first clauses exclude each other.
    pub(super) fn same(&self, groups: &[&Group], clauses: usize, budget: u32) -> Option<Set<Sym>> {
        let work = budget / PART;
        let mut same: Set<Sym> = Set::default();
        let (tried, made) = self.own();
        loop {
            let before = same.len();
            self.add_determined(&made, &mut same);
            let mut build = Build { same: same.clone(), few: Some(clauses), ..Build::new(self, groups, false) };
            build.all()?;
            if build.overflow {
                return Some(same);
            }
            for symbol in tried.iter().filter(|symbol| !same.contains(symbol)).copied().collect::<Vec<_>>() {
                if self.are_equal(&mut build, symbol, work) {
                    same.insert(symbol);
                }
            }
            if same.len() == before {
                return (!self.is_never(&build.problem, work)).then_some(same);
            }
        }
    }

    /// The second view's own symbols: those of what both views compare and those that are factors, and those that definitions determine.
    fn own(&self) -> (Vec<Sym>, Vec<Sym>) {
        let (mut tried, mut made): (Vec<Sym>, Vec<Sym>) = Default::default();
        let mut look = |form: &Form, least: usize| {
            for (mono, _) in &form.terms {
                let own = mono.iter().copied().filter(|symbol| self.space(1, *symbol) == 1);
                made.extend(own.clone());
                if mono.len() >= least {
                    tried.extend(own);
                }
            }
        };
        self.mixed.iter().flatten().flatten().flat_map(|atom| &atom.parts).for_each(|(_, form, _)| look(form, 1));
        self.conds.iter().for_each(|(_, cond)| cond.forms(&mut |form| look(form, 2)));
        let is_made = |symbol: &Sym| {
            let known = self.world.symbol(*symbol);
            known.origin == Origin::Exact && known.meaning == Meaning::Other || self.world.place_of(*symbol).is_some()
        };
        made.retain(is_made);
        for own in [&mut tried, &mut made] {
            let mut seen: Set<Sym> = Set::default();
            own.retain(|symbol| seen.insert(*symbol));
        }
        tried.truncate(MOST);
        (tried, made)
    }

    /// Adds what equal numbers determine: results of operations have one value for one value of their operands.
    fn add_determined(&self, made: &[Sym], same: &mut Set<Sym>) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for symbol in made {
                if !same.contains(symbol) && self.is_determined(*symbol, same) {
                    changed = same.insert(*symbol);
                }
            }
        }
    }

    fn is_determined(&self, symbol: Sym, same: &Set<Sym>) -> bool {
        let facts = self.world.facts_of(symbol);
        let is_known = |other: Sym| {
            let is_shared = self.space(1, other) == 0 && !self.views[1].shift.contains_key(&other);
            other == symbol || is_shared || same.contains(&other)
        };
        if let Some(place) = self.world.place_of(symbol) {
            return place.is_even() && place.symbols().all(is_known);
        }
        let mut is = !facts.is_empty() && facts.iter().all(is_even);
        facts.iter().for_each(|fact| fact.forms(&mut |form| is &= form.symbols().all(is_known)));
        is
    }

    /// Returns true if neither of the values of a symbol is greater.
    fn are_equal(&self, build: &mut Build<'_>, symbol: Sym, work: u32) -> bool {
        let [first, second] = [0, 1].map(|space| build.var(&vec![(symbol, space)]));
        let is_more = |more: usize, less: usize| {
            let mut problem = build.problem.clone();
            problem.clauses.clear();
            problem.atleast.push(Linear { terms: ordered((more, 1), (less, -1)), constant: -1 });
            problem
        };
        self.is_never(&is_more(first, second), work) && self.is_never(&is_more(second, first), work)
    }

    fn is_never(&self, problem: &Problem, work: u32) -> bool {
        let mut left = work.min(self.world.work.get());
        let given = left;
        let is_never = solve(problem, &mut left) == Answer::Unsat;
        self.world.spend(given - left) && is_never
    }
}

fn ordered(a: (usize, i128), b: (usize, i128)) -> Vec<(usize, i128)> {
    if a.0 < b.0 { vec![a, b] } else { vec![b, a] }
}

/// Returns true if a condition has no number that depends on the thread.
fn is_even(cond: &Cond) -> bool {
    match cond {
        Cond::Const(_) => true,
        Cond::Table(_) => false,
        Cond::AtLeast(form) => form.is_even(),
        Cond::All(parts) | Cond::Any(parts) => parts.iter().all(is_even),
    }
}
