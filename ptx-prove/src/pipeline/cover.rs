//! States that stand for others: a state with terms in the place of numbers covers every state that it becomes with other terms for its fresh atoms.
//!
//! States of one shape whose terms change by the same numbers from one to the next, at the top or in operands, are joined to one that covers all that
//! follow. States of a recursion, in which an atom becomes an operand of its own next value, are joined, too: a fresh atom replaces it. Beside that, two states
//! of the same key, a turn of a loop apart, are joined to one that covers both: where their terms differ by a number, the number becomes a
//! multiple of one fresh atom; operations are joined operand by operand; and anything else becomes a fresh atom, the same one for the same pair. So
//! what warps agree on stays equal in all of them.

use super::state::{Place, State};
use super::term::{Atom, Atoms, Cond, Def, Facts, Poly, TERM};
use super::value::Value;
use ptx_core::hash::{Map, Set};
use ptx_target::sort::SortSmall;
use std::rc::Rc;

/// A state of an exploration: the values of its flexible places as terms, and the facts.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) terms: Vec<Poly>,
    pub(crate) facts: Facts,
}

/// The terms of a state, in the order of its places; nothing if a predicate's shape is too long.
pub(crate) fn terms(state: &State, places: &[Place]) -> Vec<Poly> {
    let mut found = Vec::new();
    for place in places {
        match state.value(*place) {
            // Numbers of 32 bits.
            Value::Number(number) => found.push(Poly::number((*number).into())),
            Value::Term(of) | Value::Single(_, of) => found.push((**of).clone()),
            Value::Truth(cond) | Value::Chosen(_, cond) => {
                let mut polys = Vec::new();
                cond.polys(&mut polys);
                found.extend(polys.into_iter().cloned());
            }
            Value::Unknown | Value::Uniform | Value::Lanes(_) | Value::Some(..) => {}
        }
    }
    found
}

/// The state with other terms.
pub(crate) fn replace(state: &mut State, places: &[Place], terms: Vec<Poly>) -> Option<()> {
    let mut terms = terms.into_iter();
    for place in places {
        let new = match state.value(*place).clone() {
            Value::Number(_) | Value::Term(_) => Value::term(terms.next()?),
            Value::Single(lane, _) => Value::Single(lane, Rc::new(terms.next()?)),
            Value::Truth(cond) => Value::Truth(Rc::new(with(&cond, &mut terms)?)),
            Value::Chosen(lane, cond) => Value::Chosen(lane, Rc::new(with(&cond, &mut terms)?)),
            other => other,
        };
        state.set(*place, new);
    }
    Some(())
}

fn with(cond: &Cond, terms: &mut std::vec::IntoIter<Poly>) -> Option<Cond> {
    cond.with(terms)
}

/// Returns true if a state covers another one.
pub(crate) fn covers(atoms: &mut Atoms, general: &Seen, own: &Seen) -> bool {
    if general.terms.len() != own.terms.len() || !are_alike(atoms, general, own) {
        return false;
    }
    // Warps of one role have equal terms.
    let mut seen = Set::default();
    let pairs: Vec<(&Poly, &Poly)> =
        general.terms.iter().zip(&own.terms).filter(|(a, b)| atoms.has_fresh(a) && seen.insert((*a, *b))).collect();
    let mut by: Map<Atom, Poly> = Map::default();
    loop {
        atoms.spend(TERM * pairs.len() as u64);
        let before = by.len();
        for (a, b) in &pairs {
            bind(atoms, a, b, &mut by, 0);
        }
        if by.len() == before && !pairs.iter().any(|(a, b)| absorb(atoms, a, b, &mut by)) {
            break;
        }
    }
    if by.values().any(|of| !own.facts.decide(atoms, of).unwrap_or(false)) {
        return false;
    }
    let mut same = |a: &Poly| atoms.replaced(a, &by);
    if !pairs.iter().all(|(a, b)| same(a).as_ref() == Some(b)) {
        return false;
    }
    let facts: Option<Vec<Poly>> = general.facts.0.iter().map(same).collect();
    // An atom without a value may have any: it is in no term.
    facts.is_some_and(|facts| facts.iter().all(|fact| own.facts.decide(atoms, fact) == Some(true)))
}

