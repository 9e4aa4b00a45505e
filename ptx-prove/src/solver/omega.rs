//! The Omega test: integer solutions of linear equalities and inequalities by exact elimination.
//!
//! An elimination that is not exact has a real shadow, whose lack of solutions is a proof, and a dark shadow, whose solutions extend to whole ones.
//! Where neither decides, the question is split at a gap between two integers.

use super::gcd;
use super::{Answer, Linear};
use ptx_core::hash::Map;

/// The most inequalities at once.
const MOST: usize = 3000;
/// Inequalities with larger constants are left out.
const LARGEST: u128 = 1 << 120;
/// The most sides of gaps inside of each other.
const DEPTH: u32 = 40;

/// Decides a conjunction over variables `0..variables`.
pub(super) fn decide(atleast: Vec<Linear>, equal: Vec<Linear>, variables: usize, budget: &mut u32) -> Answer {
    let mut test = Test { next: variables, budget, depth: 0 };
    let values = match test.equalities(first_ones(atleast.clone()), equal.clone(), 0) {
        Found::No => return Answer::Unsat,
        Found::Gave => return Answer::Unknown,
        Found::Yes(values) => values,
    };
    let model: Vec<i128> = (0..variables).map(|v| values.get(&v).copied().unwrap_or(0)).collect();
    let holds = atleast.iter().all(|form| form.value(&model).is_some_and(|value| value >= 0))
        && equal.iter().all(|form| form.value(&model) == Some(0));
    if holds { Answer::Sat(model) } else { Answer::Unknown }
}

/// A partial result: values of the variables that matter.
enum Found {
    No,
    Yes(Map<usize, i128>),
    Gave,
}

struct Test<'b> {
    next: usize,
    budget: &'b mut u32,
    depth: u32,
}

/// An inequality with the first ones that it follows from, a bit for each.
///
/// Behind `k` eliminations, one that follows from more than `k + 1` of them follows from others, too (Chernikov): it is left out.
#[derive(Clone)]
struct Inequality {
    form: Linear,
    from: u128,
}

/// Inequalities, each from itself.
fn first_ones(forms: Vec<Linear>) -> Vec<Inequality> {
    let few = forms.len() <= 128;
    let from = |at: usize| if few { 1 << at } else { 0 };
    forms.into_iter().enumerate().map(|(at, form)| Inequality { form, from: from(at) }).collect()
}

/// The value of a form; a variable without a value is zero, because nothing restricts it.
fn evaluate(form: &Linear, values: &Map<usize, i128>) -> Option<i128> {
    form.terms.iter().try_fold(form.constant, |sum, (variable, coefficient)| {
        sum.checked_add(coefficient.checked_mul(values.get(variable).copied().unwrap_or(0))?)
    })
}

pub(super) fn content(form: &Linear) -> i128 {
    form.terms.iter().fold(0, |found, (_, coefficient)| gcd(found, *coefficient).unwrap_or(1))
}

/// The largest integer not above `a / b`, of a positive `b`.
fn floor(a: i128, b: i128) -> i128 {
    a.div_euclid(b)
}

/// The form without a variable.
fn without(form: &Linear, variable: usize) -> Linear {
    let terms = form.terms.iter().copied().filter(|(v, _)| *v != variable).collect();
    Linear { terms, constant: form.constant }
}

/// Puts a form in place of a variable.
fn substitute(form: &Linear, variable: usize, by: &Linear) -> Option<Linear> {
    match form.coefficient(variable) {
        0 => Some(form.clone()),
        coefficient => without(form, variable).combine(1, by, coefficient),
    }
}

/// Inequalities by their terms: the tightest constant of each.
#[derive(Default)]
struct Tight {
    bounds: Map<Vec<(usize, i128)>, (i128, u128)>,
    order: Vec<Vec<(usize, i128)>>,
    absurd: bool,
}

