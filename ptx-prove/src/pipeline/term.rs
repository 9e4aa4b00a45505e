//! Numbers that all threads of a cluster agree on: sums of products of atoms. Atoms are arguments, quotients, results of operations that are
//! equal where their operands are equal, and fresh ones. Every atom is at least zero.
//!
//! Terms are numbers without a width. That no term of a condition leaves its register is one of the assumptions of a proof of a pipeline.

use ptx_core::hash::{Map, Set};
use ptx_target::sort::SortSmall;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// An index into the atoms.
pub(crate) type Atom = u32;

/// The longest product, and the most products of a sum.
const DEGREE: usize = 4;
const TERMS: usize = 24;
/// The operation that reads memory.
pub(crate) const MEMORY: &str = "memory";
/// The most lists of facts whose consequences are kept.
const MOST_DECIDED: usize = 4096;
/// The most minima, maxima and quotients of a condition that are looked into.
const CASES: u32 = 4;
/// Operations whose result is one of their operands, with 1 if it is not less than any of them and -1 if it is not more; and those that divide, rounding down.
const ONE_OF: [(&str, i128); 2] = [("min", -1), ("max", 1)];
const QUOTIENTS: [&str; 1] = ["div"];
/// The steps that a comparison of two facts is worth, and one of two terms of states.
const FACT: u64 = 30;
pub(crate) const TERM: u64 = 10;
/// Larger coefficients are given up.
const LARGEST: i128 = 1 << 90;

/// `Σ coefficient · product + constant`
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Poly {
    pub(crate) terms: BTreeMap<Vec<Atom>, i128>,
    pub(crate) constant: i128,
}

impl Poly {
    pub(crate) fn number(constant: i128) -> Poly {
        Poly { terms: BTreeMap::new(), constant }
    }

    pub(crate) fn atom(atom: Atom) -> Poly {
        Poly::product(vec![atom])
    }

    /// The product of atoms in their order.
    fn product(atoms: Vec<Atom>) -> Poly {
        Poly::sum([(atoms, 1)].into_iter())
    }

    /// The sum of different products. Each is inserted: std sorts what a map collects, with four kilobytes of code for each kind of it.
    pub(crate) fn sum(products: impl Iterator<Item = (Vec<Atom>, i128)>) -> Poly {
        let mut sum = Poly::number(0);
        sum.terms.extend(products);
        sum
    }

    pub(crate) fn known(&self) -> Option<i128> {
        self.terms.is_empty().then_some(self.constant)
    }

    fn checked(self) -> Option<Poly> {
        let fits = |value: i128| value.abs() <= LARGEST;
        (self.terms.len() <= TERMS && fits(self.constant) && self.terms.values().all(|value| fits(*value)))
            .then_some(self)
    }

    /// `self + by * other`
    pub(crate) fn plus(&self, other: &Poly, by: i128) -> Option<Poly> {
        let mut sum = self.clone();
        sum.constant = sum.constant.checked_add(other.constant.checked_mul(by)?)?;
        for (mono, value) in &other.terms {
            let own = sum.terms.entry(mono.clone()).or_insert(0);
            *own = own.checked_add(value.checked_mul(by)?)?;
            if *own == 0 {
                sum.terms.remove(mono);
            }
        }
        sum.checked()
    }

    pub(crate) fn add(&self, value: i128) -> Poly {
        Poly { terms: self.terms.clone(), constant: self.constant.saturating_add(value) }
    }

    pub(crate) fn scale(&self, by: i128) -> Option<Poly> {
        Poly::number(0).plus(self, by)
    }

    pub(crate) fn times(&self, other: &Poly) -> Option<Poly> {
        let mut sum = other.scale(self.constant)?;
        for (mono, value) in &self.terms {
            for (others, factor) in
                other.terms.iter().map(|(mono, value)| (&mono[..], *value)).chain([(&[][..], other.constant)])
            {
                let mut joined = [&mono[..], others].concat();
                joined.sort_small();
                if joined.len() > DEGREE {
                    return None;
                }
                sum = sum.plus(&Poly::product(joined), value.checked_mul(factor)?)?;
            }
        }
        sum.checked()
    }

    /// The absolute value of a number that is this term divided by another one.
    pub(crate) fn multiple_of(&self, other: &Poly) -> Option<i128> {
        let (own, by) = match other.terms.first_key_value() {
            Some((mono, by)) => (*self.terms.get(mono)?, *by),
            None => (self.constant, other.constant),
        };
        let ratio = if by != 0 && own % by == 0 { own / by } else { return None };
        (other.scale(ratio)? == *self).then_some(ratio.abs())
    }