/// Returns true if terms without fresh atoms are equal.
fn are_alike(atoms: &Atoms, general: &Seen, own: &Seen) -> bool {
    let differs = |(a, b): (&Poly, &Poly)| a != b && !atoms.has_fresh(a);
    let first = general.terms.iter().zip(&own.terms).position(differs);
    atoms.spend(first.map_or(general.terms.len(), |first| first + 1) as u64);
    first.is_none()
}

/// Finds values of fresh atoms with which one term becomes the other one.
fn bind(atoms: &mut Atoms, general: &Poly, own: &Poly, by: &mut Map<Atom, Poly>, depth: u32) {
    let open = |atoms: &Atoms, by: &Map<Atom, Poly>| {
        let mut found = Vec::new();
        atoms.fresh_in(general, &mut found);
        found.retain(|atom| !by.contains_key(atom));
        found
    };
    if depth > 6 || !atoms.has_fresh(general) || open(atoms, by).is_empty() {
        return;
    }
    let Some(left) = atoms.replaced(general, by) else { return };
    if left == *own {
        return identity(atoms, general, by);
    }
    // Operations of the same name come first: inside of them a number stands alone.
    let nested: Vec<Atom> =
        left.atoms().filter(|atom| !atoms.is_fresh(*atom) && atoms.has_fresh(&Poly::atom(*atom))).collect();
    for atom in nested {
        for other in own.atoms().filter(|other| !left.atoms().any(|own| own == *other)).collect::<Vec<_>>() {
            match (atoms.defs[atom as usize].clone(), atoms.defs[other as usize].clone()) {
                (Def::Of(a, left), Def::Of(b, right)) if a == b && left.len() == right.len() => {
                    left.iter().zip(&right).for_each(|(a, b)| bind(atoms, a, b, by, depth + 1));
                }
                (Def::Floor(left, a), Def::Floor(right, b)) if a == b => bind(atoms, &left, &right, by, depth + 1),
                _ => {}
            }
        }
    }
    let Some(left) = atoms.replaced(general, by) else { return };
    if left == *own {
        return identity(atoms, general, by);
    }
    let fresh = open(atoms, by);
    let open: Vec<(Vec<Atom>, i128)> = left
        .terms
        .iter()
        .filter(|(mono, _)| mono.iter().any(|atom| fresh.contains(atom)))
        .map(|(mono, value)| (mono.clone(), *value))
        .collect();
    // All that is open has one fresh atom, once.
    let unbound: Vec<Atom> =
        open.iter().flat_map(|(mono, _)| mono.iter().copied().filter(|atom| fresh.contains(atom))).collect();
    let Some((mono, value)) = open.first() else { return };
    if unbound.len() != open.len() || unbound.iter().any(|atom| *atom != unbound[0]) {
        return;
    }
    let part = Poly::sum(open.iter().cloned());
    let Some(rest) = own.plus(&left, -1).and_then(|rest| rest.plus(&part, 1)) else { return };
    if open.len() == 1 {
        if let Some(quotient) = quotient(&rest, mono, *value, unbound[0]) {
            by.insert(unbound[0], quotient);
        }
        return;
    }
    // Of several products, the first one gives the value, if it is that of all.
    let mut factors = mono.clone();
    factors.retain(|atom| *atom != unbound[0]);
    let has = |own: &[Atom]| factors.iter().all(|factor| own.contains(factor));
    let of_factors = rest.terms.iter().filter(|(own, _)| has(own));
    let first = Poly::sum(of_factors.map(|(own, value)| (own.clone(), *value)));
    if let Some(quotient) = quotient(&first, mono, *value, unbound[0])
        && part.with(unbound[0], &quotient) == Some(rest)
    {
        by.insert(unbound[0], quotient);
    }
}

