//! Questions by the conditions around a goal: at first those that share a number with it, then those that share one with these, and so on. A product
//! is a number of its own in them, so that each is small. What follows from some of the conditions follows from all.

use crate::form::{Cond, Form, Mono, Sym};
use crate::query::Views;
use crate::world::{Meaning, World};
use ptx_core::hash::Set;

/// The most conditions of a question.
const LONGEST: usize = 240;

/// The most terms of a condition of a length without strides.
const TERMS: usize = 4;

/// The work for one goal.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// The steps from the goal to conditions.
    steps: usize,
    /// The work for the question of a step.
    work: u32,
}

/// For a property.
pub(crate) const FAR: Reach = Reach { steps: 4, work: 8_000 };
/// While values are computed.
pub(crate) const NEAR: Reach = Reach { steps: 2, work: 1_000 };

/// Returns true if conditions and facts that are near a goal exclude it.
pub(crate) fn is_excluded(world: &World, (conds, facts): (&[Cond], &[Cond]), goal: &Cond, reach: Reach) -> bool {
    let mut around = Around::new(world, conds.iter().chain(facts), goal);
    for _ in 0..reach.steps {
        if !around.extend() || around.found.len() > LONGEST {
            return false;
        }
        if Views::one(world, around.found.clone()).is_excluded(reach.work) {
            return true;
        }
    }
    false
}

/// The conditions that are found, and what leads to the next ones.
struct Around<'c> {
    open: Vec<&'c Cond>,
    /// Symbols and products of the conditions that are found, and those of the last step.
    named: Set<Mono>,
    last: Set<Mono>,
    found: Vec<Cond>,
}

impl<'c> Around<'c> {
    fn new(world: &'c World, conds: impl Iterator<Item = &'c Cond>, goal: &'c Cond) -> Around<'c> {
        let mut open = Vec::new();
        conds.for_each(|cond| add_parts(cond, &mut open));
        let mut pending: Vec<Sym> = Vec::new();
        open.iter().copied().chain([goal]).for_each(|cond| cond.forms(&mut |form| pending.extend(form.symbols())));
        let mut seen: Set<Sym> = Set::default();
        while let Some(symbol) = pending.pop() {
            if seen.insert(symbol) {
                let before = open.len();
                world.facts_of(symbol).iter().for_each(|fact| add_parts(fact, &mut open));
                open[before..].iter().for_each(|fact| fact.forms(&mut |form| pending.extend(form.symbols())));
            }
        }
        // Conditions of lengths by strides have many numbers that a goal about one of these does not need.
        let is_len = |symbol: Sym| matches!(world.symbol(symbol).meaning, Meaning::Len(_));
        let has_strides = |cond: &Cond| {
            let mut has = false;
            cond.forms(&mut |form| has |= form.terms.len() > TERMS && form.symbols().any(is_len));
            has
        };
        if !has_strides(goal) {
            open.retain(|cond| !has_strides(cond));
        }
        let mut around = Around { open, named: Set::default(), last: Set::default(), found: Vec::new() };
        around.add(goal.clone());
        around
    }

    fn add(&mut self, cond: Cond) {
        cond.forms(&mut |form: &Form| {
            for (mono, _) in &form.terms {
                if self.named.insert(mono.clone()) {
                    self.last.insert(mono.clone());
                }
            }
        });
        self.found.push(cond);
    }

    /// Adds the conditions with a number of the last step; false if there are none.
    fn extend(&mut self) -> bool {
        let last = std::mem::take(&mut self.last);
        let shares = |cond: &Cond| {
            let mut shares = matches!(cond, Cond::Table(_) | Cond::Const(false));
            cond.forms(&mut |form| shares |= form.terms.iter().any(|(mono, _)| last.contains(mono)));
            shares
        };
        let (near, open): (Vec<&Cond>, Vec<&Cond>) = self.open.iter().partition(|cond| shares(cond));
        self.open = open;
        near.iter().for_each(|cond| self.add((*cond).clone()));
        !near.is_empty()
    }
}

/// Adds what a condition joins.
fn add_parts<'c>(cond: &'c Cond, found: &mut Vec<&'c Cond>) {
    match cond {
        Cond::All(parts) => parts.iter().for_each(|part| add_parts(part, found)),
        Cond::Const(true) => {}
        part => found.push(part),
    }
}