    /// With another term in the place of an atom.
    pub(crate) fn with(&self, atom: Atom, value: &Poly) -> Option<Poly> {
        let mut sum = Poly::number(self.constant);
        for (mono, factor) in &self.terms {
            let mut product = Poly::number(*factor);
            for own in mono {
                product = product.times(if *own == atom { value } else { continue })?;
            }
            let rest: Vec<Atom> = mono.iter().copied().filter(|own| *own != atom).collect();
            let rest = if rest.is_empty() { Poly::number(1) } else { Poly { terms: [(rest, 1)].into(), constant: 0 } };
            sum = sum.plus(&product.times(&rest)?, 1)?;
        }
        Some(sum)
    }

    /// 1 if it grows with an atom, and -1 if it falls; nothing if that depends on others. Atoms are at least zero.
    fn grows_with(&self, atom: Atom) -> Option<i128> {
        let mut signs = self.terms.iter().filter(|(mono, _)| mono.contains(&atom)).map(|(_, value)| value.signum());
        let first = signs.next()?;
        signs.all(|sign| sign == first).then_some(first)
    }

    /// A term that is not more than this one, or is at least zero where this one is, without a quotient `of / by`.
    fn without_quotient(&self, quotient: Atom, of: &Poly, by: &Poly) -> Option<Poly> {
        self.without_product(quotient, of, by).or_else(|| self.without_lone(quotient, of, by))
    }

    /// Without the product of the quotient with its divisor: `of - by + 1 <= by * quotient <= of`.
    fn without_product(&self, quotient: Atom, of: &Poly, by: &Poly) -> Option<Poly> {
        let (divisor, factor) = by.terms.first_key_value().filter(|_| by.terms.len() == 1 && by.constant == 0)?;
        let mut product = divisor.clone();
        product.push(quotient);
        product.sort_small();
        let value = *self.terms.get(&product)?;
        if value % factor != 0 {
            return None;
        }
        let mut rest = self.clone();
        rest.terms.remove(&product);
        let value = value / factor;
        let least = if value < 0 { of.clone() } else { of.plus(by, -1)?.add(1) };
        rest.plus(&least, value)
    }

    /// Without a quotient that stands alone: `rest + of / by >= 0` is `rest * by + of >= 0`, and `rest - of / by >= 0` is `rest * by + by - 1 - of >= 0`.
    fn without_lone(&self, quotient: Atom, of: &Poly, by: &Poly) -> Option<Poly> {
        let mut rest = self.clone();
        let sign = rest.terms.remove(&vec![quotient]).filter(|sign| sign.abs() == 1)?;
        if rest.atoms().any(|atom| atom == quotient) {
            return None;
        }
        let whole = if sign < 0 { rest.add(1) } else { rest };
        let sum = whole.times(by)?.plus(of, sign)?;
        Some(if sign < 0 { sum.add(-1) } else { sum })
    }

    /// Divided by an atom that all of its products have.
    fn without_factor(&self) -> Option<Poly> {
        let first = self.terms.keys().next().filter(|_| self.constant == 0)?;
        let common = first.iter().find(|atom| self.terms.keys().all(|mono| mono.contains(atom)))?;
        let mut sum = Poly::number(0);
        for (mono, value) in &self.terms {
            match without(mono, &[*common])? {
                mono if mono.is_empty() => sum.constant = *value,
                mono => drop(sum.terms.insert(mono, *value)),
            }
        }
        Some(sum)
    }

    pub(crate) fn atoms(&self) -> impl Iterator<Item = Atom> + '_ {
        self.terms.keys().flatten().copied()
    }

    /// The greatest common divisor of its coefficients; zero for a number.
    fn content(&self) -> i128 {
        self.terms.values().fold(0, |found, value| crate::solver::gcd(found, *value).unwrap_or(1))
    }

    /// Divided by a common divisor of its coefficients, rounded down.
    fn divided(&self, by: i128) -> Poly {
        let sum = Poly::sum(self.terms.iter().map(|(mono, value)| (mono.clone(), value / by)));
        Poly { constant: self.constant.div_euclid(by), ..sum }
    }
}