impl Tight {
    fn add(&mut self, Inequality { form, from }: &Inequality) {
        let divisor = content(form);
        if divisor == 0 {
            self.absurd |= form.constant < 0;
            return;
        }
        // What is left out could only exclude more.
        if form.terms.iter().any(|(_, c)| c.unsigned_abs() > LARGEST) {
            return;
        }
        let terms: Vec<_> = form.terms.iter().map(|(v, c)| (*v, c / divisor)).collect();
        let constant = floor(form.constant, divisor);
        match self.bounds.get_mut(&terms) {
            Some(old) => {
                if constant < old.0 || constant == old.0 && from.count_ones() < old.1.count_ones() {
                    *old = (constant, *from);
                }
            }
            None => {
                self.bounds.insert(terms.clone(), (constant, *from));
                self.order.push(terms);
            }
        }
    }

    /// The inequalities, and the equalities that opposite ones make; `None` if two exclude each other.
    fn finish(self) -> Option<(Vec<Inequality>, Vec<Linear>)> {
        if self.absurd {
            return None;
        }
        let (mut atleast, mut equal) = (Vec::new(), Vec::new());
        for terms in &self.order {
            let (constant, from) = self.bounds[terms];
            let opposite: Vec<_> = terms.iter().map(|(v, c)| (*v, -c)).collect();
            let form = Linear { terms: terms.clone(), constant };
            match self.bounds.get(&opposite) {
                Some((other, _)) if constant.checked_add(*other)? < 0 => return None,
                Some((other, _)) if constant + other == 0 => {
                    if terms.first().is_some_and(|(_, c)| *c > 0) {
                        equal.push(form);
                    }
                }
                _ => atleast.push(Inequality { form, from }),
            }
        }
        Some((atleast, equal))
    }
}

