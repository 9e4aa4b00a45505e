//! What bounds alone say of a problem, before it is searched: tighter bounds, numbers that are known, facts that always hold, and alternatives that
//! cannot be. The search is spared what they would cost, above all the large numbers of wrapped registers.

use super::congruence::congruences;
use super::{Conjunction, Linear, Problem};
use ptx_core::hash::Set;
use std::cmp::{max, min};

/// The most passes over the facts.
const PASSES: usize = 8;
/// The most pairs of equal numbers that get one name.
const UNITED: usize = 32;

/// The least and the greatest value, as far as they are known.
#[derive(Clone, Copy, Default, PartialEq)]
struct Range {
    least: Option<i128>,
    most: Option<i128>,
}

impl Range {
    /// The greatest value of a multiple.
    fn most_times(self, factor: i128) -> Option<i128> {
        if factor > 0 { self.most } else { self.least }?.checked_mul(factor)
    }

    fn known(self) -> Option<i128> {
        self.least.filter(|_| self.least == self.most)
    }

    fn narrow(&mut self, other: Range) {
        self.least = max(self.least, other.least);
        self.most = [self.most, other.most].into_iter().flatten().min();
    }

    fn is_empty(self) -> bool {
        matches!((self.least, self.most), (Some(least), Some(most)) if least > most)
    }

    /// The range of a product.
    fn times(self, other: Range) -> Range {
        let ends = || {
            Some([self.least?, self.most?].map(|a| Some([a.checked_mul(other.least?)?, a.checked_mul(other.most?)?])))
        };
        let Some([Some([a, b]), Some([c, d])]) = ends() else {
            let positive = |range: Range| range.least.is_some_and(|least| least >= 0);
            return Range { least: Some(0).filter(|_| positive(self) && positive(other)), most: None };
        };
        Range { least: Some(min(min(a, b), min(c, d))), most: Some(max(max(a, b), max(c, d))) }
    }
}

/// The problem with what follows from bounds; nothing if they exclude every solution.
pub(super) fn presolved(problem: &Problem, budget: &mut u32) -> Option<Problem> {
    let mut ranges = vec![Range::default(); problem.variables];
    let mut problem = problem.clone();
    if problem.products.is_empty() {
        unite(&mut problem);
    }
    for _ in 0..PASSES {
        let facts = problem.atleast.len() + 2 * problem.equal.len() + problem.clauses.len() + problem.products.len();
        *budget = budget.saturating_sub(u32::try_from(facts / 4).unwrap_or(u32::MAX));
        let before = ranges.clone();
        narrow(&mut ranges, &problem)?;
        let clauses = problem.clauses.len();
        decide_clauses(&mut problem, &ranges)?;
        if ranges == before && problem.clauses.len() == clauses {
            break;
        }
    }
    let more = congruences(&problem.atleast, &|sum| most(sum, &ranges))?;
    *budget = budget.saturating_sub(u32::try_from(more.len()).unwrap_or(u32::MAX));
    problem.atleast.extend(more);
    // Bounds of products follow from those of their factors, and have large numbers: what is said of products stays as it is.
    let products: Set<usize> = problem.products.iter().map(|(product, ..)| *product).collect();
    let is_of_product = |fact: &Linear| fact.terms.iter().any(|(variable, _)| products.contains(variable));
    let known = |fact: &Linear| if is_of_product(fact) { fact.clone() } else { with_known(fact, &ranges) };
    let is_needed = |fact: &Linear| is_of_product(fact) || !always(fact, &ranges);
    let mut atleast: Conjunction = bounds(&ranges);
    atleast.retain(|bound| !is_of_product(bound));
    atleast.extend(problem.atleast.iter().map(known).filter(is_needed));
    problem.atleast = atleast;
    problem.equal =
        problem.equal.iter().map(known).filter(|fact| !fact.terms.is_empty() || fact.constant != 0).collect();
    for part in problem.clauses.iter_mut().flatten() {
        *part = part.iter().map(known).filter(is_needed).collect();
    }
    Some(problem)
}