/// The meaning of an atom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Def {
    /// An argument, or a part of the place of the cluster.
    Name(String),
    /// The quotient, rounded down.
    Floor(Poly, i128),
    /// The result of an operation.
    Of(&'static str, Vec<Poly>),
    /// A number that nothing is known of; true if it may come from memory, so that its sign is open.
    Fresh(u32, bool),
}

/// By term: the truth of `term >= 0`, if it follows.
type Truths = Map<Poly, Option<bool>>;

/// The result of a proof of `term >= 0` by facts.
#[derive(Clone, Copy)]
enum Held {
    /// It is at least zero.
    Yes,
    /// That does not follow with so many minima, maxima and quotients.
    NotIn(u32),
}

/// All atoms of an exploration.
#[derive(Default)]
pub(crate) struct Atoms {
    pub(crate) defs: Vec<Def>,
    index: Map<Def, Atom>,
    /// By atom: true if a fresh one is in it.
    is_fresh: Vec<bool>,
    /// Those in the facts of the contract.
    pub(crate) given: Set<Atom>,
    /// Products that are others by the contract.
    equal: Vec<(Vec<Atom>, Vec<Atom>)>,
    fresh: u32,
    /// The steps so far: executed instructions, and comparisons of facts and of states by their size.
    pub(crate) steps: Cell<u64>,
    /// By facts: the truth of terms that are at least zero.
    decided: RefCell<Map<Vec<Poly>, Truths>>,
    /// By facts: the results for terms on the way.
    held: RefCell<Map<Vec<Poly>, Map<Poly, Held>>>,
}

impl Atoms {
    /// Counts steps.
    pub(crate) fn spend(&self, steps: u64) {
        self.steps.set(self.steps.get() + steps);
    }

    /// The truth of a term that has been decided by these facts; the inner one is open if it does not follow.
    fn decided(&self, facts: &Facts, of: &Poly) -> Option<Option<bool>> {
        self.decided.borrow().get(&facts.0)?.get(of).copied()
    }

    fn note(&self, facts: &Facts, of: &Poly, truth: Option<bool>) {
        let mut decided = self.decided.borrow_mut();
        if decided.len() > MOST_DECIDED {
            decided.clear();
        }
        decided.entry(facts.0.clone()).or_default().insert(of.clone(), truth);
    }

    pub(crate) fn intern(&mut self, def: Def) -> Atom {
        if let Some(old) = self.index.get(&def) {
            return *old;
        }
        let is_fresh = match &def {
            Def::Name(_) => false,
            Def::Fresh(..) => true,
            Def::Floor(of, _) => self.has_fresh(of),
            Def::Of(_, of) => of.iter().any(|of| self.has_fresh(of)),
        };
        let new = self.defs.len() as Atom;
        self.defs.push(def.clone());
        self.is_fresh.push(is_fresh);
        self.index.insert(def, new);
        new
    }

    pub(crate) fn name(&mut self, name: impl Into<String>) -> Poly {
        Poly::atom(self.intern(Def::Name(name.into())))
    }

    /// Begins another exploration: its fresh atoms are those of the one before, so that what is known of them holds.
    pub(crate) fn again(&mut self) {
        self.fresh = 0;
    }

    pub(crate) fn fresh(&mut self, is_data: bool) -> Poly {
        self.fresh += 1;
        let fresh = self.fresh;
        Poly::atom(self.intern(Def::Fresh(fresh, is_data)))
    }

    /// Returns true if a term may depend on memory, so that its sign is open.
    pub(crate) fn is_data(&self, of: &Poly) -> bool {
        of.atoms().any(|atom| match &self.defs[atom as usize] {
            Def::Name(_) => false,
            Def::Fresh(_, is_data) => *is_data,
            Def::Floor(of, _) => self.is_data(of),
            Def::Of(name, of) => *name == MEMORY || of.iter().any(|of| self.is_data(of)),
        })
    }

    pub(crate) fn of(&mut self, name: &'static str, operands: Vec<Poly>) -> Poly {
        Poly::atom(self.intern(Def::Of(name, operands)))
    }

    pub(crate) fn has_fresh(&self, of: &Poly) -> bool {
        of.atoms().any(|atom| self.is_fresh[atom as usize])
    }

    pub(crate) fn is_fresh(&self, atom: Atom) -> bool {
        matches!(self.defs[atom as usize], Def::Fresh(..))
    }

