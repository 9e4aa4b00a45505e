//! Questions in which the way settles choices: `if c { a } else { b }` is `a` where `c` is a condition of the way. The products of a choice's symbol
//! are those of its value then, so that fewer of them are left to the solver. So are those of a number that the way fixes: of the alternatives of a
//! fact, the one that the way leaves may fix it.

use crate::form::{Coef, Cond, Form, Sym};
use crate::query::Clause;
use crate::world::{Scope, World};
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
    let way = Way::with(conds, facts);
    let mut values = values_of(world, &named, &|cond| way.holds(cond));
    values.extend(way.numbers().filter(|(symbol, _)| world.choice(*symbol).is_none()));
    if values.is_empty() {
        return None;
    }
    let with = |cond: &Cond| with_values(cond, &values);
    let all = |conds: &[Cond]| conds.iter().map(with).collect::<Vec<_>>();
    let (conds, facts, goal) = (all(conds), all(facts), with(goal));
    let own = facts_with(world, &named, &values);
    Some(Settled { world: world.settled(own), conds, facts, goal })
}

/// Returns true if a condition is one of the way, or the only one of a fact's alternatives that the way leaves.
pub(crate) fn is_left(conds: &[Cond], facts: &[Cond], cond: &Cond) -> bool {
    Way::with(conds, facts).holds(cond)
}

/// The conditions of two threads with the choices that both settle in the same way, and the symbols; nothing if there are none.
pub(crate) fn settled_in_both(
    world: &World,
    conds: &[(usize, Cond)],
    mixed: &[Clause],
) -> Option<(World, Vec<(usize, Cond)>)> {
    let of_both = mixed.iter().flatten().flatten().flat_map(|atom| &atom.parts);
    let of_both: Vec<Cond> = of_both.map(|(_, form, _)| Cond::AtLeast(form.clone())).collect();
    let named = symbols_of(world, conds.iter().map(|(_, cond)| cond).chain(&of_both));
    let mut ways: [Way; 2] = Default::default();
    conds.iter().for_each(|(view, cond)| ways[*view].add(cond));
    // The threads share what depends on the launch alone.
    let holds = |cond: &Cond| match world.cond_scope(cond) {
        Scope::Grid => ways.iter().any(|way| way.holds(cond)),
        _ => ways.iter().all(|way| way.holds(cond)),
    };
    let values = values_of(world, &named, &holds);
    if values.is_empty() {
        return None;
    }
    let conds = conds.iter().map(|(view, cond)| (*view, with_values(cond, &values))).collect();
    Some((world.settled(facts_with(world, &named, &values)), conds))
}

/// The values of choices whose conditions hold, or never do.
fn values_of(world: &World, named: &[Sym], holds: &dyn Fn(&Cond) -> bool) -> Map<Sym, Form> {
    let value = |symbol: &Sym| {
        let (cond, value) = world.choice(*symbol)?;
        let is_zero = || holds(&cond.negate()).then(|| Form::number(0));
        Some((*symbol, if holds(cond) { value.clone() } else { is_zero()? }))
    };
    named.iter().filter_map(value).collect()
}

/// The facts about symbols with the values of settled ones. Those of a settled symbol that is left somewhere are what binds it to its value.
fn facts_with(world: &World, named: &[Sym], values: &Map<Sym, Form>) -> Map<Sym, Vec<Cond>> {
    let own = |symbol: &Sym| match values.contains_key(symbol) {
        true => world.facts_of(*symbol).to_vec(),
        false => world.facts_of(*symbol).iter().map(|fact| with_values(fact, values)).collect(),
    };
    named.iter().map(|symbol| (*symbol, own(symbol))).collect()
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
    /// The conditions of a way, with what it leaves of facts.
    fn with(conds: &[Cond], facts: &[Cond]) -> Way {
        let mut way = Way::default();
        conds.iter().for_each(|cond| way.add(cond));
        for _ in 0..ROUNDS {
            facts.iter().for_each(|fact| way.learn(fact));
        }
        way
    }

    fn add(&mut self, cond: &Cond) {
        match cond {
            Cond::AtLeast(form) => self.sums.push(form.clone()),
            Cond::All(parts) => parts.iter().for_each(|part| self.add(part)),
            Cond::Any(_) | Cond::Table(_) => drop(self.any.insert(cond.clone())),
            Cond::Const(_) => {}
        }
    }

    /// Adds what a fact leaves on the way: of alternatives the one that the way does not exclude.
    fn learn(&mut self, fact: &Cond) {
        match fact {
            Cond::All(parts) => parts.iter().for_each(|part| self.learn(part)),
            Cond::Any(parts) => {
                let mut left = parts.iter().filter(|part| !self.excludes(part));
                if let (Some(only), None) = (left.next(), left.next()) {
                    self.learn(only);
                }
            }
            Cond::AtLeast(form) if !self.sums.contains(form) => self.sums.push(form.clone()),
            _ => {}
        }
    }

    /// Returns true if a condition never holds on the way.
    fn excludes(&self, cond: &Cond) -> bool {
        match cond {
            Cond::All(parts) => parts.iter().any(|part| self.excludes(part)),
            Cond::Any(parts) => parts.iter().all(|part| self.excludes(part)),
            other => self.holds(&other.negate()),
        }
    }

    /// The symbols that are one number on the way, because two sums bound each from both sides.
    fn numbers(&self) -> impl Iterator<Item = (Sym, Form)> {
        self.sums.iter().filter_map(|sum| {
            let ([(mono, Coef::One(1))], Coef::One(least)) = (sum.terms.as_slice(), &sum.constant) else { return None };
            let [symbol] = mono[..] else { return None };
            let number = Form::number(-least);
            let most = number.sub(&Form::symbol(symbol))?;
            self.holds(&Cond::AtLeast(most)).then_some((symbol, number))
        })
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
