//! Linear arithmetic over integers: conjunctions by the Omega test (`omega`), clauses by splitting, products by the inequalities that follow
//! from their factors.
//!
//! The answer `Unsat` is a proof. `Sat` carries a model that satisfies every constraint, clause and product. `Unknown` means that the budget is
//! spent, that a number does not fit into 128 bits, or that no model of the products was found.

mod omega;

use ptx_core::hash::{Map, Set};

/// `Σ coefficient · variable + constant`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Linear {
    /// Variables in ascending order, with coefficients that are not zero.
    pub terms: Vec<(usize, i128)>,
    /// The constant.
    pub constant: i128,
}

impl Linear {
    /// A constant.
    pub fn constant(constant: i128) -> Linear {
        Linear { terms: Vec::new(), constant }
    }

    /// A variable.
    pub fn variable(variable: usize) -> Linear {
        Linear { terms: vec![(variable, 1)], constant: 0 }
    }

    /// `self · a + other · b`, if it fits.
    pub fn combine(&self, a: i128, other: &Linear, b: i128) -> Option<Linear> {
        let (mut terms, mut left, mut right) =
            (Vec::with_capacity(self.terms.len() + other.terms.len()), self.terms.iter(), other.terms.iter());
        let (mut x, mut y) = (left.next(), right.next());
        loop {
            let (variable, sum) = match (x, y) {
                (None, None) => break,
                (Some((v, c)), Some((w, d))) if v == w => {
                    (x, y) = (left.next(), right.next());
                    (*v, c.checked_mul(a)?.checked_add(d.checked_mul(b)?)?)
                }
                (Some((v, c)), other) if other.is_none_or(|(w, _)| v < w) => {
                    x = left.next();
                    (*v, c.checked_mul(a)?)
                }
                (_, Some((w, d))) => {
                    y = right.next();
                    (*w, d.checked_mul(b)?)
                }
                (Some(_), None) => break,
            };
            if sum != 0 {
                terms.push((variable, sum));
            }
        }
        let constant = self.constant.checked_mul(a)?.checked_add(other.constant.checked_mul(b)?)?;
        Some(Linear { terms, constant })
    }

    /// The coefficient of a variable.
    pub fn coefficient(&self, variable: usize) -> i128 {
        self.terms.binary_search_by_key(&variable, |(v, _)| *v).map_or(0, |at| self.terms[at].1)
    }

    /// The value under an assignment, if it fits.
    pub fn value(&self, model: &[i128]) -> Option<i128> {
        self.terms.iter().try_fold(self.constant, |sum, (variable, coefficient)| {
            sum.checked_add(coefficient.checked_mul(*model.get(*variable)?)?)
        })
    }
}

/// A conjunction: each is at least zero.
pub type Conjunction = Vec<Linear>;

/// A question over integer variables.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// Number of variables.
    pub variables: usize,
    /// Each is at least zero.
    pub atleast: Conjunction,
    /// Each is zero.
    pub equal: Vec<Linear>,
    /// Of each clause, one conjunction holds.
    pub clauses: Vec<Vec<Conjunction>>,
    /// `(p, a, b)`: the variable `p` is the product of `a` and `b`.
    pub products: Vec<(usize, usize, usize)>,
}

/// The answer to a [`Problem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No integers satisfy it.
    Unsat,
    /// These integers satisfy it.
    Sat(Vec<i128>),
    /// Not decided.
    Unknown,
}

/// Decides a problem with at most so much work: the budget counts inequalities that are looked at.
pub fn solve(problem: &Problem, budget: &mut u32) -> Answer {
    let mut search = Search { problem, budget };
    let facts = problem.atleast.iter().cloned().collect();
    search.split(facts, (0..problem.clauses.len()).collect())
}

struct Search<'p> {
    problem: &'p Problem,
    budget: &'p mut u32,
}