/// Gives numbers that are equal, or apart by a constant, one name in all facts and clauses but those that say so.
fn unite(problem: &mut Problem) {
    let mut left = UNITED;
    for at in 0..problem.atleast.len() {
        let fact = problem.atleast[at].clone();
        let [(_, 1), (other, -1)] = fact.terms[..] else { continue };
        let opposite = fact.combine(-1, &Linear::default(), 1);
        // Both stay as they are, so that no solution is added.
        let Some(opposite) = opposite.filter(|opposite| left > 0 && problem.atleast.contains(opposite)) else {
            continue;
        };
        left -= 1;
        let with = |own: &mut Linear| {
            let factor = own.coefficient(other);
            if factor != 0
                && *own != fact
                && *own != opposite
                && let Some(united) = own.combine(1, &fact, factor)
            {
                *own = united;
            }
        };
        problem.atleast.iter_mut().for_each(with);
        problem.clauses.iter_mut().flatten().flatten().for_each(with);
    }
}

/// Narrows the ranges by each fact once; nothing if one is empty.
fn narrow(ranges: &mut [Range], problem: &Problem) -> Option<()> {
    for fact in &problem.atleast {
        by_fact(ranges, fact)?;
    }
    for fact in &problem.equal {
        by_fact(ranges, fact)?;
        by_fact(ranges, &fact.combine(-1, &Linear::default(), 1).unwrap_or_default())?;
    }
    for (product, a, b) in &problem.products {
        let range = ranges[*a].times(ranges[*b]);
        ranges[*product].narrow(range);
        if ranges[*product].is_empty() {
            return None;
        }
    }
    Some(())
}

/// Of each variable of a fact, what the greatest values of the others leave.
fn by_fact(ranges: &mut [Range], fact: &Linear) -> Option<()> {
    if fact.terms.is_empty() {
        return (fact.constant >= 0).then_some(());
    }
    for (at, (variable, factor)) in fact.terms.iter().enumerate() {
        let others = fact.terms.iter().enumerate().filter(|(other, _)| *other != at);
        let rest = others.map(|(_, (other, factor))| ranges[*other].most_times(*factor));
        let rest = rest.into_iter().try_fold(fact.constant, |sum, most| sum.checked_add(most?));
        let Some(rest) = rest else { continue };
        // factor · variable >= -rest
        let range = &mut ranges[*variable];
        if *factor > 0 {
            range.narrow(Range { least: Some(-rest.div_euclid(*factor)), most: None });
        } else {
            range.narrow(Range { least: None, most: Some(rest.div_euclid(-*factor)) });
        }
        if range.is_empty() {
            return None;
        }
    }
    Some(())
}

/// Drops alternatives that cannot be, and clauses that hold; nothing if a clause has no alternative.
fn decide_clauses(problem: &mut Problem, ranges: &[Range]) -> Option<()> {
    let never = |fact: &Linear| most(fact, ranges).is_some_and(|most| most < 0);
    let mut open = Vec::new();
    for mut parts in std::mem::take(&mut problem.clauses) {
        parts.retain(|part| !part.iter().any(never));
        if parts.iter().any(|part| part.iter().all(|fact| always(fact, ranges))) {
            continue;
        }
        match parts.len() {
            0 => return None,
            1 => problem.atleast.append(&mut parts[0]),
            _ => open.push(parts),
        }
    }
    problem.clauses = open;
    Some(())
}

/// The greatest value of a sum.
fn most(fact: &Linear, ranges: &[Range]) -> Option<i128> {
    let mut terms = fact.terms.iter();
    terms.try_fold(fact.constant, |sum, (variable, factor)| sum.checked_add(ranges[*variable].most_times(*factor)?))
}

/// Returns true if a sum is at least zero within the ranges.
fn always(fact: &Linear, ranges: &[Range]) -> bool {
    let opposite = fact.combine(-1, &Linear::default(), 1);
    opposite.and_then(|opposite| most(&opposite, ranges)).is_some_and(|most| most <= 0)
}

/// The fact with the numbers of variables that have one; their bounds are facts, too.
fn with_known(fact: &Linear, ranges: &[Range]) -> Linear {
    let mut found = Linear::constant(fact.constant);
    for (variable, factor) in &fact.terms {
        match ranges[*variable].known().and_then(|value| found.constant.checked_add(value.checked_mul(*factor)?)) {
            Some(constant) => found.constant = constant,
            None => found.terms.push((*variable, *factor)),
        }
    }
    found
}

fn bounds(ranges: &[Range]) -> Conjunction {
    let sides = ranges.iter().enumerate().flat_map(|(variable, range)| {
        let least =
            range.least.and_then(i128::checked_neg).map(|constant| Linear { terms: vec![(variable, 1)], constant });
        let most = range.most.map(|constant| Linear { terms: vec![(variable, -1)], constant });
        [least, most]
    });
    sides.flatten().collect()
}