/// Binds the atoms of a term with several fresh ones: one of them takes the difference, and the others stand for themselves.
fn absorb(atoms: &mut Atoms, general: &Poly, own: &Poly, by: &mut Map<Atom, Poly>) -> bool {
    let Some(left) = atoms.replaced(general, by) else { return false };
    let unbound = |atoms: &Atoms, mono: &[Atom], by: &Map<Atom, Poly>| -> Vec<Atom> {
        mono.iter().copied().filter(|atom| atoms.is_fresh(*atom) && !by.contains_key(atom)).collect()
    };
    let mut open: Vec<(Vec<Atom>, i128, Atom)> = Vec::new();
    for (mono, value) in &left.terms {
        match unbound(atoms, mono, by)[..] {
            [] => {}
            [atom] => open.push((mono.clone(), *value, atom)),
            _ => return false,
        }
    }
    if open.len() < 2 {
        return false;
    }
    let is_missing = |(mono, value, _): &&(Vec<Atom>, i128, Atom)| own.terms.get(mono) != Some(value);
    match open.iter().filter(is_missing).count() {
        0 => {}
        1 => open.sort_small_by_key(|(mono, value, _)| own.terms.get(mono) == Some(value)),
        _ => return false,
    }
    let is_data = |atom: Atom| matches!(atoms.defs[atom as usize], Def::Fresh(_, true));
    let mut candidates: Vec<_> = open.iter().collect();
    match open.iter().any(|one| is_missing(&one)) {
        true => candidates.truncate(1),
        false => candidates.sort_small_by_key(|(.., atom)| is_data(*atom)),
    }
    let found = candidates.into_iter().find_map(|(mono, value, atom)| {
        let own_part = Poly { terms: [(mono.clone(), *value)].into(), constant: 0 };
        let rest = own.plus(&left, -1)?.plus(&own_part, 1)?;
        Some((*atom, quotient(&rest, mono, *value, *atom)?))
    });
    let Some((atom, value)) = found else { return false };
    by.insert(atom, value);
    for (.., other) in open {
        by.entry(other).or_insert_with(|| Poly::atom(other));
    }
    true
}

/// Fresh atoms of a term that is equal stand for themselves.
fn identity(atoms: &Atoms, of: &Poly, by: &mut Map<Atom, Poly>) {
    let mut fresh = Vec::new();
    atoms.fresh_in(of, &mut fresh);
    for atom in fresh {
        by.entry(atom).or_insert_with(|| Poly::atom(atom));
    }
}

/// `rest / (value · mono / atom)`, if it is exact.
fn quotient(rest: &Poly, mono: &[Atom], value: i128, atom: Atom) -> Option<Poly> {
    let mut factors = mono.to_vec();
    factors.remove(factors.iter().position(|own| *own == atom)?);
    let mut found = Poly::number(0);
    if factors.is_empty() {
        if rest.constant % value != 0 {
            return None;
        }
        found.constant = rest.constant / value;
    } else if rest.constant != 0 {
        return None;
    }
    for (own, factor) in &rest.terms {
        let mut own = own.clone();
        for factor in &factors {
            own.remove(own.iter().position(|atom| atom == factor)?);
        }
        if factor % value != 0 {
            return None;
        }
        if own.is_empty() {
            found.constant = factor / value;
        } else {
            found.terms.insert(own, factor / value);
        }
    }
    Some(found)
}

/// The differences that two states may have to be joined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Numbers, or multiples of what both have.
    OnlyNumbers,
    /// The same, and terms in which those before stand: a recursion.
    Nested,
    AnyTerms,
}

/// Pairs of terms that have been joined.
struct Joins<'a> {
    atoms: &'a mut Atoms,
    /// The fresh atom of differences by numbers.
    step: Option<Poly>,
    pairs: Map<(Poly, Poly), Poly>,
    /// The differences of terms in order.
    changes: Vec<Poly>,
    /// The same, each once, and the largest multiple of one in a fact.
    steps: Vec<Poly>,
    ratio: i128,
    /// False while facts are joined: no new atoms.
    may_add: bool,
    steps_are: Steps,
    facts: [&'a Facts; 2],
}