    /// All atoms of a term, at any depth.
    pub(crate) fn all_in(&self, of: &Poly, found: &mut Set<Atom>) {
        for atom in of.atoms() {
            if found.insert(atom) {
                match &self.defs[atom as usize] {
                    Def::Floor(of, _) => self.all_in(of, found),
                    Def::Of(_, of) => of.iter().for_each(|of| self.all_in(of, found)),
                    Def::Name(_) | Def::Fresh(..) => {}
                }
            }
        }
    }

    pub(crate) fn is_name(&self, atom: Atom) -> bool {
        matches!(self.defs[atom as usize], Def::Name(_))
    }

    /// Returns true if an atom is the result of an operation.
    pub(crate) fn is_operation(&self, atom: Atom) -> bool {
        matches!(self.defs[atom as usize], Def::Of(..) | Def::Floor(..))
    }

    /// Returns true if the inner atom is an operand of the outer one, at any depth.
    pub(crate) fn is_inside(&self, inner: Atom, outer: Atom) -> bool {
        let holds = |of: &Poly| of.atoms().any(|atom| atom == inner || self.is_inside(inner, atom));
        match &self.defs[outer as usize] {
            // Operands are older than their operation.
            _ if outer <= inner => false,
            Def::Floor(of, _) => holds(of),
            Def::Of(_, of) => of.iter().any(holds),
            Def::Name(_) | Def::Fresh(..) => false,
        }
    }

    /// The fresh atoms in a term, at any depth.
    pub(crate) fn fresh_in(&self, of: &Poly, found: &mut Vec<Atom>) {
        for atom in of.atoms().filter(|atom| self.is_fresh[*atom as usize]) {
            match &self.defs[atom as usize] {
                Def::Fresh(..) => found.push(atom),
                Def::Floor(of, _) => self.fresh_in(of, found),
                Def::Of(_, of) => of.iter().for_each(|of| self.fresh_in(of, found)),
                Def::Name(_) => {}
            }
        }
    }

    /// The quotient by a positive number, rounded down.
    pub(crate) fn floor(&mut self, of: &Poly, by: i128) -> Poly {
        if by == 1 {
            return of.clone();
        }
        let (mut whole, mut rest) =
            (Poly::number(of.constant.div_euclid(by)), Poly::number(of.constant.rem_euclid(by)));
        for (mono, value) in &of.terms {
            let (quotient, left) = (value.div_euclid(by), value.rem_euclid(by));
            if quotient != 0 {
                whole.terms.insert(mono.clone(), quotient);
            }
            if left != 0 {
                rest.terms.insert(mono.clone(), left);
            }
        }
        if rest.terms.is_empty() {
            return whole;
        }
        let atom = self.intern(Def::Floor(rest, by));
        whole.plus(&Poly::atom(atom), 1).unwrap_or_else(|| Poly::atom(atom))
    }

    /// The term with others in the place of atoms.
    pub(crate) fn replaced(&mut self, of: &Poly, by: &Map<Atom, Poly>) -> Option<Poly> {
        if !of.atoms().any(|atom| by.contains_key(&atom) || self.is_fresh[atom as usize]) {
            return Some(of.clone());
        }
        let mut sum = Poly::number(of.constant);
        for (mono, value) in &of.terms {
            let mut product = Poly::number(*value);
            for atom in mono {
                product = product.times(&self.replacement(*atom, by)?)?;
            }
            sum = sum.plus(&product, 1)?;
        }
        Some(sum)
    }

    fn replacement(&mut self, atom: Atom, by: &Map<Atom, Poly>) -> Option<Poly> {
        if let Some(new) = by.get(&atom) {
            return Some(new.clone());
        }
        match self.defs[atom as usize].clone() {
            Def::Floor(of, divisor) => {
                let of = self.replaced(&of, by)?;
                Some(self.floor(&of, divisor))
            }
            Def::Of(name, of) => {
                let of = of.iter().map(|of| self.replaced(of, by)).collect::<Option<Vec<_>>>()?;
                Some(self.of(name, of))
            }
            _ => Some(Poly::atom(atom)),
        }
    }

    /// Products that are equal in all launches: the first one is written as the second one.
    pub(crate) fn equate(&mut self, first: Vec<Atom>, second: Vec<Atom>) {
        if !self.equal.iter().any(|(own, _)| *own == first) {
            self.equal.push((first, second));
        }
    }

