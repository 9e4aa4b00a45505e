//! Arithmetic over integers: conjunctions over the rational numbers (`simplex`) and then by the Omega test (`omega`), clauses by splitting,
//! products by the inequalities that follow from their factors.
//!
//! The answer `Unsat` is a proof. `Sat` carries a model that satisfies every constraint, clause and product. `Unknown` means that the budget is
//! spent, that a number does not fit into 128 bits, or that no model of the products was found.

mod congruence;
mod omega;
mod presolve;
mod simplex;

use ptx_core::hash::{Map, Set};
use ptx_target::sort::SortSmall;
use simplex::Tableau;

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
    match presolve::presolved(problem, budget) {
        Some(problem) => search(&problem, budget),
        None => Answer::Unsat,
    }
}

fn search(problem: &Problem, budget: &mut u32) -> Answer {
    let wider = with_more_products(problem);
    if wider.as_ref().is_some_and(|wider| is_empty(wider, budget)) {
        return Answer::Unsat;
    }
    let given = *budget;
    *budget = given / 2;
    let answer = decide(problem, budget);
    *budget += given - given / 2;
    if answer != Answer::Unknown {
        return answer;
    }
    match wider.map(|wider| decide(&wider, budget)) {
        Some(Answer::Sat(mut model)) => {
            model.truncate(problem.variables);
            Answer::Sat(model)
        }
        Some(answer) => answer,
        None => answer,
    }
}

/// Returns true if no rational numbers satisfy what is no clause.
fn is_empty(problem: &Problem, budget: &mut u32) -> bool {
    let (mut search, mut node) = start(problem, budget);
    matches!(search.point(&mut node), simplex::Found::Nothing)
}

/// The most products that are added to a problem, and the most terms of a fact for which they are.
const MORE: usize = 24;
const TERMS: usize = 5;

/// The problem with products of a factor and the other variables of facts, so that the facts can be multiplied by that factor: from `x <= q` and
/// `4 q <= n` follows `4 x s <= n s` by way of `q s`. Nothing if there are none.
fn with_more_products(problem: &Problem) -> Option<Problem> {
    let mut wider = problem.clone();
    let mut named: Set<(usize, usize)> = problem.products.iter().flat_map(|(_, a, b)| [(*a, *b), (*b, *a)]).collect();
    let derived: Set<usize> = problem.products.iter().map(|(p, _, _)| *p).collect();
    let mut pairs: Vec<(usize, usize)> =
        named.iter().copied().filter(|(_, factor)| !derived.contains(factor)).collect();
    // Factors of many products first: these are strides.
    let uses = |factor: usize| pairs.iter().filter(|(_, other)| *other == factor).count();
    let order: Map<usize, usize> = pairs.iter().map(|(_, factor)| (*factor, uses(*factor))).collect();
    pairs.sort_small_by_key(|(x, factor)| (std::cmp::Reverse(order[factor]), *factor, *x));
    let parts = problem.clauses.iter().flatten().flatten();
    let facts: Vec<&Linear> = problem.atleast.iter().chain(&problem.equal).chain(parts).collect();
    for (x, factor) in pairs {
        for fact in facts.iter().filter(|fact| fact.terms.len() <= TERMS && fact.coefficient(x) != 0) {
            for (y, _) in fact.terms.iter().filter(|(y, _)| !derived.contains(y)) {
                if wider.variables - problem.variables < MORE && named.insert((*y, factor)) {
                    named.insert((factor, *y));
                    wider.products.push((wider.variables, *y, factor));
                    wider.variables += 1;
                }
            }
        }
    }
    (wider.variables > problem.variables).then_some(wider)
}

fn decide(problem: &Problem, budget: &mut u32) -> Answer {
    let (mut search, node) = start(problem, budget);
    search.split(node, &(0..problem.clauses.len()).collect::<Vec<_>>(), 0)
}

/// A search, and what is no clause.
fn start<'p>(problem: &'p Problem, budget: &'p mut u32) -> (Search<'p>, Node) {
    let named = problem.products.iter().flat_map(|(p, a, b)| [((*a, *b), *p), ((*b, *a), *p)]).collect();
    let factors = problem.products.iter().flat_map(|(_, a, b)| [*a, *b]).collect();
    let mut search = Search { problem, budget, named, factors };
    let mut node = Node::new(problem.variables);
    for fact in &problem.equal {
        node.hold_zero(fact);
    }
    search.extend(&mut node, &problem.atleast);
    (search, node)
}

