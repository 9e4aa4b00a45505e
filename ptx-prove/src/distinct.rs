//! Buffers by whose elements threads find where they write, such as the pages of a cache for its new tokens: somebody vouches that different elements are
//! different numbers, below a bound if there is one. Threads of a race have then read one element, or numbers of which one is less. The elements are what
//! somebody vouches for, so that bounds depend on none of this.

use crate::form::{Cond, Sym};
use crate::grids::Digit;
use crate::machine::Machine;
use crate::query::{Atom, Clause, difference};
use crate::trace::{Element, Kind, What};
use crate::world::Scope;
use ptx_core::hash::Set;
use ptx_target::sort::SortSmall;

/// The conditions under which the places of two threads meet: those of one thread with its number, and those of both.
#[derive(Clone, Default)]
pub(crate) struct Case {
    pub(crate) conds: Vec<(usize, Cond)>,
    pub(crate) mixed: Vec<Clause>,
}

/// The cases of two accesses, one of which holds where their places meet; one without conditions where no such elements lead there. `parts` are those of
/// two places.
pub(crate) fn cases(machine: &Machine<'_>, both: [usize; 2], parts: &dyn Fn([usize; 2]) -> Vec<Digit>) -> Vec<Case> {
    let [first, second] = both.map(|access| elements(machine, access));
    let accesses = &machine.trace.accesses;
    // Those by which threads read may be the same.
    let write = both.iter().all(|at| accesses[*at].kind != Kind::Read);
    let is_pair = |a: &&Element, b: &&Element| {
        accesses[a.access].base == accesses[b.access].base && a.values.len() == b.values.len()
    };
    let pair = first.iter().find_map(|a| second.iter().find(|b| is_pair(a, b)).map(|b| (*a, *b)));
    let Some((a, b)) = pair.filter(|_| write) else { return vec![Case::default()] };
    let conds: Vec<(usize, Cond)> = [(0, a), (1, b)]
        .into_iter()
        .flat_map(|(view, own)| below(machine, own).map(move |cond| (view, cond)))
        .collect();
    let mut same: Vec<Clause> = parts([a.access, b.access]).iter().flat_map(Digit::meets).collect();
    if !machine.written.contains(&machine.bases[accesses[a.access].base].what) {
        let values = a.values.iter().zip(&b.values);
        same.extend(values.flat_map(|(x, y)| [difference((0, x), (1, y), 0), difference((1, y), (0, x), 0)]).map(one));
    }
    let others = a.values.iter().zip(&b.values).flat_map(|(x, y)| {
        [difference((0, x), (1, y), -1), difference((1, y), (0, x), -1)].map(|less| vec![one(less)])
    });
    others.chain([same]).map(|mixed| Case { conds: conds.clone(), mixed }).collect()
}

/// A clause of one condition.
fn one(atom: Atom) -> Clause {
    vec![vec![atom]]
}

/// The conditions of a choice that the launch alone settles and on which a place depends, such as that of a cache without pages: one holds in every launch.
pub(crate) fn sides(machine: &Machine<'_>, accesses: [usize; 2]) -> Vec<Cond> {
    let world = &machine.world;
    let mut symbols: Vec<Sym> = accesses.into_iter().flat_map(|access| symbols_of(machine, access)).collect();
    symbols.sort_small();
    let mut choices = symbols.into_iter().filter_map(|symbol| world.choice(symbol)).map(|(cond, _)| cond);
    match choices.find(|cond| world.cond_scope(cond) == Scope::Grid) {
        Some(cond) => vec![cond.clone(), cond.negate()],
        None => vec![Cond::Const(true)],
    }
}

/// The elements on which the place of an access depends.
fn elements<'m>(machine: &'m Machine<'_>, access: usize) -> Vec<&'m Element> {
    let symbols = symbols_of(machine, access);
    let leads =
        |element: &&Element| element.values.iter().all(|value| value.symbols().all(|own| symbols.contains(&own)));
    machine.trace.elements.iter().filter(leads).collect()
}

/// The symbols of a place, and those that determine them.
fn symbols_of(machine: &Machine<'_>, access: usize) -> Set<Sym> {
    let access = &machine.trace.accesses[access];
    let mut pending: Vec<Sym> = access.offset.symbols().collect();
    if let What::Entry(entry) = machine.bases[access.base].what {
        pending.extend(machine.entries[entry].1.symbols());
    }
    let mut seen: Set<Sym> = Set::default();
    while let Some(symbol) = pending.pop() {
        if seen.insert(symbol) {
            let facts = machine.world.facts_of(symbol);
            facts.iter().for_each(|fact| fact.forms(&mut |form| pending.extend(form.symbols())));
        }
    }
    seen
}

/// The values of elements are below the bound of their buffer.
fn below<'m>(machine: &'m Machine<'_>, element: &'m Element) -> impl Iterator<Item = Cond> + 'm {
    let what = machine.bases[machine.trace.accesses[element.access].base].what;
    let bound = machine.launch.distinct.iter().find(|(param, _)| what == What::Param(*param));
    let bound = bound.and_then(|(_, bound)| bound.as_ref());
    element.values.iter().filter_map(move |value| Cond::lt(value, bound?))
}