impl Test<'_> {
    /// Takes the cost of a step, in inequalities, from the budget.
    fn spend(&mut self, cost: usize) -> bool {
        match self.budget.checked_sub(u32::try_from(cost).unwrap_or(u32::MAX)) {
            Some(left) => {
                *self.budget = left;
                true
            }
            None => false,
        }
    }

    /// Substitutes equalities until none is left.
    fn equalities(&mut self, mut atleast: Vec<Inequality>, mut equal: Vec<Linear>, mut done: u32) -> Found {
        let mut solved: Vec<(usize, Linear)> = Vec::new();
        loop {
            let Some(mut form) = equal.pop() else {
                let mut tight = Tight::default();
                atleast.iter().for_each(|inequality| tight.add(inequality));
                if tight.absurd {
                    return Found::No;
                }
                // Without an inequality a lack of solutions is still a proof, and solutions are checked in the end.
                tight.order.retain(|terms| tight.bounds[terms].0.unsigned_abs() <= LARGEST);
                let Some((rest, more)) = tight.finish() else { return Found::No };
                if more.is_empty() {
                    return self.extend(rest, solved, done);
                }
                // The equality follows from two of them: the others start again.
                let rest = rest.into_iter().map(|inequality| inequality.form).collect();
                (atleast, equal, done) = (first_ones(rest), more, 0);
                continue;
            };
            if !self.spend(atleast.len() + 1) {
                return Found::Gave;
            }
            let divisor = content(&form);
            if divisor == 0 {
                if form.constant != 0 {
                    return Found::No;
                }
                continue;
            }
            if form.constant % divisor != 0 {
                return Found::No;
            }
            form.terms.iter_mut().for_each(|(_, c)| *c /= divisor);
            form.constant /= divisor;
            let Some((variable, by, again)) = self.pivot(&form) else { return Found::Gave };
            let new_equal = equal.iter().map(|form| substitute(form, variable, &by)).collect::<Option<Vec<_>>>();
            let replaced = |Inequality { form, from }: &Inequality| {
                Some(Inequality { form: substitute(form, variable, &by)?, from: *from })
            };
            let new_atleast = atleast.iter().map(replaced).collect::<Option<Vec<_>>>();
            let (Some(new_atleast), Some(mut new_equal)) = (new_atleast, new_equal) else { return Found::Gave };
            new_equal.extend(again);
            (atleast, equal) = (new_atleast, new_equal);
            solved.push((variable, by));
        }
    }

    /// A variable of an equality, the form that takes its place, and the equality that remains if its coefficient is not one.
    fn pivot(&mut self, form: &Linear) -> Option<(usize, Linear, Option<Linear>)> {
        let (variable, coefficient) = form.terms.iter().copied().min_by_key(|(_, c)| c.unsigned_abs())?;
        let rest = without(form, variable);
        if coefficient.abs() == 1 {
            return Some((variable, rest.combine(-coefficient, &Linear::default(), 1)?, None));
        }
        // With σ = x + Σ ⌊a/c⌋·y + ⌊k/c⌋ the equality is c·σ + Σ (a mod c)·y + (k mod c) = 0, with smaller coefficients.
        let sigma = self.next;
        self.next += 1;
        let sign = coefficient.signum();
        let magnitude = coefficient.abs();
        let quotient = |a: i128| floor(a * sign, magnitude);
        let remainder = |a: i128| (a * sign).rem_euclid(magnitude);
        let mut by = Linear::variable(sigma);
        let mut again = Linear { terms: vec![(sigma, magnitude)], constant: remainder(rest.constant) };
        for (other, a) in &rest.terms {
            by = by.combine(1, &Linear::variable(*other), quotient(*a).checked_neg()?)?;
            again = again.combine(1, &Linear::variable(*other), remainder(*a))?;
        }
        by.constant = by.constant.checked_sub(quotient(rest.constant))?;
        Some((variable, by, Some(again)))
    }

    /// Decides inequalities, and computes what the equalities say of the other variables.
    fn extend(&mut self, atleast: Vec<Inequality>, solved: Vec<(usize, Linear)>, done: u32) -> Found {
        match self.inequalities(atleast, done) {
            Found::Yes(mut values) => {
                for (variable, by) in solved.iter().rev() {
                    let Some(value) = evaluate(by, &values) else { return Found::Gave };
                    values.insert(*variable, value);
                }
                Found::Yes(values)
            }
            other => other,
        }
    }

    fn inequalities(&mut self, atleast: Vec<Inequality>, done: u32) -> Found {
        if atleast.is_empty() {
            return Found::Yes(Map::default());
        }
        if atleast.len() > MOST || !self.spend(atleast.len()) {
            return Found::Gave;
        }
        let Some(variable) = choose(&atleast) else { return Found::Gave };
        let (with, rest): (Vec<_>, Vec<_>) =
            atleast.into_iter().partition(|inequality| inequality.form.coefficient(variable) != 0);
        let (lower, upper): (Vec<_>, Vec<_>) =
            with.into_iter().partition(|inequality| inequality.form.coefficient(variable) > 0);
        let one = |list: &[Inequality]| list.iter().all(|one| one.form.coefficient(variable).abs() == 1);
        let bounds = Bounds { rest, lower, upper, variable };
        let exact = one(&bounds.lower) || one(&bounds.upper);
        if !self.spend(bounds.lower.len() * bounds.upper.len()) {
            return Found::Gave;
        }
        let values = match self.equalities(bounds.real(done + 1), Vec::new(), done + 1) {
            Found::Yes(values) => values,
            other => return other,
        };
        match bounds.between(values) {
            Between::Found(found) => found,
            Between::Gap(below) => self.inexact(&bounds, below, exact),
        }
    }

    /// The dark shadow, and then the two sides of a gap between integers.
    fn inexact(&mut self, bounds: &Bounds, below: i128, exact: bool) -> Found {
        if !exact
            && let Some(dark) = bounds.dark()
            && let Found::Yes(values) = self.equalities(first_ones(dark), Vec::new(), 0)
            && let Between::Found(found @ Found::Yes(_)) = bounds.between(values)
        {
            return found;
        }
        self.depth += 1;
        let found = if self.depth > DEPTH { Found::Gave } else { self.sides(bounds, below) };
        self.depth -= 1;
        found
    }

    /// At most the number, or more.
    fn sides(&mut self, bounds: &Bounds, below: i128) -> Found {
        let variable = bounds.variable;
        let sides = [
            Linear { terms: vec![(variable, -1)], constant: below },
            Linear { terms: vec![(variable, 1)], constant: -below - 1 },
        ];
        let mut gave = false;
        for side in sides {
            let all = bounds.rest.iter().chain(&bounds.lower).chain(&bounds.upper).map(|one| one.form.clone());
            match self.equalities(first_ones(all.chain([side]).collect()), Vec::new(), 0) {
                Found::No => {}
                Found::Gave => gave = true,
                found => return found,
            }
        }
        if gave { Found::Gave } else { Found::No }
    }
}