/// States of one shape that a later one is compared with.
const RECENT: usize = 4;

/// Returns true if one of these states covers another one.
pub(crate) fn are_covering(atoms: &mut Atoms, all: &[Seen], own: &Seen) -> bool {
    all.iter().any(|seen| covers(atoms, seen, own))
}

/// A state that covers this one and those of its shape that follow. The phases of barriers may differ in them, so that a turn of a loop is enough, and not
/// as many as there are stages. The terms have to change by the same numbers twice in a row: they do not while
/// a producer still fills its stages.
pub(crate) fn generalize(atoms: &mut Atoms, alike: &mut Vec<Seen>, own: &Seen) -> Option<Seen> {
    if let Some(general) = alike.iter().find(|general| covers(atoms, general, own)) {
        return Some(general.clone());
    }
    for at in (0..alike.len()).rev() {
        if repeats(atoms, &alike[..=at], own)
            && let Some(joined) = join(atoms, &alike[at], own, Steps::OnlyNumbers)
        {
            alike[at] = joined.clone();
            return Some(joined);
        }
    }
    // A recursion grows, and no turn of it is like another one.
    let nests = |at: &usize| is_nested(atoms, &alike[*at], own);
    if let Some(at) = (0..alike.len()).rev().find(nests)
        && let Some(joined) = join(atoms, &alike[at], own, Steps::Nested)
    {
        alike[at] = joined.clone();
        return Some(joined);
    }
    alike.push(own.clone());
    None
}

/// Returns true if terms change from the last state to the next one as they have changed before.
fn repeats(atoms: &mut Atoms, all: &[Seen], own: &Seen) -> bool {
    let Some((last, before)) = all.split_last() else { return false };
    let Some(step) = step(last, own) else { return false };
    if before.iter().any(|before| self::step(before, last).as_ref() == Some(&step)) {
        return true;
    }
    // Operands may have changed so.
    let is_operation = |of: &Poly| of.atoms().any(|atom| atoms.is_operation(atom));
    step.iter().any(is_operation)
        && inner_step(atoms, last, own).is_some_and(|step| {
            before.iter().rev().take(RECENT).any(|before| inner_step(atoms, before, last).as_ref() == Some(&step))
        })
}

/// By how much terms have changed from one state to the other one.
fn step(from: &Seen, to: &Seen) -> Option<Vec<Poly>> {
    from.terms.iter().zip(&to.terms).map(|(from, to)| to.plus(from, -1)).collect()
}

/// By how much terms have changed from one state to the other one, in operands of operations, too.
fn inner_step(atoms: &mut Atoms, from: &Seen, to: &Seen) -> Option<Vec<Vec<Poly>>> {
    if from.terms.len() != to.terms.len() {
        return None;
    }
    atoms.spend(TERM * from.terms.len() as u64);
    let mut joins = Joins::new(atoms, [&from.facts, &to.facts], Steps::OnlyNumbers);
    let terms = from.terms.iter().zip(&to.terms);
    let changes = terms.map(|(from, to)| joins.join(from, to, 0).map(|_| std::mem::take(&mut joins.changes)));
    changes.collect()
}

/// Returns true if an atom of the first state is an operand, at any depth, of the atom at its place in the second state.
fn is_nested(atoms: &Atoms, from: &Seen, to: &Seen) -> bool {
    let nests = |from: &Poly, to: &Poly| match (
        &from.terms.keys().collect::<Vec<_>>()[..],
        &to.terms.keys().collect::<Vec<_>>()[..],
    ) {
        ([from], [to]) => match (&from[..], &to[..]) {
            ([from], [to]) => atoms.is_inside(*from, *to),
            _ => false,
        },
        _ => false,
    };
    from.terms.len() == to.terms.len() && from.terms.iter().zip(&to.terms).any(|(from, to)| nests(from, to))
}

