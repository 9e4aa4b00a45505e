//! Remainders of equalities: `8 a - 8 b + x - y = 0` makes `x - y` a multiple of 8, and so zero where both are less than 8. Threads of different
//! numbers are told apart by this before their turns are searched.

use super::{Linear, gcd};
use ptx_core::hash::Set;
use ptx_target::sort::SortSmall;

/// The most equalities that are compared with each other.
const MOST: usize = 48;

/// Finds equalities among inequalities, and returns what follows for the sums of their small factors, each as two inequalities; nothing if the equalities
/// have no solution. `most` returns the greatest value of a sum, if it is known.
pub(super) fn congruences(atleast: &[Linear], most: &dyn Fn(&Linear) -> Option<i128>) -> Option<Vec<Linear>> {
    let equal = equalities(atleast);
    let pairs = equal.iter().enumerate().flat_map(|(at, a)| equal[..at].iter().filter_map(|b| without_common(a, b)));
    let mut found = Vec::new();
    for sum in equal.iter().cloned().chain(pairs) {
        for small in small_parts(&sum) {
            if let Some(rest) = only_multiple(&small, most)? {
                found.extend(negated(&rest));
                found.push(rest);
            }
        }
    }
    Some(found)
}

/// The sums that are at least zero and at most zero.
fn equalities(atleast: &[Linear]) -> Vec<Linear> {
    let all: Set<&Linear> = atleast.iter().collect();
    let is_first = |fact: &&Linear| fact.terms.first().is_some_and(|(_, factor)| *factor > 0);
    let is_equal = |fact: &&Linear| negated(fact).is_some_and(|opposite| all.contains(&opposite));
    atleast.iter().filter(is_first).filter(is_equal).take(MOST).cloned().collect()
}

fn negated(sum: &Linear) -> Option<Linear> {
    sum.combine(-1, &Linear::default(), 1)
}

/// The difference of two sums, or their sum, if that leaves out a variable of both.
fn without_common(a: &Linear, b: &Linear) -> Option<Linear> {
    let (factor, other) = a.terms.iter().find_map(|(variable, factor)| {
        let other = b.coefficient(*variable);
        (other.unsigned_abs() == factor.unsigned_abs()).then_some((*factor, other))
    })?;
    a.combine(1, b, if factor == other { -1 } else { 1 })
}

/// The part of a sum that multiples of a number leave.
struct Small {
    rest: Linear,
    modulus: i128,
}

/// The parts of a sum without the multiples of what divides its greatest factors.
fn small_parts(sum: &Linear) -> Vec<Small> {
    let mut factors: Vec<i128> = sum.terms.iter().map(|(_, factor)| *factor).collect();
    factors.sort_small_by_key(|factor| std::cmp::Reverse(factor.unsigned_abs()));
    let (mut modulus, mut found) = (0, Vec::<Small>::new());
    for factor in factors {
        modulus = gcd(modulus, factor).unwrap_or(1);
        if modulus < 2 {
            break;
        }
        let terms: Vec<_> = sum.terms.iter().copied().filter(|(_, factor)| factor % modulus != 0).collect();
        if found.last().is_none_or(|last| last.modulus != modulus) && !terms.is_empty() {
            found.push(Small { rest: Linear { terms, constant: sum.constant }, modulus });
        }
    }
    found
}

/// The part of a sum less the only multiple that it can be, so that it is zero; the outer nothing if it can be none.
fn only_multiple(Small { rest, modulus }: &Small, most: &dyn Fn(&Linear) -> Option<i128>) -> Option<Option<Linear>> {
    let least = negated(rest).and_then(|opposite| most(&opposite)?.checked_neg());
    let (Some(least), Some(most)) = (least, most(rest)) else { return Some(None) };
    let (first, last) = (-(-least).div_euclid(*modulus), most.div_euclid(*modulus));
    match first.cmp(&last) {
        std::cmp::Ordering::Greater => None,
        std::cmp::Ordering::Less => Some(None),
        std::cmp::Ordering::Equal => Some(rest.combine(1, &Linear::constant(1), -first * modulus)),
    }
}
