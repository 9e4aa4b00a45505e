//! Questions in which the way settles choices: `if c { a } else { b }` is `a` where `c` is a condition of the way. The products of a choice's symbol
//! are those of its value then, so that fewer of them are left to the solver.

use crate::form::{Cond, Form, Sym};
use crate::world::World;
use ptx_core::hash::{Map, Set};

/// A question with its choices settled: the symbols, the conditions of the way, the facts, and the goal.
pub(crate) struct Settled {
    pub(crate) world: World,
    pub(crate) conds: Vec<Cond>,
    pub(crate) facts: Vec<Cond>,
    pub(crate) goal: Cond,
}

/// The choices inside of choices that are followed.
const ROUNDS: usize = 3;
/// Symbols of a question that are as much work as an inequality.
const SYMBOLS: u32 = 4;

/// The question with settled choices; nothing if the way settles none of those that it has.
pub(crate) fn settled(world: &World, conds: &[Cond], facts: &[Cond], goal: &Cond) -> Option<Settled> {
    let named = symbols_of(world, conds.iter().chain(facts).chain([goal]));
    if !world.spend(named.len() as u32 / SYMBOLS) {
        return None;
    }
    let mut way = Way::default();
    conds.iter().for_each(|cond| way.add(cond));
    let mut values: Map<Sym, Form> = Map::default();
    for symbol in &named {
        let Some((cond, value)) = world.choice(*symbol) else { continue };
        if way.holds(cond) {
            values.insert(*symbol, value.clone());
        } else if way.holds(&cond.negate()) {
            values.insert(*symbol, Form::number(0));
        }
    }
    if values.is_empty() {
        return None;
    }
    let with = |cond: &Cond| with_values(cond, &values);
    let all = |conds: &[Cond]| conds.iter().map(with).collect::<Vec<_>>();
    let (conds, facts, goal) = (all(conds), all(facts), with(goal));
    // The facts of a settled symbol that is left somewhere are what binds it to its value.
    let own = |symbol: &Sym| match values.contains_key(symbol) {
        true => world.facts_of(*symbol).to_vec(),
        false => world.facts_of(*symbol).iter().map(with).collect(),
    };
    let own: Map<Sym, Vec<Cond>> = named.iter().map(|symbol| (*symbol, own(symbol))).collect();
    Some(Settled { world: world.settled(own), conds, facts, goal })
}

/// The symbols of conditions, and those that the facts about them name, in order.
fn symbols_of<'c>(world: &World, conds: impl Iterator<Item = &'c Cond>) -> Vec<Sym> {
    let mut pending: Vec<Sym> = Vec::new();
    conds.for_each(|cond| cond.forms(&mut |form| pending.extend(form.symbols())));
    let (mut seen, mut found): (Set<Sym>, Vec<Sym>) = Default::default();
    while let Some(symbol) = pending.pop() {
        if seen.insert(symbol) {
            found.push(symbol);
            world.facts_of(symbol).iter().for_each(|fact| fact.forms(&mut |form| pending.extend(form.symbols())));
        }
    }
    found
}

/// A condition with the values of settled symbols; itself where a product gets too long.
fn with_values(cond: &Cond, values: &Map<Sym, Form>) -> Cond {
    let mut found = cond.clone();
    for _ in 0..ROUNDS {
        let mut has_settled = false;
        found.forms(&mut |form| has_settled |= form.symbols().any(|symbol| values.contains_key(&symbol)));
        if !has_settled {
            break;
        }
        let value = |symbol: Sym| Some(values.get(&symbol).cloned().unwrap_or_else(|| Form::symbol(symbol)));
        match found.replaced(&value) {
            Some(replaced) => found = replaced,
            None => break,
        }
    }
    found
}

/// The conditions that hold on a way.
#[derive(Default)]
struct Way {
    /// Sums that are at least zero.
    sums: Vec<Form>,
    /// Alternatives, and tables.
    any: Set<Cond>,
}

impl Way {
    fn add(&mut self, cond: &Cond) {
        match cond {
            Cond::AtLeast(form) => self.sums.push(form.clone()),
            Cond::All(parts) => parts.iter().for_each(|part| self.add(part)),
            Cond::Any(_) | Cond::Table(_) => drop(self.any.insert(cond.clone())),
            Cond::Const(_) => {}
        }
    }

    /// Returns true if a condition is among those of the way, or weaker than one.
    fn holds(&self, cond: &Cond) -> bool {
        match cond {
            Cond::Const(truth) => *truth,
            Cond::Table(_) => self.any.contains(cond),
            Cond::AtLeast(form) => self.sums.iter().any(|sum| is_weaker(form, sum)),
            Cond::All(parts) => parts.iter().all(|part| self.holds(part)),
            Cond::Any(parts) => self.any.contains(cond) || parts.iter().any(|part| self.holds(part)),
        }
    }
}

/// Returns true if a sum is at least another one, for each thread.
fn is_weaker(sum: &Form, other: &Form) -> bool {
    let difference = (sum.terms == other.terms).then(|| sum.constant.zip(&other.constant, i128::checked_sub)).flatten();
    difference.is_some_and(|more| more.least() >= 0)
}