impl Search<'_> {
    /// Decides the conjunction with the open clauses.
    fn split(&mut self, facts: Set<Linear>, open: Vec<usize>) -> Answer {
        let mut list: Conjunction = facts.iter().cloned().collect();
        list.sort_unstable();
        let model = match self.conjunction(&list, &[]) {
            Answer::Sat(model) => model,
            other => return other,
        };
        let holds = |part: &Conjunction| part.iter().all(|fact| fact.value(&model).is_some_and(|value| value >= 0));
        let clause = |at: &usize| &self.problem.clauses[*at];
        let Some(violated) = open.iter().copied().find(|at| !clause(at).iter().any(holds)) else {
            return self.with_products(&list, model, &open, &facts);
        };
        let rest: Vec<usize> = open.iter().copied().filter(|at| *at != violated).collect();
        self.branch(&facts, violated, &rest)
    }

    /// Tries the alternatives of a clause.
    fn branch(&mut self, facts: &Set<Linear>, clause: usize, rest: &[usize]) -> Answer {
        let mut unknown = false;
        let problem = self.problem;
        for part in &problem.clauses[clause] {
            let mut more = facts.clone();
            more.extend(part.iter().cloned());
            match self.split(more, rest.to_vec()) {
                Answer::Unsat => {}
                Answer::Unknown => unknown = true,
                sat => return sat,
            }
        }
        if unknown { Answer::Unknown } else { Answer::Unsat }
    }

    /// Decides a conjunction with further equalities; products are variables with the facts that follow from their factors.
    fn conjunction(&mut self, facts: &[Linear], more: &[Linear]) -> Answer {
        let equal: Vec<Linear> = self.problem.equal.iter().chain(more).cloned().collect();
        let plain = omega::decide(facts.to_vec(), equal.clone(), self.problem.variables, self.budget);
        match &plain {
            Answer::Unsat => return plain,
            Answer::Sat(model) if self.respects(model) => return plain,
            _ => {}
        }
        let implied = implied(&self.problem.products, facts);
        if implied.is_empty() {
            return plain;
        }
        let atleast = facts.iter().cloned().chain(implied).collect();
        omega::decide(atleast, equal, self.problem.variables, self.budget)
    }

    /// A model that respects the products: the given one, or one with some factors fixed.
    fn with_products(&mut self, facts: &[Linear], model: Vec<i128>, open: &[usize], set: &Set<Linear>) -> Answer {
        if self.respects(&model) {
            return Answer::Sat(model);
        }
        for candidate in self.candidates(&model) {
            let Some(fixed) = self.fixed(&candidate) else { continue };
            if let Answer::Sat(found) = self.conjunction(facts, &fixed)
                && self.respects(&found)
            {
                let holds =
                    |part: &Conjunction| part.iter().all(|fact| fact.value(&found).is_some_and(|value| value >= 0));
                match open.iter().copied().find(|at| !self.problem.clauses[*at].iter().any(holds)) {
                    None => return Answer::Sat(found),
                    Some(violated) => {
                        let rest: Vec<usize> = open.iter().copied().filter(|at| *at != violated).collect();
                        return self.branch(set, violated, &rest);
                    }
                }
            }
        }
        // An alternative of an open clause may exclude this conjunction.
        match open.split_first() {
            Some((first, rest)) => self.branch(set, *first, rest),
            None => Answer::Unknown,
        }
    }

    fn respects(&self, model: &[i128]) -> bool {
        let value = |variable: usize| model.get(variable).copied();
        self.problem.products.iter().all(|(p, a, b)| {
            matches!((value(*p), value(*a), value(*b)), (Some(p), Some(a), Some(b)) if a.checked_mul(b) == Some(p))
        })
    }

    /// Values for one factor of each product: those of the model, and small ones.
    fn candidates(&self, model: &[i128]) -> Vec<Vec<(usize, i128)>> {
        let mut uses: Map<usize, usize> = Map::default();
        let derived: Set<usize> = self.problem.products.iter().map(|(p, _, _)| *p).collect();
        for (_, a, b) in &self.problem.products {
            for factor in [a, b].into_iter().filter(|factor| !derived.contains(factor)) {
                *uses.entry(*factor).or_default() += 1;
            }
        }
        let mut order: Vec<usize> = uses.keys().copied().collect();
        order.sort_by_key(|factor| (std::cmp::Reverse(uses[factor]), *factor));
        let mut covers = Vec::new();
        for reverse in [false, true] {
            let mut chosen = Vec::new();
            let ordered: Vec<usize> = if reverse { order.iter().rev().copied().collect() } else { order.clone() };
            let mut open: Vec<_> = self.problem.products.iter().collect();
            for factor in ordered {
                if open.iter().any(|(_, a, b)| *a == factor || *b == factor) {
                    chosen.push(factor);
                    open.retain(|(_, a, b)| *a != factor && *b != factor);
                }
            }
            if open.is_empty() && !covers.contains(&chosen) {
                covers.push(chosen);
            }
        }
        let mut found = Vec::new();
        for cover in &covers {
            let with = |value: &dyn Fn(usize) -> i128| cover.iter().map(|f| (*f, value(*f))).collect::<Vec<_>>();
            found.push(with(&|factor| model.get(factor).copied().unwrap_or(0)));
            for small in [1, 2, 3, 4, 0, 16, 32, 256] {
                found.push(with(&|_| small));
            }
        }
        found
    }

    /// The equalities of a candidate.
    fn fixed(&self, candidate: &[(usize, i128)]) -> Option<Vec<Linear>> {
        let mut equal = Vec::new();
        for (variable, value) in candidate {
            equal.push(Linear::variable(*variable).combine(1, &Linear::constant(value.checked_neg()?), 1)?);
        }
        for (p, a, b) in &self.problem.products {
            let value = |of: usize| candidate.iter().find(|(variable, _)| *variable == of).map(|(_, value)| *value);
            let (other, value) = value(*a).map(|v| (*b, v)).or_else(|| value(*b).map(|v| (*a, v)))?;
            equal.push(Linear::variable(*p).combine(1, &Linear::variable(other), value.checked_neg()?)?);
        }
        Some(equal)
    }
}

