//! Sums by their strides, as a person compares an offset with a length: where `len >= rows · stride` and the offset is `row · stride + column`, the
//! difference has `(rows - row) · stride`, and it suffices that `rows - row >= 1` and `stride > column`. These are questions without products,
//! where the solver would look for the products that decide it.

use crate::form::{Coef, Cond, Form, Mono, Sym};
use crate::local::{FAR, NEAR, is_excluded};
use crate::query::{self, decide};
use crate::world::{Effort, Meaning, Scope, World};
use ptx_target::sort::SortSmall;

/// The most questions about the parts of one sum.
const QUESTIONS: u32 = 24;
/// The work for each of them.
const WORK: u32 = 8_000;
/// The most symbols that are tried as the stride of a sum.
const STRIDES: usize = 3;
/// The strides inside of strides.
const DEPTH: u32 = 4;

/// The conditions of a question: those of the way, and those of the launch.
pub(crate) struct Under<'q> {
    pub(crate) world: &'q World,
    pub(crate) conds: &'q [Cond],
    pub(crate) facts: &'q [Cond],
}

/// The conditions that decide the parts of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The closest ones of each part, while values are computed.
    Closest,
    /// Those around each part.
    Near,
    /// All of them, without products.
    All,
}

/// Returns true if conditions exclude a goal in all launches: those that are near it, those around its parts, or all.
pub(crate) fn excludes(world: &World, conds: &[Cond], goal: &Cond, effort: Effort) -> bool {
    is_excluded(world, (conds, &world.facts), goal, NEAR)
        || holds(&Under { world, conds, facts: &world.facts }, &goal.negate(), By::Closest)
        || query::excludes(world, conds, goal, effort)
}

/// Returns true if the conditions keep a condition by what they say of multiples of strides.
pub(crate) fn holds(under: &Under<'_>, must: &Cond, by: By) -> bool {
    let form = match must {
        Cond::AtLeast(form) => form,
        Cond::All(parts) => return parts.iter().all(|part| holds(under, part, by)),
        decided => return *decided == Cond::Const(true),
    };
    let mut search = Search { under, left: QUESTIONS, by, by_extents: false };
    let lens: Vec<Sym> = form.symbols().filter(|symbol| is_length(under.world, *symbol)).collect();
    let [len] = lens[..] else {
        return form.degree() > 1
            && (search.is_positive(form, DEPTH)
                || search.is_limited(form)
                || search.is_lessened(form, DEPTH)
                || search.is_bounded(form));
    };
    let limits: Vec<Form> = under.facts.iter().flat_map(|fact| search.limits(fact, len)).collect();
    let form = under.world.with_names(form);
    limits.iter().any(|limit| {
        without(&form, limit, len).is_some_and(|rest| {
            rest.degree() > 1 && (search.is_positive(&rest, DEPTH) || search.is_lessened(&rest, DEPTH))
        })
    })
}

fn is_length(world: &World, symbol: Sym) -> bool {
    matches!(world.symbol(symbol).meaning, Meaning::Len(_))
}

/// A sum without a symbol, less a multiple of another one that is at least zero: if what is left is at least zero, so is the sum.
fn without(form: &Form, limit: &Form, symbol: Sym) -> Option<Form> {
    form.sub(&limit.scale(multiple(form, limit, symbol)?)?)
}

/// The number of times that a sum has the symbol of another one, with its sign.
fn multiple(form: &Form, other: &Form, symbol: Sym) -> Option<i128> {
    let (own, other) = (factor(form, symbol)?, factor(other, symbol)?);
    (other != 0 && own.signum() == other.signum() && own % other == 0).then(|| own / other)
}

/// The factor of a symbol that stands alone.
fn factor(form: &Form, symbol: Sym) -> Option<i128> {
    let (_, coef) = form.terms.iter().find(|(mono, _)| mono[..] == [symbol])?;
    (coef.least() == coef.most()).then(|| coef.least())
}

/// Returns true if the conditions keep a condition by what they say of strides that hold what lies inside of them: `token >= heads · head`.
pub(crate) fn holds_by_extents(under: &Under<'_>, must: &Cond) -> bool {
    match must {
        Cond::AtLeast(form) => {
            let mut search = Search { under, left: 2 * QUESTIONS, by: By::Near, by_extents: true };
            search.is_positive(form, 2 * DEPTH)
        }
        Cond::All(parts) => parts.iter().all(|part| holds_by_extents(under, part)),
        decided => *decided == Cond::Const(true),
    }
}

struct Search<'s> {
    under: &'s Under<'s>,
    left: u32,
    by: By,
    /// True if a stride may be replaced by what lies inside of it.
    by_extents: bool,
}