/// A state that covers two.
pub(crate) fn join(atoms: &mut Atoms, a: &Seen, b: &Seen, steps_are: Steps) -> Option<Seen> {
    if a.terms.len() != b.terms.len() {
        return None;
    }
    let mut joins = Joins::new(atoms, [&a.facts, &b.facts], steps_are);
    let terms: Option<Vec<Poly>> = a.terms.iter().zip(&b.terms).map(|(a, b)| joins.join(a, b, 0)).collect();
    let terms = terms?;
    joins.may_add = false;
    let mut facts = Facts::default();
    let only = |of: &Facts, other: &Facts| -> Vec<Poly> {
        of.0.iter().filter(|fact| !other.0.contains(fact)).cloned().collect()
    };
    facts.0.extend(a.facts.0.iter().filter(|fact| b.facts.0.contains(fact)).cloned());
    // A fact of one with the fact of the other one that is the same steps away as the terms are.
    for (own, others, is_first) in
        [(only(&a.facts, &b.facts), &b.facts.0, true), (only(&b.facts, &a.facts), &a.facts.0, false)]
    {
        for fact in own {
            let mut nearest: Option<(i128, Poly)> = None;
            for other in others {
                joins.ratio = 0;
                let joined = if is_first { joins.join(&fact, other, 0) } else { joins.join(other, &fact, 0) };
                if let Some(joined) = joined.filter(|_| nearest.as_ref().is_none_or(|(ratio, _)| joins.ratio < *ratio))
                {
                    nearest = Some((joins.ratio, joined));
                }
            }
            nearest.iter().for_each(|(_, joined)| facts.assume(joins.atoms, joined));
        }
    }
    // A fact of one that follows from those of the other one.
    for (of, other) in [(a, b), (b, a)] {
        for fact in of.facts.0.iter().filter(|fact| !joins.atoms.has_fresh(fact)) {
            if other.facts.decide(joins.atoms, fact) == Some(true) {
                facts.assume(joins.atoms, fact);
            }
        }
    }
    Some(Seen { terms, facts })
}

