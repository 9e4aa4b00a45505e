//! The few conditions of a way that are likely to decide a question, so that most questions are small. What follows from some of the conditions
//! follows from all.

use crate::form::{Cond, Form, Sym};
use crate::world::{Meaning, World};
use ptx_core::hash::Set;

/// The most alternatives of a condition that is near another one.
const ALTERNATIVES: usize = 3;

/// The simple parts of conditions that have a symbol of a goal, and the goal.
pub(crate) fn near<'c>(world: &World, conds: impl Iterator<Item = &'c Cond>, goal: &Cond) -> Vec<Cond> {
    let goal_is = About::of(goal);
    let mut found = Vec::new();
    conds.for_each(|cond| add(world, cond, &goal_is, &mut found));
    found.push(goal.clone());
    found
}

/// The conditions without what they say of the addresses of buffers that are not in the goal: that they do not wrap brings large numbers.
pub(crate) fn without_addresses(world: &World, cond: &Cond, goal: &Cond) -> Cond {
    weaker(world, cond, &About::of(goal))
}

/// The facts about a launch without what they say of the lengths of buffers that no condition names, which is much.
pub(crate) fn without_other_lengths(world: &World, conds: &[Cond], facts: &[Cond]) -> Vec<Cond> {
    let is_len = |symbol: &Sym| matches!(world.symbol(*symbol).meaning, Meaning::Len(_));
    let lens = |cond: &Cond| About::of(cond).symbols.into_iter().filter(is_len).collect::<Vec<_>>();
    let own: Set<Sym> = conds.iter().flat_map(lens).collect();
    facts.iter().filter(|fact| lens(fact).iter().all(|len| own.contains(len))).cloned().collect()
}

/// Returns true for alternatives that are conjunctions, such as the orders in which strides lie in each other.
pub(crate) fn has_conjunctions(fact: &Cond) -> bool {
    matches!(fact, Cond::Any(parts) if parts.iter().any(|part| matches!(part, Cond::All(_))))
}

/// Conditions of the threads of a question about two places, and the facts about a launch, without what they say of addresses and lengths that are not
/// in the question.
pub(crate) fn of_forms(
    world: &World,
    conds: &[(usize, Cond)],
    facts: &[Cond],
    places: [&Form; 2],
) -> Vec<(usize, Cond)> {
    let about = About { symbols: places.iter().flat_map(|place| place.symbols()).collect(), degree: 0 };
    let own: Vec<(usize, Cond)> = conds.iter().map(|(view, cond)| (*view, weaker(world, cond, &about))).collect();
    let names: Vec<Cond> = own.iter().map(|(_, cond)| cond.clone()).collect();
    let facts = without_other_lengths(world, &names, facts);
    own.into_iter().chain(facts.into_iter().map(|fact| (0, weaker(world, &fact, &about)))).collect()
}

/// The symbols of a condition.
#[derive(Default)]
struct About {
    symbols: Vec<Sym>,
    /// The degree of the longest product.
    degree: usize,
}

impl About {
    fn of(cond: &Cond) -> About {
        let mut found = About::default();
        cond.forms(&mut |form| {
            found.symbols.extend(form.symbols());
            found.degree = found.degree.max(form.terms.iter().map(|(mono, _)| mono.len()).max().unwrap_or(0));
        });
        found
    }

    /// Returns true if a form has an address that is not in this.
    fn lacks_address(&self, world: &World, form: &Form) -> bool {
        let is_other = |symbol: Sym| world.symbol(symbol).meaning == Meaning::Base && !self.symbols.contains(&symbol);
        form.symbols().any(is_other)
    }
}

fn add(world: &World, cond: &Cond, goal: &About, found: &mut Vec<Cond>) {
    if let Cond::All(parts) = cond {
        return parts.iter().for_each(|part| add(world, part, goal, found));
    }
    let is_simple = match cond {
        Cond::AtLeast(_) => true,
        Cond::Any(parts) => parts.len() <= ALTERNATIVES && parts.iter().all(|part| matches!(part, Cond::AtLeast(_))),
        _ => false,
    };
    let own = About::of(cond);
    let mut is_far = false;
    cond.forms(&mut |form| is_far |= goal.lacks_address(world, form));
    // A longer product brings variables that the goal does not have.
    let fits = own.degree <= goal.degree && own.symbols.iter().any(|symbol| goal.symbols.contains(symbol));
    if is_simple && fits && !is_far {
        found.push(cond.clone());
    }
}

fn weaker(world: &World, cond: &Cond, goal: &About) -> Cond {
    let parts = |parts: &[Cond]| parts.iter().map(|part| weaker(world, part, goal)).collect::<Vec<_>>();
    match cond {
        Cond::AtLeast(form) if goal.lacks_address(world, form) => Cond::Const(true),
        Cond::All(all) => Cond::all(parts(all)),
        Cond::Any(any) => Cond::any(parts(any)),
        other => other.clone(),
    }
}