    /// Terms that are all at least zero only if this one is, without a quotient that is taken from another one by the same number: of these,
    /// one is not less if its dividend is not.
    fn without_greater(&self, of: &Poly, quotient: Atom) -> Option<[Poly; 3]> {
        let operands = |atom: Atom| match &self.defs[atom as usize] {
            Def::Of(name, operands) if QUOTIENTS.contains(name) => Some(operands),
            _ => None,
        };
        let own = operands(quotient).filter(|_| of.terms.get(&vec![quotient]) == Some(&-1))?;
        let (other, greater) = of.terms.iter().filter(|(_, value)| **value == 1).find_map(|(mono, _)| {
            let [other] = mono[..] else { return None };
            Some((other, operands(other).filter(|operands| operands[1] == own[1])?))
        })?;
        let rest = of.plus(&Poly::atom(quotient), 1)?.plus(&Poly::atom(other), -1)?;
        Some([rest, own[1].add(-1), greater[0].plus(&own[0], -1)?])
    }

    /// With one form for products that are equal.
    fn equated(&self, of: &Poly) -> Option<Poly> {
        let mut sum = of.clone();
        for (first, second) in &self.equal {
            for (mono, value) in sum.terms.clone() {
                let Some(rest) = without(&mono, first) else { continue };
                let mut new = [&rest[..], second].concat();
                new.sort_small();
                sum.terms.remove(&mono);
                sum = sum.plus(&Poly::product(new), value)?;
            }
        }
        Some(sum)
    }

    /// A condition `of >= 0` in its only form: without a common divisor, and without a quotient that stands alone.
    pub(crate) fn normal(&self, of: &Poly) -> Poly {
        let mut own = self.equated(of).unwrap_or_else(|| of.clone());
        for _ in 0..4 {
            let content = own.content();
            if content > 1 {
                own = own.divided(content);
            }
            let quotient =
                own.terms.iter().find_map(|(mono, value)| match (&mono[..], &self.defs[*mono.first()? as usize]) {
                    ([_], Def::Floor(of, by)) if value.abs() == 1 => Some((mono.clone(), *value, of.clone(), *by)),
                    _ => None,
                });
            let Some((mono, sign, of, by)) = quotient else { return own };
            let mut rest = own.clone();
            rest.terms.remove(&mono);
            // `⌊x/s⌋ + r >= 0` is `x + s r >= 0`, and `r - ⌊x/s⌋ >= 0` is `s r + s - 1 - x >= 0`.
            let changed = rest.scale(by).and_then(|rest| rest.plus(&of, sign));
            let Some(changed) = changed else { return own };
            own = if sign == 1 { changed } else { changed.add(by - 1) };
        }
        own
    }

    /// Returns true if a term is at least zero, because its atoms are.
    pub(crate) fn is_positive(&self, of: &Poly) -> bool {
        let plain = |of: &Poly| of.constant >= 0 && of.terms.values().all(|value| *value >= 0);
        if plain(of) {
            return true;
        }
        // With the bounds of quotients: `x - s + 1 <= s ⌊x/s⌋ <= x`.
        [false, true].into_iter().any(|both| {
            let mut own = of.clone();
            for _ in 0..3 {
                let quotient =
                    own.terms.iter().find_map(|(mono, value)| match (&mono[..], &self.defs[*mono.first()? as usize]) {
                        ([_], Def::Floor(of, by)) if *value < 0 || both => {
                            Some((mono.clone(), *value, of.clone(), *by))
                        }
                        _ => None,
                    });
                let Some((mono, value, of, by)) = quotient else { break };
                own.terms.remove(&mono);
                let Some(less) = own.scale(by).and_then(|own| own.plus(&of, value)) else { return false };
                own = if value < 0 { less } else { less.add(-value.saturating_mul(by - 1)) };
                if plain(&own) {
                    return true;
                }
            }
            plain(&own)
        })
    }

    /// Returns true if a term may be at least zero because a fact is: the fact has the first product that is less than zero, or the number. The order of
    /// facts does not matter. Quotients that stand alone have bounds of their own, which may take the place of other products.
    fn helps(&self, fact: &Poly, of: &Poly) -> bool {
        let is_alone = |mono: &[Atom]| matches!(mono, [atom] if matches!(self.defs[*atom as usize], Def::Floor(..)));
        if !shares(fact, of) || fact.terms.keys().chain(of.terms.keys()).any(|mono| is_alone(mono)) {
            return shares(fact, of);
        }
        match of.terms.iter().find(|(_, value)| **value < 0) {
            Some((mono, _)) => fact.terms.get(mono).is_some_and(|value| *value < 0),
            None => fact.constant < 0,
        }
    }