/// Inequalities of products: each fact times a factor that is bounded, where all products in the result have variables.
fn implied(products: &[(usize, usize, usize)], facts: &[Linear]) -> Conjunction {
    let named: Map<(usize, usize), usize> =
        products.iter().flat_map(|(p, a, b)| [((*a, *b), *p), ((*b, *a), *p)]).collect();
    let factors: Set<usize> = products.iter().flat_map(|(_, a, b)| [*a, *b]).collect();
    let mut factors: Vec<usize> = factors.into_iter().collect();
    factors.sort_unstable();
    let mut found = Vec::new();
    for factor in factors {
        for bound in facts.iter().filter(|fact| fact.terms.len() == 1 && fact.terms[0].0 == factor) {
            let (_, sign) = bound.terms[0];
            if sign.abs() != 1 {
                continue;
            }
            for fact in facts.iter().filter(|fact| !fact.terms.is_empty()) {
                found.extend(times(fact, (factor, sign, bound.constant), &named));
            }
        }
    }
    found
}

/// `fact · (sign · factor + constant)`, which is at least zero as both are; nothing if it has a product without a variable, or does not fit.
fn times(
    fact: &Linear,
    (factor, sign, constant): (usize, i128, i128),
    named: &Map<(usize, usize), usize>,
) -> Option<Linear> {
    let mut product = Linear::default();
    for (variable, coefficient) in &fact.terms {
        let p = named.get(&(*variable, factor))?;
        product = product.combine(1, &Linear::variable(*p), coefficient.checked_mul(sign)?)?;
    }
    let scaled = fact.constant.checked_mul(sign)?;
    product.combine(1, &Linear::variable(factor), scaled)?.combine(1, fact, constant)
}