impl Search<'_> {
    /// The sums of a condition that bound a length from below, where the way leaves no other alternative.
    fn limits(&mut self, fact: &Cond, len: Sym) -> Vec<Form> {
        match fact {
            Cond::AtLeast(form) if factor(form, len).is_some_and(|factor| factor > 0) => vec![form.clone()],
            Cond::All(parts) => parts.iter().flat_map(|part| self.limits(part, len)).collect(),
            Cond::Any(parts) if names(fact, len) => {
                let (mut own, others): (Vec<&Cond>, Vec<&Cond>) = parts.iter().partition(|part| names(part, len));
                if !others.iter().all(|other| self.excludes(other)) {
                    return Vec::new();
                }
                if own.len() > 1 {
                    own.retain(|part| !self.excludes(part));
                }
                match own[..] {
                    [own] => self.limits(own, len),
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    /// Returns true if a fact about a stride makes a sum positive, such as that the rows of a plane lie within it:
    /// `plane >= rows · stride`.
    fn is_limited(&mut self, form: &Form) -> bool {
        let form = self.under.world.with_names(form);
        let is_stride = |symbol: &Sym| factor(&form, *symbol).is_some_and(|factor| factor > 0);
        let mut strides: Vec<Sym> = form.symbols().filter(is_stride).collect();
        strides.retain(|symbol| self.under.world.symbol(*symbol).scope == Scope::Grid);
        strides.truncate(STRIDES);
        strides.into_iter().any(|stride| {
            let facts = self.under.facts;
            let limits: Vec<Form> = facts.iter().flat_map(|fact| self.limits(fact, stride)).collect();
            limits
                .iter()
                .filter(|limit| limit.degree() > 1)
                .any(|limit| without(&form, limit, stride).is_some_and(|rest| self.is_positive(&rest, DEPTH)))
        })
    }

    /// Returns true if what is known of a number that lessens a sum makes that positive: of `end - first - pair` that `pair < rows · stride`.
    fn is_lessened(&mut self, form: &Form, depth: u32) -> bool {
        let world = self.under.world;
        let lessens = |(mono, coef): &&(Mono, Coef)| mono.len() == 1 && coef.most() < 0;
        let mut symbols: Vec<Sym> = form.terms.iter().filter(lessens).map(|(mono, _)| mono[0]).collect();
        symbols.retain(|symbol| world.symbol(*symbol).meaning == Meaning::Other);
        symbols.truncate(STRIDES);
        symbols
            .into_iter()
            .any(|symbol| world.facts_of(symbol).iter().any(|fact| self.is_limit_by(fact, (form, symbol), depth)))
    }

    /// Returns true if a sum is positive by a fact about one of its symbols, or by its last alternative.
    fn is_limit_by(&mut self, fact: &Cond, (form, symbol): (&Form, Sym), depth: u32) -> bool {
        match fact {
            Cond::AtLeast(limit) if factor(limit, symbol).is_some_and(|factor| factor < 0) => {
                without(form, limit, symbol).is_some_and(|rest| rest != *form && self.is_positive(&rest, depth))
            }
            Cond::Any(parts) => {
                let (own, others): (Vec<&Cond>, Vec<&Cond>) = parts.iter().partition(|part| names(part, symbol));
                let [own] = own[..] else { return false };
                self.is_limit_by(own, (form, symbol), depth) && others.iter().all(|other| self.is_never(other, depth))
            }
            _ => false,
        }
    }

    /// Returns true if the conditions exclude an alternative, or what they say of its strides.
    fn is_never(&mut self, cond: &Cond, depth: u32) -> bool {
        self.excludes(cond)
            || match cond.negate() {
                Cond::AtLeast(form) => self.is_lessened(&form, depth),
                _ => false,
            }
    }

    /// Returns true if a fact about the greatest value of a product makes a sum positive: with `rows · stride <= 1000`, `row · stride` is less.
    fn is_bounded(&mut self, form: &Form) -> bool {
        let form = self.under.world.with_names(form);
        let mut bounds = Vec::new();
        self.under.facts.iter().for_each(|fact| add_bounds(fact, &mut bounds));
        bounds.iter().any(|bound| {
            let [(product, _)] = &bound.terms[..] else { return false };
            let mut factors: Vec<i128> = Vec::new();
            for (mono, coef) in &form.terms {
                let shares = mono.len() > 1 && mono.iter().any(|symbol| product.contains(symbol));
                if shares && coef.least() < 0 && !factors.contains(&-coef.least()) {
                    factors.push(-coef.least());
                }
            }
            factors.into_iter().any(|by| {
                let rest = bound.scale(by).and_then(|bound| form.sub(&bound));
                rest.is_some_and(|rest| self.is_positive(&rest, DEPTH))
            })
        })
    }

    fn excludes(&mut self, goal: &Cond) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let Under { world, conds, facts } = *self.under;
        match self.by {
            By::Closest => return is_excluded(world, (conds, facts), goal, NEAR),
            By::Near => return is_excluded(world, (conds, facts), goal, FAR),
            By::All => {}
        }
        let plain: Vec<Cond> = facts.iter().filter(|fact| !has_products(fact)).cloned().collect();
        decide(world, conds, &plain, goal, WORK).is_impossible()
    }

    /// Returns true if a sum is at least zero: `stride · count + rest` is, where it has at least `least` strides, and these are as much as the rest lacks.
    fn is_positive(&mut self, form: &Form, depth: u32) -> bool {
        let must = self.under.world.simplify(Cond::at_least(form.clone()));
        if let Cond::Const(is) = must {
            return is;
        }
        if form.degree() < 2 && self.is_at_least(form) {
            return true;
        }
        let Some(depth) = depth.checked_sub(1) else { return false };
        if form.degree() < 2 {
            return self.is_lessened(form, depth);
        }
        if self.by_extents && self.is_positive_by_extents(form, depth) {
            return true;
        }
        if let Some(less) = self.without_products(form) {
            // What is left of a remainder is a product, too, which is one number in the conditions.
            let is_positive = if less.degree() < 2 { self.is_positive(&less, depth) } else { self.is_at_least(&less) };
            if is_positive {
                return true;
            }
        }
        let strides = self.strides(form);
        if strides.is_empty() {
            return self.is_at_least(form);
        }
        strides.into_iter().any(|stride| {
            let Some((count, rest)) = divided(form, stride) else { return false };
            let mut leasts = least_counts(&count, &rest);
            if self.by != By::All {
                leasts.reverse();
            }
            if self.by_extents {
                // One more row.
                leasts.insert(0, count.reduced().1);
            }
            leasts.into_iter().any(|least| {
                let (count, rest) = (count.plus(-least), plus_multiple(&rest, stride, least));
                let (Some(count), Some(rest)) = (count, rest) else { return false };
                // The shorter one is the smaller question.
                let mut parts = [count, rest];
                parts.sort_small_by_key(|part| (part.degree(), part.terms.len()));
                parts.iter().all(|part| self.is_positive(part, depth))
            })
        })
    }

    /// Returns true if a sum is at least zero where each stride that stands alone is as small as what lies inside of it.
    fn is_positive_by_extents(&mut self, form: &Form, depth: u32) -> bool {
        let alone = form.terms.iter().filter(|(mono, coef)| mono.len() == 1 && coef.least() > 0);
        let strides: Vec<Sym> = alone.map(|(mono, _)| mono[0]).collect();
        strides.into_iter().any(|stride| {
            let mut extents: Vec<Form> = self.under.facts.iter().flat_map(|fact| extents(fact, stride)).collect();
            // A length has all strides inside.
            extents.retain(|extent| !extent.symbols().any(|symbol| is_length(self.under.world, symbol)));
            let mut rests = extents.iter().filter_map(|extent| without(form, extent, stride));
            rests.any(|rest| self.is_positive(&rest, depth))
        })
    }

    /// Decides it as it is, a product as one number.
    fn is_at_least(&mut self, form: &Form) -> bool {
        if self.by != By::All {
            return self.excludes(&Cond::at_least(form.clone()).negate());
        }
        let least =
            least_of(form).filter(|least| least != form).map(|least| self.under.world.simplify(Cond::at_least(least)));
        least.is_some_and(|least| self.excludes(&least.negate()))
            || self.excludes(&Cond::at_least(form.clone()).negate())
    }

    /// The symbols that are no less than zero and have the most terms beside them that lessen the sum.
    fn strides(&self, form: &Form) -> Vec<Sym> {
        let lessens = |coef: &Coef| coef.least() < 0;
        let uses =
            |symbol: Sym| form.terms.iter().filter(|(mono, coef)| mono.contains(&symbol) && lessens(coef)).count();
        let products = form.terms.iter().filter(|(mono, coef)| mono.len() > 1 && lessens(coef));
        let mut found: Vec<Sym> =
            products.flat_map(|(mono, _)| mono).copied().filter(|symbol| self.is_positive_symbol(*symbol)).collect();
        // Without a multiple that adds to the sum, a count is below zero.
        let adds = |symbol: Sym| form.terms.iter().any(|(mono, coef)| mono.contains(&symbol) && coef.most() > 0);
        found.retain(|symbol| !self.by_extents || adds(*symbol));
        found.sort_small_by_key(|symbol| (std::cmp::Reverse(uses(*symbol)), *symbol));
        found.dedup();
        found.truncate(STRIDES);
        found
    }

    fn is_positive_symbol(&self, symbol: Sym) -> bool {
        self.under.world.symbol(symbol).least >= 0
    }

    /// The sum without the products that do not lessen it, if there are such.
    fn without_products(&self, form: &Form) -> Option<Form> {
        let is_more = |(mono, coef): &&(Vec<Sym>, Coef)| {
            mono.len() > 1 && coef.least() >= 0 && mono.iter().all(|symbol| self.is_positive_symbol(*symbol))
        };
        let terms: Vec<_> = form.terms.iter().filter(|term| !is_more(term)).cloned().collect();
        (terms.len() < form.terms.len()).then(|| Form { terms, constant: form.constant.clone() })
    }
}

/// Adds the greatest values of products: `constant - product >= 0`.
fn add_bounds(fact: &Cond, found: &mut Vec<Form>) {
    match fact {
        Cond::All(parts) => parts.iter().for_each(|part| add_bounds(part, found)),
        Cond::AtLeast(form) => {
            if let ([(mono, Coef::One(-1))], Coef::One(_)) = (form.terms.as_slice(), &form.constant)
                && mono.len() > 1
            {
                found.push(form.clone());
            }
        }
        _ => {}
    }
}

/// The sums of a condition that bound a stride by products.
fn extents(fact: &Cond, stride: Sym) -> Vec<Form> {
    match fact {
        Cond::AtLeast(form) if form.degree() > 1 && factor(form, stride).is_some_and(|factor| factor > 0) => {
            vec![form.clone()]
        }
        Cond::All(parts) => parts.iter().flat_map(|part| extents(part, stride)).collect(),
        _ => Vec::new(),
    }
}

fn names(cond: &Cond, symbol: Sym) -> bool {
    let mut found = false;
    cond.forms(&mut |form| found |= form.symbols().any(|own| own == symbol));
    found
}

fn has_products(cond: &Cond) -> bool {
    let mut found = false;
    cond.forms(&mut |form| found |= form.degree() > 1);
    found
}

/// The terms with a factor, without it, and the others. The square of a factor is no multiple of it by a number of rows.
fn divided(form: &Form, by: Sym) -> Option<(Form, Form)> {
    let (mut count, mut rest) = (Form::number(0), Form { terms: Vec::new(), constant: form.constant.clone() });
    for (mono, coef) in &form.terms {
        let at = mono.iter().position(|symbol| *symbol == by);
        let mut mono = mono.clone();
        let to = match at {
            Some(at) => {
                mono.remove(at);
                &mut count
            }
            None => &mut rest,
        };
        let term = match mono.is_empty() {
            true => Form { terms: Vec::new(), constant: coef.clone() },
            false => Form { terms: vec![(mono, coef.clone())], constant: Coef::One(0) },
        };
        *to = to.add(&term)?;
    }
    Some((count, rest))
}

/// Counts of strides that may make up for what a rest lacks: the factors of what is subtracted, the largest first, and none.
fn least_counts(count: &Form, rest: &Form) -> Vec<i128> {
    let lacking = rest.terms.iter().chain(&count.terms).map(|(_, coef)| -coef.least());
    let mut found: Vec<i128> = lacking.filter(|factor| *factor > 0).collect();
    if rest.terms.iter().all(|(_, coef)| coef.least() >= 0) {
        found.extend(Some(-rest.constant.least()).filter(|lacking| *lacking > 0));
    }
    found.extend([0, 1]);
    found.sort_small_by_key(|factor| std::cmp::Reverse(*factor));
    found.dedup();
    found
}

/// A condition that keeps another one for all threads: sums without the number of the thread.
pub(crate) fn for_all_threads(cond: &Cond) -> Cond {
    match cond {
        Cond::AtLeast(form) => least_of(form).map_or_else(|| cond.clone(), Cond::at_least),
        Cond::All(parts) => Cond::all(parts.iter().map(for_all_threads)),
        other => other.clone(),
    }
}

/// The sum for the thread that has least of it, divided by what divides all factors. Nothing if these depend on the thread.
fn least_of(form: &Form) -> Option<Form> {
    let constant = form.constant.least();
    let even = Form { terms: form.terms.clone(), constant: Coef::One(0) };
    let (reduced, by) = even.is_even().then(|| even.reduced())?;
    Some(Form { constant: Coef::One(constant.div_euclid(by)), ..reduced })
}

fn plus_multiple(rest: &Form, stride: Sym, by: i128) -> Option<Form> {
    rest.add(&Form::symbol(stride).scale(by)?)
}