    /// For messages.
    pub(crate) fn show(&self, of: &Poly) -> String {
        let mut text = String::new();
        for (mono, value) in &of.terms {
            let names: Vec<String> = mono.iter().map(|atom| self.show_atom(*atom)).collect();
            let sign = if *value < 0 {
                " - "
            } else if text.is_empty() {
                ""
            } else {
                " + "
            };
            let factor = if value.abs() == 1 { String::new() } else { format!("{} * ", value.abs()) };
            text.push_str(&format!("{sign}{factor}{}", names.join(" * ")));
        }
        match (text.is_empty(), of.constant) {
            (true, constant) => constant.to_string(),
            (false, 0) => text,
            (false, constant) if constant < 0 => format!("{text} - {}", -constant),
            (false, constant) => format!("{text} + {constant}"),
        }
    }

    fn show_atom(&self, atom: Atom) -> String {
        match &self.defs[atom as usize] {
            Def::Name(name) => name.clone(),
            Def::Floor(of, by) => format!("({}) / {by}", self.show(of)),
            Def::Of(name, of) => {
                format!("{name}({})", of.iter().map(|of| self.show(of)).collect::<Vec<_>>().join(", "))
            }
            Def::Fresh(number, _) => format!("x{number}"),
        }
    }
}

/// A condition that all threads of a cluster agree on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cond {
    Const(bool),
    /// The term is at least zero.
    AtLeast(Poly),
    /// The term is zero.
    Zero(Poly),
    Not(Box<Cond>),
    And(Box<[Cond; 2]>),
}

impl Cond {
    pub(crate) fn negate(self) -> Cond {
        match self {
            Cond::Const(value) => Cond::Const(!value),
            Cond::AtLeast(of) => match of.scale(-1) {
                Some(minus) => Cond::AtLeast(minus.add(-1)),
                None => Cond::Not(Box::new(Cond::AtLeast(of))),
            },
            Cond::Not(inner) => *inner,
            other => Cond::Not(Box::new(other)),
        }
    }

    pub(crate) fn and(self, other: Cond) -> Cond {
        match (self, other) {
            (Cond::Const(false), _) | (_, Cond::Const(false)) => Cond::Const(false),
            (Cond::Const(true), other) | (other, Cond::Const(true)) => other,
            (a, b) => Cond::And(Box::new([a, b])),
        }
    }

    pub(crate) fn or(self, other: Cond) -> Cond {
        self.negate().and(other.negate()).negate()
    }

    /// Its terms, in order.
    pub(crate) fn polys<'c>(&'c self, found: &mut Vec<&'c Poly>) {
        match self {
            Cond::Const(_) => {}
            Cond::AtLeast(of) | Cond::Zero(of) => found.push(of),
            Cond::Not(inner) => inner.polys(found),
            Cond::And(parts) => parts.iter().for_each(|part| part.polys(found)),
        }
    }

    /// With other terms, in order.
    pub(crate) fn with(&self, polys: &mut impl Iterator<Item = Poly>) -> Option<Cond> {
        Some(match self {
            Cond::Const(value) => Cond::Const(*value),
            Cond::AtLeast(_) => Cond::AtLeast(polys.next()?),
            Cond::Zero(_) => Cond::Zero(polys.next()?),
            Cond::Not(inner) => Cond::Not(Box::new(inner.with(polys)?)),
            Cond::And(parts) => {
                let first = parts[0].with(polys)?;
                Cond::And(Box::new([first, parts[1].with(polys)?]))
            }
        })
    }

    /// Numbers that tell conditions of different shapes apart.
    pub(crate) fn shape(&self, found: &mut Vec<u32>) {
        match self {
            Cond::Const(value) => found.push(u32::from(*value)),
            Cond::AtLeast(_) => found.push(2),
            Cond::Zero(_) => found.push(3),
            Cond::Not(inner) => {
                found.push(4);
                inner.shape(found);
            }
            Cond::And(parts) => {
                found.push(5);
                parts.iter().for_each(|part| part.shape(found));
            }
        }
    }
}

/// Terms that are at least zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts(pub(crate) Vec<Poly>);