/// The most choices inside of each other, besides those of clauses.
const DEPTH: usize = 24;
/// From this depth on, alternatives are tried before the sides of numbers.
const SHALLOW: usize = 2;
/// The most facts that are sums of others.
const ROUNDED: usize = 128;
/// Bounds beyond this say little, also of products.
const FAR: u128 = 1 << 33;
/// The most inequalities of products that are added at once.
const CUTS: usize = 16;
/// Of the work, the part for a candidate of a model.
const PART: u32 = 8;

struct Search<'p> {
    problem: &'p Problem,
    budget: &'p mut u32,
    /// The products by their factors.
    named: Map<(usize, usize), usize>,
    factors: Set<usize>,
}

/// A conjunction.
#[derive(Clone)]
struct Node {
    facts: Vec<Linear>,
    seen: Set<Linear>,
    /// Besides those of the problem.
    equal: Vec<Linear>,
    /// Equalities among the facts, each with a variable that it gives.
    solved: Vec<(usize, Linear)>,
    /// The number of those that are sums of others.
    rounded: usize,
    /// Those of the facts that bound a factor of a product.
    bounds: Vec<(usize, i128, i128)>,
    /// Inequalities of products. The tableau has those that a point violated.
    implied: Vec<Linear>,
    /// Nothing if a number did not fit.
    tableau: Option<Tableau>,
}

impl Node {
    fn new(variables: usize) -> Node {
        Node {
            facts: Vec::new(),
            seen: Set::default(),
            equal: Vec::new(),
            solved: Vec::new(),
            rounded: 0,
            bounds: Vec::new(),
            implied: Vec::new(),
            tableau: Some(Tableau::new(variables)),
        }
    }

    fn hold(&mut self, fact: &Linear) {
        if self.tableau.as_mut().is_some_and(|tableau| tableau.add(fact, false).is_none()) {
            self.tableau = None;
        }
    }

    fn hold_zero(&mut self, fact: &Linear) {
        if self.tableau.as_mut().is_some_and(|tableau| tableau.add(fact, true).is_none()) {
            self.tableau = None;
        }
    }
}