/// The place of a variable between its bounds.
enum Between {
    Found(Found),
    /// No integer lies between them: the greatest below.
    Gap(i128),
}

/// The bounds of a variable, and the inequalities without it.
struct Bounds {
    rest: Vec<Inequality>,
    lower: Vec<Inequality>,
    upper: Vec<Inequality>,
    variable: usize,
}

impl Bounds {
    /// Each lower bound with each upper one. What does not fit, or follows from others, is left out: it could only exclude more.
    fn real(&self, done: u32) -> Vec<Inequality> {
        let mut all = self.rest.clone();
        for low in &self.lower {
            for high in &self.upper {
                let from = low.from | high.from;
                if from.count_ones() > done + 1 {
                    continue;
                }
                let (a, b) = (low.form.coefficient(self.variable), -high.form.coefficient(self.variable));
                let divisor = gcd(a, b).unwrap_or(1).max(1);
                let (low, high) = (without(&low.form, self.variable), without(&high.form, self.variable));
                all.extend(low.combine(b / divisor, &high, a / divisor).map(|form| Inequality { form, from }));
            }
        }
        all
    }

    /// The inequalities whose solutions leave room for an integer.
    fn dark(&self) -> Option<Vec<Linear>> {
        let mut all: Vec<Linear> = self.rest.iter().map(|one| one.form.clone()).collect();
        for low in &self.lower {
            for high in &self.upper {
                let (a, b) = (low.form.coefficient(self.variable), -high.form.coefficient(self.variable));
                let (low, high) = (without(&low.form, self.variable), without(&high.form, self.variable));
                let mut joined = low.combine(b, &high, a)?;
                joined.constant = joined.constant.checked_sub((a - 1).checked_mul(b - 1)?)?;
                all.push(joined);
            }
        }
        Some(all)
    }

    /// The values with one for the variable, if an integer lies between its bounds; the nearest to zero.
    fn between(&self, mut values: Map<usize, i128>) -> Between {
        let (mut least, mut most) = (None::<i128>, None::<i128>);
        for Inequality { form, .. } in &self.lower {
            let Some(rest) = evaluate(&without(form, self.variable), &values) else {
                return Between::Found(Found::Gave);
            };
            let bound = -floor(rest, form.coefficient(self.variable));
            least = Some(least.map_or(bound, |old| old.max(bound)));
        }
        for Inequality { form, .. } in &self.upper {
            let Some(rest) = evaluate(&without(form, self.variable), &values) else {
                return Between::Found(Found::Gave);
            };
            let bound = floor(rest, -form.coefficient(self.variable));
            most = Some(most.map_or(bound, |old| old.min(bound)));
        }
        let value = match (least, most) {
            (Some(least), Some(most)) if least > most => return Between::Gap(most),
            (Some(least), _) if least > 0 => least,
            (_, Some(most)) if most < 0 => most,
            _ => 0,
        };
        values.insert(self.variable, value);
        Between::Found(Found::Yes(values))
    }
}

/// The variable whose elimination is exact and makes the fewest inequalities.
fn choose(atleast: &[Inequality]) -> Option<usize> {
    /// Lower and upper bounds, and whether the coefficients of either are all one.
    #[derive(Clone, Copy)]
    struct Count {
        lower: usize,
        upper: usize,
        lower_is_one: bool,
        upper_is_one: bool,
    }
    let mut counts: Map<usize, Count> = Map::default();
    for (variable, coefficient) in atleast.iter().flat_map(|one| &one.form.terms) {
        let new = Count { lower: 0, upper: 0, lower_is_one: true, upper_is_one: true };
        let count = counts.entry(*variable).or_insert(new);
        if *coefficient > 0 {
            count.lower += 1;
            count.lower_is_one &= *coefficient == 1;
        } else {
            count.upper += 1;
            count.upper_is_one &= *coefficient == -1;
        }
    }
    let cost = |(variable, count): (usize, Count)| {
        let exact = count.lower == 0 || count.upper == 0 || count.lower_is_one || count.upper_is_one;
        (!exact, count.lower * count.upper, variable)
    };
    counts.into_iter().map(cost).min().map(|(_, _, variable)| variable)
}