impl Facts {
    /// Adds `of >= 0`.
    pub(crate) fn assume(&mut self, atoms: &Atoms, of: &Poly) {
        let of = atoms.normal(of);
        if self.implies(atoms, &of) {
            return;
        }
        // Those that follow from the new one.
        self.0.retain(|old| old.plus(&of, -1).is_none_or(|rest| !atoms.is_positive(&rest)));
        self.0.push(of);
    }

    /// Adds a condition, as far as it is terms that are at least zero.
    pub(crate) fn suppose(&mut self, atoms: &Atoms, cond: &Cond) {
        match cond {
            Cond::AtLeast(of) => self.assume(atoms, of),
            Cond::Zero(of) => {
                self.assume(atoms, of);
                of.scale(-1).iter().for_each(|minus| self.assume(atoms, minus));
            }
            // A number that is not zero and has no sign.
            Cond::Not(inner) => match &**inner {
                Cond::Zero(of) if self.decide(atoms, of) == Some(true) => self.assume(atoms, &of.add(-1)),
                // One of two does not hold.
                Cond::And(parts) => {
                    for (one, other) in [(0, 1), (1, 0)] {
                        if self.truth(atoms, &parts[one]) == Ok(true) {
                            self.suppose(atoms, &parts[other].clone().negate());
                        }
                    }
                }
                _ => {}
            },
            Cond::And(parts) => parts.iter().for_each(|part| self.suppose(atoms, part)),
            Cond::Const(_) => {}
        }
    }

    /// Returns true if a term is at least zero because one fact or the sum of two is at most the term.
    fn implies(&self, atoms: &Atoms, of: &Poly) -> bool {
        if atoms.is_positive(of) || self.has_positive_factors(atoms, of) {
            return true;
        }
        let count = || atoms.spend(FACT);
        self.0.iter().filter(|fact| atoms.helps(fact, of)).any(|fact| {
            count();
            let Some(rest) = of.plus(fact, -1) else { return false };
            atoms.is_positive(&rest)
                || self.0.iter().filter(|other| atoms.helps(other, &rest)).any(|other| {
                    count();
                    rest.plus(other, -1).is_some_and(|rest| atoms.is_positive(&rest))
                })
        })
    }

    /// The truth of `of >= 0`, if it follows.
    pub(crate) fn decide(&self, atoms: &Atoms, of: &Poly) -> Option<bool> {
        if let Some(known) = atoms.decided(self, of) {
            return known;
        }
        let own = atoms.normal(of);
        let facts = self.about(atoms, &own);
        let truth = match atoms.decided(&facts, of) {
            Some(known) => known,
            None if facts.holds(atoms, &own, CASES) => Some(true),
            None => {
                let not = atoms.normal(&own.scale(-1)?.add(-1));
                facts.holds(atoms, &not, CASES).then_some(false)
            }
        };
        [self, &facts].into_iter().for_each(|facts| atoms.note(facts, of, truth));
        truth
    }

    /// The facts that say something about a term: about its atoms, and about those of such facts. So a condition is decided once, whatever the facts
    /// about others are.
    fn about(&self, atoms: &Atoms, of: &Poly) -> Facts {
        let mut held = Set::default();
        atoms.all_in(of, &mut held);
        let mut is_about = vec![false; self.0.len()];
        loop {
            atoms.spend(self.0.len() as u64);
            let before = held.len();
            for (first, second) in &atoms.equal {
                if first.iter().any(|atom| held.contains(atom)) {
                    held.extend(second);
                }
            }
            for (fact, is_about) in self.0.iter().zip(&mut is_about).filter(|(_, is_about)| !**is_about) {
                *is_about = fact.atoms().any(|atom| held.contains(&atom));
                if *is_about {
                    atoms.all_in(fact, &mut held);
                }
            }
            if held.len() == before {
                break;
            }
        }
        let own = self.0.iter().zip(is_about).filter(|(_, is_about)| *is_about);
        Facts(own.map(|(fact, _)| fact.clone()).collect())
    }

    /// The same as `implies`, with what minima, maxima and quotients are. Ways of looking into these come to the same terms.
    fn holds(&self, atoms: &Atoms, of: &Poly, cases: u32) -> bool {
        let known = atoms.held.borrow().get(&self.0).and_then(|all| all.get(of)).copied();
        match known {
            Some(Held::Yes) => return true,
            Some(Held::NotIn(tried)) if tried >= cases => return false,
            _ => {}
        }
        let holds = self.holds_by(atoms, of, cases);
        let held = if holds { Held::Yes } else { Held::NotIn(cases) };
        let mut all = atoms.held.borrow_mut();
        if all.len() > MOST_DECIDED {
            all.clear();
        }
        all.entry(self.0.clone()).or_default().insert(of.clone(), held);
        holds
    }