impl<'a> Joins<'a> {
    fn new(atoms: &'a mut Atoms, facts: [&'a Facts; 2], steps_are: Steps) -> Joins<'a> {
        Joins {
            atoms,
            step: None,
            pairs: Map::default(),
            changes: Vec::new(),
            steps: Vec::new(),
            ratio: 0,
            may_add: true,
            steps_are,
            facts,
        }
    }

    fn join(&mut self, a: &Poly, b: &Poly, depth: u32) -> Option<Poly> {
        if a == b {
            return Some(a.clone());
        }
        if let Some(known) = self.pairs.get(&(a.clone(), b.clone())) {
            return Some(known.clone());
        }
        let difference = b.plus(a, -1)?;
        // By a number, or by a multiple of what both have.
        let both = |atom: Atom| a.atoms().any(|own| own == atom) && b.atoms().any(|own| own == atom);
        let is_step = difference.known().is_some()
            || difference.atoms().all(|atom| both(atom) && !self.atoms.has_fresh(&Poly::atom(atom)));
        if is_step && !self.may_add {
            let multiple = |step: &Poly| difference.multiple_of(step);
            self.ratio = self.ratio.max(self.steps.iter().filter_map(multiple).min()?);
        }
        if is_step {
            self.changes.push(difference.clone());
            if self.may_add && !self.steps.contains(&difference) {
                self.steps.push(difference.clone());
            }
            let step = match (&self.step, self.may_add) {
                (Some(step), _) => step.clone(),
                (None, true) => self.step.insert(self.atoms.fresh(false)).clone(),
                (None, false) => return None,
            };
            return a.plus(&difference.times(&step)?, 1);
        }
        if let Some(joined) = self.parts(a, b, depth) {
            self.pairs.insert((a.clone(), b.clone()), joined.clone());
            return Some(joined);
        }
        // A fresh atom is at least zero.
        let positive = [a, b].iter().zip(self.facts).all(|(of, facts)| facts.decide(self.atoms, of) == Some(true));
        if !self.may_add || self.steps_are != Steps::AnyTerms || !positive {
            return None;
        }
        let new = self.atoms.fresh(true);
        self.pairs.insert((a.clone(), b.clone()), new.clone());
        Some(new)
    }

    /// Terms of the same shape whose atoms are joined one by one.
    fn parts(&mut self, a: &Poly, b: &Poly, depth: u32) -> Option<Poly> {
        if a.terms.len() != b.terms.len() || a.constant != b.constant || depth > 6 {
            return None;
        }
        let own = |of: &Poly, other: &Poly| -> Vec<(Vec<Atom>, i128)> {
            of.terms
                .iter()
                .filter(|(mono, value)| other.terms.get(*mono) != Some(value))
                .map(|(mono, value)| (mono.clone(), *value))
                .collect()
        };
        let (left, right) = (own(a, b), own(b, a));
        if left.len() != right.len() || left.len() > 3 {
            return None;
        }
        let mut sum = a.clone();
        let mut used = vec![false; right.len()];
        for (mono, value) in left {
            sum.terms.remove(&mono);
            let mut found = None;
            for (at, (other, factor)) in right.iter().enumerate() {
                if used[at] || *factor != value || other.len() != mono.len() {
                    continue;
                }
                let mut product = Some(Poly::number(value));
                for (a, b) in mono.iter().zip(other) {
                    product = match (product, self.atom(*a, *b, depth)) {
                        (Some(product), Some(joined)) => product.times(&joined),
                        _ => None,
                    };
                }
                if let Some(product) = product {
                    found = Some(product);
                    used[at] = true;
                    break;
                }
            }
            sum = sum.plus(&found?, 1)?;
        }
        Some(sum)
    }

    fn atom(&mut self, a: Atom, b: Atom, depth: u32) -> Option<Poly> {
        if a == b {
            return Some(Poly::atom(a));
        }
        if self.steps_are != Steps::OnlyNumbers && (self.atoms.is_inside(a, b) || self.atoms.is_inside(b, a)) {
            return self.either(a, b, true);
        }
        match (self.atoms.defs[a as usize].clone(), self.atoms.defs[b as usize].clone()) {
            (Def::Of(name, left), Def::Of(other, right)) if name == other && left.len() == right.len() => {
                let joined =
                    left.iter().zip(&right).map(|(a, b)| self.join(a, b, depth + 1)).collect::<Option<Vec<_>>>()?;
                Some(self.atoms.of(name, joined))
            }
            (Def::Floor(left, by), Def::Floor(right, other)) if by == other => {
                let joined = self.join(&left, &right, depth + 1)?;
                Some(self.atoms.floor(&joined, by))
            }
            (Def::Fresh(_, one), Def::Fresh(_, other)) => self.either(a, b, one || other),
            _ => None,
        }
    }

    /// A fresh atom in the place of two.
    fn either(&mut self, a: Atom, b: Atom, is_data: bool) -> Option<Poly> {
        let key = (Poly::atom(a), Poly::atom(b));
        if let Some(known) = self.pairs.get(&key) {
            return Some(known.clone());
        }
        if !self.may_add || self.steps_are == Steps::OnlyNumbers {
            return None;
        }
        let new = self.atoms.fresh(is_data);
        self.pairs.insert(key, new.clone());
        Some(new)
    }
}

/// Drops facts about atoms that neither a place holds anymore nor the contract names: what they imply for others stays.
pub(crate) fn forget(atoms: &Atoms, seen: &mut Seen) {
    let mut held = atoms.given.clone();
    seen.terms.iter().for_each(|of| atoms.all_in(of, &mut held));
    let is_held = |atom: &Atom| atoms.is_name(*atom) || held.contains(atom);
    let facts = std::mem::take(&mut seen.facts.0);
    'facts: for fact in facts {
        let mut less = fact.clone();
        for (mono, value) in fact.terms.iter().filter(|(mono, _)| !mono.iter().all(is_held)) {
            // Less a number that is at least zero.
            if *value > 0 {
                continue 'facts;
            }
            less.terms.remove(mono);
        }
        match less == fact {
            true => seen.facts.0.push(fact),
            false => seen.facts.assume(atoms, &less),
        }
    }
}