impl Search<'_> {
    /// Adds facts, with what follows for integers, and the products of each with the bounds of factors.
    fn extend(&mut self, node: &mut Node, more: &[Linear]) {
        let cost = more.len() * (1 + (node.bounds.len() + node.facts.len()) / 4);
        *self.budget = self.budget.saturating_sub(u32::try_from(cost).unwrap_or(u32::MAX));
        let mut pending: Vec<Linear> = more.iter().rev().map(tightened).collect();
        while let Some(fact) = pending.pop() {
            if !node.seen.insert(fact.clone()) {
                continue;
            }
            if node.rounded < ROUNDED {
                let before = pending.len();
                pending.extend(node.facts.iter().filter_map(|other| rounded(&fact, other)));
                pending.extend(node.solved.iter().filter_map(|equality| without(&fact, equality)));
                if let Some(equality) = self.solved(node, &fact) {
                    pending.extend(node.facts.iter().filter_map(|other| without(other, &equality)));
                    node.solved.push(equality);
                }
                node.rounded += pending.len() - before;
            }
            node.facts.push(fact.clone());
            // A far bound is met by most points, and makes large numbers of small ones.
            if fact.terms.len() == 1 && fact.constant.unsigned_abs() > FAR {
                node.implied.push(fact);
                continue;
            }
            node.hold(&fact);
            let mut found: Vec<Linear> = Vec::new();
            if let [(factor, sign)] = fact.terms[..]
                && sign.abs() == 1
                && self.factors.contains(&factor)
            {
                let bound = (factor, sign, fact.constant);
                node.bounds.push(bound);
                let others = node.facts.iter().filter(|other| !other.terms.is_empty());
                found.extend(others.filter_map(|other| times(other, bound, &self.named)));
            }
            if !fact.terms.is_empty() {
                found.extend(node.bounds.iter().filter_map(|bound| times(&fact, *bound, &self.named)));
            }
            for fact in found {
                if node.seen.insert(fact.clone()) {
                    node.implied.push(fact);
                }
            }
        }
    }

    /// An equality with a variable that it gives the others, if this fact is the second half of one.
    fn solved(&self, node: &Node, fact: &Linear) -> Option<(usize, Linear)> {
        let opposite = fact.combine(-1, &Linear::default(), 1)?;
        let is_free = |variable: &usize| !node.solved.iter().any(|(other, _)| other == variable);
        let unit = |(variable, factor): &&(usize, i128)| factor.abs() == 1 && is_free(variable);
        let (variable, _) =
            fact.terms.iter().filter(unit).max_by_key(|(variable, _)| !self.factors.contains(variable))?;
        node.seen.contains(&opposite).then(|| (*variable, fact.clone()))
    }

    /// Decides the conjunction with the open clauses.
    fn split(&mut self, mut node: Node, open: &[usize], depth: usize) -> Answer {
        let point = match self.point(&mut node) {
            simplex::Found::Nothing => return Answer::Unsat,
            simplex::Found::Gave => return self.whole(node, open, depth),
            simplex::Found::Point(point) => point,
        };
        let holds = |part: &Conjunction| part.iter().all(|fact| simplex::holds(fact, &point));
        let clause = |at: &usize| &self.problem.clauses[*at];
        let violated = open.iter().copied().filter(|at| !clause(at).iter().any(holds));
        if let Some(violated) = violated.min_by_key(|at| clause(at).len()) {
            return self.branch(&node, violated, open, depth);
        }
        let mut values = point[..self.problem.variables].iter();
        if let Some(variable) = values.position(|value| value.integer().is_none()) {
            // An alternative that this point fulfills may have no integers.
            let smallest = open.iter().copied().min_by_key(|at| clause(at).len());
            return match smallest.filter(|_| depth >= SHALLOW) {
                Some(open_clause) => self.branch(&node, open_clause, open, depth),
                None if depth < DEPTH => self.sides(&node, (variable, point[variable].floor()), open, depth),
                None => self.whole(node, open, depth),
            };
        }
        let model: Vec<i128> = point[..self.problem.variables].iter().map(|value| value.floor()).collect();
        self.with_products(node, model, open, depth)
    }

    /// Rational numbers that satisfy the facts and what follows for products. Of the latter, those that a point violates are added until none does.
    fn point(&mut self, node: &mut Node) -> simplex::Found {
        loop {
            let cost = u32::try_from(2 * (node.facts.len() + node.implied.len())).unwrap_or(u32::MAX);
            let Some(left) = self.budget.checked_sub(cost) else { return simplex::Found::Gave };
            *self.budget = left;
            let found = node.tableau.as_mut().map_or(simplex::Found::Gave, |tableau| tableau.search(self.budget));
            let simplex::Found::Point(point) = &found else { return found };
            let violated = node.implied.iter().filter(|fact| !simplex::holds(fact, point));
            let violated: Vec<Linear> = violated.take(CUTS).cloned().collect();
            if violated.is_empty() {
                return found;
            }
            violated.iter().for_each(|fact| node.hold(fact));
        }
    }

    /// At most a number, or more.
    fn sides(&mut self, node: &Node, (variable, below): (usize, i128), open: &[usize], depth: usize) -> Answer {
        let (Some(least), Some(most)) = (below.checked_add(1).and_then(i128::checked_neg), Some(below)) else {
            return Answer::Unknown;
        };
        let sides = [
            Linear { terms: vec![(variable, -1)], constant: most },
            Linear { terms: vec![(variable, 1)], constant: least },
        ];
        let mut unknown = false;
        for side in sides {
            let mut child = node.clone();
            self.extend(&mut child, &[side]);
            match self.split(child, open, depth + 1) {
                Answer::Unsat => {}
                Answer::Unknown => unknown = true,
                sat => return sat,
            }
        }
        if unknown { Answer::Unknown } else { Answer::Unsat }
    }

    /// Tries the alternatives of a clause.
    fn branch(&mut self, node: &Node, clause: usize, open: &[usize], depth: usize) -> Answer {
        let rest: Vec<usize> = open.iter().copied().filter(|at| *at != clause).collect();
        let mut unknown = false;
        let problem = self.problem;
        for part in &problem.clauses[clause] {
            let mut child = node.clone();
            self.extend(&mut child, part);
            match self.split(child, &rest, depth) {
                Answer::Unsat => {}
                Answer::Unknown => unknown = true,
                sat => return sat,
            }
        }
        if unknown { Answer::Unknown } else { Answer::Unsat }
    }

    /// Decides the conjunction over the integers by elimination, where the rational numbers do not decide.
    fn whole(&mut self, node: Node, open: &[usize], depth: usize) -> Answer {
        let cost = u32::try_from(8 * (node.facts.len() + node.implied.len())).unwrap_or(u32::MAX);
        let Some(left) = self.budget.checked_sub(cost) else { return Answer::Unknown };
        *self.budget = left;
        let equal: Vec<Linear> = self.problem.equal.iter().chain(&node.equal).cloned().collect();
        let atleast = node.facts.iter().chain(&node.implied).cloned().collect();
        let mut left = *self.budget / PART;
        let given = left;
        let answer = omega::decide(atleast, equal, self.problem.variables, &mut left);
        *self.budget -= given - left;
        match (answer, open.first()) {
            (Answer::Unsat, _) => Answer::Unsat,
            (Answer::Sat(model), _) => {
                let holds =
                    |part: &Conjunction| part.iter().all(|fact| fact.value(&model).is_some_and(|value| value >= 0));
                let clause = |at: &usize| &self.problem.clauses[*at];
                match open.iter().copied().find(|at| !clause(at).iter().any(holds)) {
                    Some(violated) => self.branch(&node, violated, open, depth),
                    None => self.with_products(node, model, open, depth),
                }
            }
            (Answer::Unknown, Some(first)) if *self.budget > 0 => self.branch(&node, *first, open, depth),
            (Answer::Unknown, _) => Answer::Unknown,
        }
    }

    /// A model that respects the products: the given one, or one with some factors fixed. Else a factor is split, which tightens its products.
    fn with_products(&mut self, node: Node, model: Vec<i128>, open: &[usize], depth: usize) -> Answer {
        if self.is_model(&model) {
            return Answer::Sat(model);
        }
        let candidates = if depth + 4 < DEPTH { self.candidates(&model) } else { Vec::new() };
        for candidate in candidates {
            let Some(fixed) = self.fixed(&candidate) else { continue };
            let mut child = node.clone();
            fixed.iter().for_each(|fact| child.hold_zero(fact));
            child.equal.extend(fixed);
            // Without further candidates.
            let given = *self.budget;
            *self.budget = given / PART;
            let answer = self.split(child, open, DEPTH - 4);
            *self.budget = given - (given / PART - *self.budget);
            if let Answer::Sat(_) = answer {
                return answer;
            }
        }
        let broken = |(p, a, b): &&(usize, usize, usize)| model[*a].checked_mul(model[*b]) != Some(model[*p]);
        match (self.problem.products.iter().find(broken), open.split_first()) {
            (Some((_, a, b)), _) if depth + 12 < DEPTH => {
                let factor = if self.named.values().any(|p| p == a) { *b } else { *a };
                self.sides(&node, (factor, model[factor]), open, depth + 1)
            }
            // An alternative of an open clause may exclude this conjunction.
            (_, Some((first, _))) => self.branch(&node, *first, open, depth),
            _ => Answer::Unknown,
        }
    }

    /// Returns true if everything holds.
    fn is_model(&self, model: &[i128]) -> bool {
        let all = |part: &Conjunction| part.iter().all(|fact| fact.value(model).is_some_and(|value| value >= 0));
        let problem = self.problem;
        all(&problem.atleast)
            && problem.equal.iter().all(|fact| fact.value(model) == Some(0))
            && problem.clauses.iter().all(|clause| clause.iter().any(all))
            && self.respects(model)
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
        order.sort_small_by_key(|factor| (std::cmp::Reverse(uses[factor]), *factor));
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

/// The inequality over integers, divided by the greatest number that divides its coefficients.
fn tightened(fact: &Linear) -> Linear {
    match omega::content(fact) {
        0 | 1 => fact.clone(),
        divisor => Linear {
            terms: fact.terms.iter().map(|(variable, factor)| (*variable, factor / divisor)).collect(),
            constant: fact.constant.div_euclid(divisor),
        },
    }
}

/// A fact without a variable that an equality gives.
fn without(fact: &Linear, (variable, equality): &(usize, Linear)) -> Option<Linear> {
    let factor = fact.coefficient(*variable);
    let by = factor.checked_mul(equality.coefficient(*variable))?.checked_neg()?;
    (factor != 0).then(|| fact.combine(1, equality, by)).flatten().map(|found| tightened(&found))
}

/// The sum of two facts in which a variable falls out, if integers tighten it: of `n >= 256 q + 1` and `n <= 256 p` it is `p >= q + 1`.
fn rounded(a: &Linear, b: &Linear) -> Option<Linear> {
    let cancels = |(variable, factor): &(usize, i128)| factor.checked_neg() == Some(b.coefficient(*variable));
    if a.terms.len().min(b.terms.len()) < 2 || !a.terms.iter().any(cancels) {
        return None;
    }
    let sum = a.combine(1, b, 1).filter(|sum| sum.terms.len() < a.terms.len() + b.terms.len() - 2)?;
    let divisor = omega::content(&sum);
    (divisor > 1 && sum.constant % divisor != 0).then(|| tightened(&sum))
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

/// The greatest common divisor, not negative; `None` if it does not fit.
pub(crate) fn gcd(a: i128, b: i128) -> Option<i128> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).ok()
}