    fn holds_by(&self, atoms: &Atoms, of: &Poly, cases: u32) -> bool {
        if self.implies(atoms, of) {
            return true;
        }
        let Some(cases) = cases.checked_sub(1) else { return false };
        let holds = |of: Option<Poly>| of.is_some_and(|of| self.holds(atoms, &atoms.normal(&of), cases));
        if holds(of.without_factor()) {
            return true;
        }
        for atom in of.atoms() {
            let Def::Of(name, both) = &atoms.defs[atom as usize] else { continue };
            // It is one of them, and on one side of both.
            if let Some((_, sign)) = ONE_OF.iter().find(|(own, _)| own == name) {
                let mut values = both.iter();
                match of.grows_with(atom) == Some(*sign) {
                    true if values.any(|value| holds(of.with(atom, value))) => return true,
                    // Another minimum or maximum may decide it.
                    true => continue,
                    false => {
                        return values.all(|value| self.excludes(atoms, atom, value) || holds(of.with(atom, value)));
                    }
                }
            }
            if QUOTIENTS.contains(name) {
                let greater = atoms.without_greater(of, atom);
                if greater.is_some_and(|all| all.into_iter().all(|of| holds(Some(of)))) {
                    return true;
                }
                let Some(less) = of.without_quotient(atom, &both[0], &both[1]) else { continue };
                let is_quotient = [both[0].clone(), both[1].add(-1)].into_iter().all(|of| holds(Some(of)));
                if is_quotient && holds(Some(less)) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns true if a term is a product of numbers that are at least one, less one or nothing.
    fn has_positive_factors(&self, atoms: &Atoms, of: &Poly) -> bool {
        let Some((mono, value)) = of.terms.first_key_value().filter(|_| of.terms.len() == 1) else { return false };
        let is_positive = |atom: &Atom| self.implies(atoms, &atoms.normal(&Poly::atom(*atom).add(-1)));
        mono.len() > 1 && *value >= -of.constant && *value > 0 && mono.iter().all(is_positive)
    }

    /// Returns true if a fact excludes this value of an atom.
    fn excludes(&self, atoms: &Atoms, atom: Atom, value: &Poly) -> bool {
        let is_false = |of: Poly| of.scale(-1).is_some_and(|minus| atoms.is_positive(&minus.add(-1)));
        let mut own = self.0.iter().filter(|fact| fact.atoms().any(|own| own == atom));
        own.any(|fact| {
            atoms.spend(FACT);
            fact.with(atom, value).is_some_and(is_false)
        })
    }

    /// The truth of a condition, or a term whose sign would decide more of it.
    pub(crate) fn truth(&self, atoms: &Atoms, cond: &Cond) -> Result<bool, Poly> {
        match cond {
            Cond::Const(value) => Ok(*value),
            Cond::AtLeast(of) => self.decide(atoms, of).ok_or_else(|| of.clone()),
            Cond::Zero(of) => {
                let Some(minus) = of.scale(-1) else { return Err(of.clone()) };
                match (self.decide(atoms, of), self.decide(atoms, &minus)) {
                    (Some(false), _) | (_, Some(false)) => Ok(false),
                    (Some(true), Some(true)) => Ok(true),
                    (None, _) => Err(of.clone()),
                    (_, None) => Err(minus),
                }
            }
            Cond::Not(inner) => self.truth(atoms, inner).map(|value| !value),
            Cond::And(parts) => match (self.truth(atoms, &parts[0]), self.truth(atoms, &parts[1])) {
                (Ok(false), _) | (_, Ok(false)) => Ok(false),
                (Ok(true), Ok(true)) => Ok(true),
                (Err(open), _) | (_, Err(open)) => Err(open),
            },
        }
    }
}

/// A product without the factors of another one, if it has them.
fn without(mono: &[Atom], factors: &[Atom]) -> Option<Vec<Atom>> {
    let mut rest = mono.to_vec();
    for factor in factors {
        rest.remove(rest.iter().position(|own| own == factor)?);
    }
    Some(rest)
}

/// Returns true if two terms have a product in common.
fn shares(a: &Poly, b: &Poly) -> bool {
    a.terms.keys().any(|mono| b.terms.contains_key(mono))
}
