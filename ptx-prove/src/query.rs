//! Questions to the solver: can these conditions hold together, for some threads, in some launch?
//!
//! A question has one view for each thread in it. In a view, symbols of wider scope are shared with the first one, and the others are its own.
//! Threads whose coefficients agree are one question: their numbers are written as sums over small ranges.

mod same;

use crate::form::{Coef, Cond, Form, Mono, Sym};
use crate::near::{near, without_addresses, without_other_lengths};
use crate::solver::{Answer, Conjunction, Linear, Problem, solve};
use crate::world::{Effort, Meaning, Origin, Symbol, World};
use ptx_core::hash::{Map, Set};
use ptx_target::sort::SortSmall;

/// The work for a check of a loop's fact, in inequalities.
pub(crate) const LOOP_BUDGET: u32 = 100_000;
/// The work to write a question down.
const SETUP: u32 = 20;
/// The work to find that a value does not wrap.
const RANGE_BUDGET: u32 = 20_000;
/// The work for a property.
pub(crate) const BUDGET: u32 = 300_000;
/// The most blocks in a dimension, and the greatest numbers and lengths, of launches that are tried first as counterexamples.
const SMALL: [(i128, i128, i128); 3] = [(4, 100, 1 << 16), (40, 5_000, 1 << 22), (1_000, 1 << 20, 1 << 26)];
/// The work for one of them.
const SMALL_BUDGET: u32 = 20_000;
/// The most groups of threads, or pairs of groups, of one question.
const GROUPS: usize = 5_000;
/// The most products that are compared.
const PRODUCTS: usize = 8;
/// The greatest least value of a factor that is of use for its product.
const LEAST: i128 = 1 << 16;
/// The most alternatives of a clause.
const ALTERNATIVES: usize = 64;

/// Returns true if conditions exclude a goal in all launches.
pub(crate) fn excludes(world: &World, conds: &[Cond], goal: &Cond, effort: Effort) -> bool {
    let budget = match effort {
        Effort::Little => RANGE_BUDGET,
        Effort::Much => LOOP_BUDGET,
    };
    decide(world, conds, &world.facts, goal, budget).is_impossible()
}

/// Decides if a goal can hold under conditions and the facts about a launch: at first by some of them, which suffices for most proofs.
pub(crate) fn decide(world: &World, conds: &[Cond], facts: &[Cond], goal: &Cond, budget: u32) -> Decision {
    if world.is_spent() {
        return Decision::Unknown;
    }
    let of = |conds: Vec<Cond>, budget: u32| Views::one(world, conds).decide(budget);
    if of(near(world, conds.iter().chain(facts), goal), budget / 4).is_impossible() {
        return Decision::Impossible;
    }
    let weaker: Vec<Cond> =
        conds.iter().map(|cond| without_addresses(world, cond, goal)).chain([goal.clone()]).collect();
    let own = without_other_lengths(world, &weaker, facts);
    let is_whole = own.len() == facts.len() && weaker.iter().take(conds.len()).eq(conds);
    let decided = of([weaker, own].concat(), if is_whole { budget } else { budget / 2 });
    match decided {
        Decision::Impossible => Decision::Impossible,
        decided if is_whole => decided,
        _ => of([conds, facts, std::slice::from_ref(goal)].concat(), budget),
    }
}

/// The answer to a question.
pub(crate) enum Decision {
    Impossible,
    Possible(Model),
    Unknown,
}

impl Decision {
    pub(crate) fn is_impossible(&self) -> bool {
        matches!(self, Decision::Impossible)
    }
}

/// Values under which the conditions hold.
pub(crate) struct Model {
    values: Map<(Sym, usize), i128>,
    /// By view.
    pub(crate) threads: Vec<usize>,
    /// True if a value may be one that no run has.
    pub(crate) is_loose: bool,
    /// True if this is so because of numbers in structs alone.
    pub(crate) is_passed: bool,
}

impl Model {
    /// Returns true if it is in a later turn of a loop, which the turns before may never reach.
    pub(crate) fn is_later(&self, world: &World) -> bool {
        let mut values = self.values.iter();
        values.any(|((symbol, _), value)| *value > 0 && world.symbol(*symbol).meaning == Meaning::Turn)
    }

    /// The value of a symbol in a view; its least one if the question does not name it.
    pub(crate) fn value(&self, world: &World, symbol: Sym, view: usize) -> i128 {
        let found = self.values.get(&(symbol, view)).or_else(|| self.values.get(&(symbol, 0)));
        found.copied().unwrap_or_else(|| world.symbol(symbol).least.max(0))
    }

    /// The value of a form in a view.
    pub(crate) fn form(&self, world: &World, form: &Form, view: usize) -> Option<i128> {
        let thread = self.threads.get(view).copied().unwrap_or(0);
        form.terms.iter().try_fold(form.constant.at(thread), |sum, (mono, coef)| {
            let product = mono
                .iter()
                .try_fold(coef.at(thread), |product, symbol| product.checked_mul(self.value(world, *symbol, view)))?;
            sum.checked_add(product)
        })
    }
}

/// The symbols that a view does not share with the first one.
pub(crate) type Own<'q> = Box<dyn Fn(Sym, &Symbol) -> bool + 'q>;

/// One thread of a question.
pub(crate) struct View<'q> {
    pub(crate) own: Own<'q>,
    /// Numbers of turns that are further by so many.
    pub(crate) shift: Map<Sym, i128>,
    /// The threads that it may be, if not all.
    pub(crate) threads: Option<Vec<usize>>,
}

/// `Σ factor · form + constant >= 0` over several views.
#[derive(Clone)]
pub(crate) struct Atom {
    pub(crate) parts: Vec<(usize, Form, i128)>,
    pub(crate) constant: i128,
}

/// Alternatives of conjunctions.
pub(crate) type Clause = Vec<Vec<Atom>>;

/// `a - b` of the two views, plus a constant.
pub(crate) fn difference((a, x): (usize, &Form), (b, y): (usize, &Form), constant: i128) -> Atom {
    Atom { parts: vec![(a, x.clone(), 1), (b, y.clone(), -1)], constant }
}

/// Either is less than the other.
pub(crate) fn differ(a: &Form, b: &Form) -> Clause {
    vec![vec![difference((0, a), (1, b), -1)], vec![difference((1, b), (0, a), -1)]]
}

/// A question.
pub(crate) struct Views<'q> {
    pub(crate) world: &'q World,
    pub(crate) views: Vec<View<'q>>,
    /// Conditions, each in a view.
    pub(crate) conds: Vec<(usize, Cond)>,
    /// Clauses of conjunctions of atoms.
    pub(crate) mixed: Vec<Clause>,
    /// True if products are compared between two views: with equal factors they are equal. What is equal is looked for, too.
    pub(crate) compares: bool,
}

/// Threads of a view that one question covers.
#[derive(Clone)]
struct Group {
    threads: Vec<usize>,
    /// Stride and length of each range that counts them.
    levels: Vec<(usize, usize)>,
}

impl<'q> Views<'q> {
    /// A question about one thread.
    pub(crate) fn one(world: &'q World, conds: Vec<Cond>) -> Views<'q> {
        let view = View { own: Box::new(|_, _| false), shift: Map::default(), threads: None };
        Views {
            world,
            views: vec![view],
            conds: conds.into_iter().map(|cond| (0, cond)).collect(),
            mixed: Vec::new(),
            compares: false,
        }
    }

    fn space(&self, view: usize, symbol: Sym) -> usize {
        if view > 0 && (self.views[view].own)(symbol, self.world.symbol(symbol)) { view } else { 0 }
    }

    /// Decides it; with so much work for each group of threads.
    pub(crate) fn decide(mut self, budget: u32) -> Decision {
        if !self.world.spend(SETUP) {
            return Decision::Unknown;
        }
        let Some(origin) = self.close() else { return Decision::Impossible };
        let given = self.mixed.len();
        if self.compares {
            self.compare_products();
        }
        if !self.world.spend(self.length()) {
            return Decision::Unknown;
        }
        // A thread's number is a variable, also as a factor. Where that is too hard, each value of a factor is a question of its own.
        match self.decide_groups(budget, (origin, given), false) {
            Decision::Unknown if self.has_factors() => self.decide_groups(budget / 4, (origin, given), true),
            decided => decided,
        }
    }

    /// The forms of all conditions.
    fn length(&self) -> u32 {
        let mut forms = 0;
        self.conds.iter().for_each(|(_, cond)| cond.forms(&mut |_| forms += 1));
        forms
    }

    /// Returns true if a symbol has a factor that depends on the thread.
    fn has_factors(&self) -> bool {
        let mut found = false;
        let mut look = |form: &Form| found |= form.terms.iter().any(|(_, coef)| matches!(coef, Coef::Each(_)));
        self.conds.iter().for_each(|(_, cond)| cond.forms(&mut look));
        self.mixed.iter().flatten().flatten().flat_map(|atom| &atom.parts).for_each(|(_, form, _)| look(form));
        found
    }

    /// The groups of threads of each view; nothing if a view has none.
    fn all_groups(&self, by_factor: bool) -> Option<Vec<Vec<Group>>> {
        (0..self.views.len()).map(|view| self.groups(view, by_factor)).collect()
    }

    fn decide_groups(&self, budget: u32, (origin, given): (Origin, usize), by_factor: bool) -> Decision {
        let Some(groups) = self.all_groups(by_factor) else { return Decision::Impossible };
        let count = groups.iter().map(Vec::len).product::<usize>();
        if count > GROUPS {
            return Decision::Unknown;
        }
        let (mut unknown, length) = (false, self.length());
        for at in 0..count {
            if !self.world.spend(SETUP + length) {
                return Decision::Unknown;
            }
            let chosen = nth(&groups, at);
            let mut build = Build::new(self, &chosen, true);
            if self.compares {
                match self.same(&chosen, given, budget) {
                    Some(same) => build.same = same,
                    None => continue,
                }
            }
            let Some(levels) = build.all() else { continue };
            // One group without an answer makes the whole unknown, unless another one has a model, for which less work suffices.
            let share = if unknown { budget / 16 } else { budget };
            let mut left = share.min(self.world.work.get());
            let given = left;
            let answer = if build.overflow { Answer::Unknown } else { solve(&build.problem, &mut left) };
            self.world.work.set(self.world.work.get().saturating_sub(given - left));
            match answer {
                Answer::Unsat => {}
                Answer::Unknown => unknown = true,
                Answer::Sat(model) => {
                    let model = build.smaller(model);
                    let values = build.vars.iter().filter_map(|(key, at)| match key.as_slice() {
                        [one] if one.0 < LEVELS => Some((*one, model[*at])),
                        _ => None,
                    });
                    let is_loose = origin != Origin::Exact || !build.is_exact;
                    let is_passed = origin == Origin::Passed && build.is_exact;
                    let thread = |group: &Group, first: usize| {
                        let levels = group.levels.iter().zip(first..);
                        group.threads[levels.map(|((stride, _), var)| stride * model[var] as usize).sum::<usize>()]
                    };
                    let threads = chosen.iter().zip(&levels).map(|(group, first)| thread(group, *first)).collect();
                    return Decision::Possible(Model { values: values.collect(), threads, is_loose, is_passed });
                }
            }
        }
        if unknown { Decision::Unknown } else { Decision::Impossible }
    }

    /// Returns true if the conditions, without the facts about their symbols, exclude each other where each product is a number of its own; with so
    /// much work for each group of threads.
    pub(crate) fn is_excluded(&self, budget: u32) -> bool {
        let Some(groups) = self.all_groups(false) else { return true };
        let count = groups.iter().map(Vec::len).product::<usize>();
        let length = self.length();
        let is_excluded = |chosen: Vec<&Group>| {
            if !self.world.spend(SETUP + length) {
                return false;
            }
            let mut build = Build::new(self, &chosen, false);
            if build.all().is_none() {
                return true;
            }
            let given = budget.min(self.world.work.get());
            let mut left = given;
            let is_excluded = !build.overflow && solve(&build.problem, &mut left) == Answer::Unsat;
            self.world.spend(given - left);
            is_excluded
        };
        count <= GROUPS && (0..count).all(|at| is_excluded(nth(&groups, at)))
    }

    /// Decides the same with the facts about the symbols, and products of both views that are compared.
    pub(crate) fn excludes_by_facts(mut self, budget: u32) -> bool {
        if self.close().is_none() {
            return true;
        }
        if self.compares {
            self.compare_products();
        }
        self.is_excluded(budget)
    }

    /// Adds the facts about every symbol that occurs; the freest origin, nothing if a condition is false.
    fn close(&mut self) -> Option<Origin> {
        let mut seen: Set<(Sym, usize)> = Set::default();
        let mut pending = Vec::new();
        let mixed: Vec<(usize, Form)> = self
            .mixed
            .iter()
            .flatten()
            .flatten()
            .flat_map(|atom| atom.parts.iter().map(|(view, form, _)| (*view, form.clone())))
            .collect();
        for (view, form) in &mixed {
            pending.extend(form.symbols().map(|symbol| (symbol, *view)));
        }
        for (view, cond) in &self.conds {
            cond.forms(&mut |form| pending.extend(form.symbols().map(|symbol| (symbol, *view))));
        }
        let mut origin = Origin::Exact;
        while let Some((symbol, view)) = pending.pop() {
            let space = self.space(view, symbol);
            if !seen.insert((symbol, space)) {
                continue;
            }
            origin = origin.max(self.world.symbol(symbol).origin);
            for fact in self.world.facts_of(symbol) {
                fact.forms(&mut |form| pending.extend(form.symbols().map(|symbol| (symbol, space))));
                self.conds.push((space, fact.clone()));
            }
        }
        if self.conds.iter().any(|(_, cond)| *cond == Cond::Const(false)) { None } else { Some(origin) }
    }

    /// Adds for products of both views: a factor is another one, or all factors and the products are the same.
    fn compare_products(&mut self) {
        let of = |view: usize| {
            let mut found: Vec<Mono> = Vec::new();
            let mut add = |form: &Form| {
                for (mono, _) in form.terms.iter().filter(|(mono, _)| mono.len() > 1) {
                    if !found.contains(mono) {
                        found.push(mono.clone());
                    }
                }
            };
            self.conds.iter().filter(|(own, _)| *own == view).for_each(|(_, cond)| cond.forms(&mut add));
            found
        };
        let (first, second) = (of(0), of(1));
        let is_own = |symbol: &Sym| self.space(1, *symbol) == 1;
        let both = first.into_iter().filter(|mono| second.contains(mono) && mono.iter().any(is_own));
        let clauses = both.take(PRODUCTS).map(|mono| {
            let mut factors: Vec<Sym> = mono.iter().copied().filter(is_own).collect();
            factors.dedup();
            let product = Form { terms: vec![(mono, Coef::One(1))], constant: Coef::One(0) };
            let mut own: Vec<Form> = factors.into_iter().map(Form::symbol).collect();
            let mut clause: Clause = own.iter().flat_map(|factor| differ(factor, factor)).collect();
            own.push(product);
            let same = own.iter().flat_map(|of| [difference((0, of), (1, of), 0), difference((1, of), (0, of), 0)]);
            clause.push(same.collect());
            clause
        });
        let clauses: Vec<_> = clauses.collect();
        self.mixed.extend(clauses);
    }

    /// The threads of a view in groups; nothing if there is no thread.
    fn groups(&self, view: usize, by_factor: bool) -> Option<Vec<Group>> {
        let all = || (0..self.world.threads).collect();
        let mut threads: Vec<usize> = self.views[view].threads.clone().unwrap_or_else(all);
        let (mut coefs, mut constants, mut tables): (Vec<Coef>, Vec<Coef>, Vec<Vec<bool>>) = Default::default();
        let mut add = |form: &Form| {
            coefs.extend(form.terms.iter().map(|(_, coef)| coef.clone()).filter(|coef| matches!(coef, Coef::Each(_))));
            constants.extend(Some(form.constant.clone()).filter(|coef| matches!(coef, Coef::Each(_))));
        };
        for (_, cond) in self.conds.iter().filter(|(own, _)| *own == view) {
            cond.forms(&mut add);
            top_tables(cond, &mut |table| threads.retain(|thread| table.get(*thread) == Some(&true)));
            inner_tables(cond, &mut |table| tables.push(table.to_vec()));
        }
        for atom in self.mixed.iter().flatten().flatten() {
            atom.parts.iter().filter(|(own, _, _)| *own == view).for_each(|(_, form, _)| add(form));
        }
        if !by_factor {
            constants.append(&mut coefs);
        }
        let coefs = distinct(coefs);
        let constants = distinct(constants);
        if threads.is_empty() {
            return None;
        }
        if coefs.is_empty() && constants.is_empty() && tables.is_empty() {
            return Some(vec![Group { threads: threads[..1].to_vec(), levels: Vec::new() }]);
        }
        let mut parts: Map<(Vec<i128>, Vec<bool>), Vec<usize>> = Map::default();
        let mut order = Vec::new();
        for thread in threads {
            let key: (Vec<i128>, Vec<bool>) = (
                coefs.iter().map(|coef| coef.at(thread)).collect(),
                tables.iter().map(|table| table.get(thread) == Some(&true)).collect(),
            );
            if !parts.contains_key(&key) {
                order.push(key.clone());
            }
            parts.entry(key).or_default().push(thread);
        }
        let mut groups = Vec::new();
        for threads in order.into_iter().filter_map(|key| parts.remove(&key)) {
            let rows: Vec<Vec<i128>> =
                constants.iter().map(|coef| threads.iter().map(|thread| coef.at(*thread)).collect()).collect();
            split(threads, &rows, &mut groups);
        }
        Some(groups)
    }
}

/// A group of each view: all ways to choose them have numbers.
fn nth(groups: &[Vec<Group>], mut at: usize) -> Vec<&Group> {
    let chosen = groups.iter().map(|of| {
        let own = &of[at % of.len()];
        at /= of.len();
        own
    });
    chosen.collect()
}

/// Each once, in order.
fn distinct(coefs: Vec<Coef>) -> Vec<Coef> {
    let mut seen: Set<Coef> = Set::default();
    coefs.into_iter().filter(|coef| seen.insert(coef.clone())).collect()
}

/// Groups of threads whose numbers are sums over ranges; a thread alone where they are not.
fn split(threads: Vec<usize>, rows: &[Vec<i128>], groups: &mut Vec<Group>) {
    if let Some(levels) = levels(rows, threads.len()) {
        return groups.push(Group { threads, levels });
    }
    // A power of two of them may have more order than all.
    let half = threads.len().next_power_of_two() / 2;
    let (left, right) = threads.split_at(half);
    let part = |range: std::ops::Range<usize>| rows.iter().map(|row| row[range.clone()].to_vec()).collect::<Vec<_>>();
    split(left.to_vec(), &part(0..half), groups);
    split(right.to_vec(), &part(half..threads.len()), groups);
}

/// Strides and lengths under which every row is a sum of multiples of the ranges' numbers.
fn levels(rows: &[Vec<i128>], count: usize) -> Option<Vec<(usize, usize)>> {
    let (mut levels, mut stride, mut rest) = (Vec::new(), 1, count);
    while rest > 1 {
        let at = |row: &Vec<i128>, index: usize| row[index * stride];
        let even = |length: usize| {
            rows.iter().all(|row| {
                let step = at(row, 1) - at(row, 0);
                (0..rest / length).all(|block| {
                    (1..length).all(|i| at(row, block * length + i) - at(row, block * length) == step * i as i128)
                })
            })
        };
        let whole = rows.iter().all(|row| (2..rest).all(|i| at(row, i) - at(row, i - 1) == at(row, 1) - at(row, 0)));
        let length =
            if whole { rest } else { (2..=rest / 2).rev().find(|length| rest % length == 0 && even(*length))? };
        levels.push((stride, length));
        stride *= length;
        rest /= length;
    }
    Some(levels)
}

/// The tables that must hold.
fn top_tables(cond: &Cond, visit: &mut dyn FnMut(&[bool])) {
    match cond {
        Cond::Table(table) => visit(table),
        Cond::All(parts) => parts.iter().for_each(|part| top_tables(part, visit)),
        _ => {}
    }
}

/// The tables inside of alternatives.
fn inner_tables(cond: &Cond, visit: &mut dyn FnMut(&[bool])) {
    match cond {
        Cond::All(parts) => parts.iter().for_each(|part| inner_tables(part, visit)),
        Cond::Any(parts) => parts.iter().for_each(|part| {
            top_tables(part, visit);
            inner_tables(part, visit);
        }),
        _ => {}
    }
}

/// A variable: a product of symbols, each with its space.
type Key = Vec<(Sym, usize)>;
/// From here on, a symbol is the number in a range of a group, in the space of its view.
const LEVELS: Sym = Sym::MAX - 64;

/// The problem of one group for each view.
struct Build<'b> {
    views: &'b Views<'b>,
    groups: &'b [&'b Group],
    problem: Problem,
    vars: Map<Key, usize>,
    /// False if a condition was left out.
    is_exact: bool,
    /// True if a number did not fit.
    overflow: bool,
    /// False if each product is a number of its own.
    has_products: bool,
    /// The second view's own symbols that are equal to those of the first one.
    same: Set<Sym>,
    /// Conditions without alternatives, and so many clauses of both views, if not all.
    few: Option<usize>,
}

impl<'b> Build<'b> {
    fn new(views: &'b Views<'b>, groups: &'b [&'b Group], has_products: bool) -> Build<'b> {
        let (problem, vars) = (Problem::default(), Map::default());
        Build {
            views,
            groups,
            problem,
            vars,
            is_exact: true,
            overflow: false,
            has_products,
            same: Set::default(),
            few: None,
        }
    }

    /// Adds everything; the first variable of each group's ranges. Nothing if a condition is false.
    fn all(&mut self) -> Option<Vec<usize>> {
        let mut firsts = Vec::new();
        for (view, group) in self.groups.iter().enumerate() {
            firsts.push(self.problem.variables);
            for (level, (_, length)) in (LEVELS..).zip(&group.levels) {
                let var = self.problem.variables;
                self.problem.variables += 1;
                self.vars.insert(vec![(level, view)], var);
                self.bounds(var, (0, *length as i128 - 1));
            }
        }
        // What holds without an alternative is no part of one.
        let parts = self.views.conds.iter().flat_map(|(view, cond)| match cond {
            Cond::All(parts) => parts.iter().map(|part| (*view, part)).collect(),
            other => vec![(*view, other)],
        });
        for (view, cond) in parts {
            match self.alternatives(view, cond, &firsts) {
                None => self.is_exact = false,
                Some(mut any) => match any.len() {
                    0 => return None,
                    1 => self.problem.atleast.append(&mut any[0]),
                    _ if self.few.is_some() => {}
                    _ => self.problem.clauses.push(any),
                },
            }
        }
        for clause in self.views.mixed.iter().take(self.few.unwrap_or(usize::MAX)) {
            let mut any: Vec<Conjunction> = Vec::new();
            for conjunction in clause {
                any.push(conjunction.iter().filter_map(|atom| self.atom(atom, &firsts)).collect());
            }
            match any.len() {
                0 => return None,
                1 => self.problem.atleast.append(&mut any[0]),
                _ => self.problem.clauses.push(any),
            }
        }
        Some(firsts)
    }

    fn bounds(&mut self, var: usize, (least, most): (i128, i128)) {
        self.problem.atleast.push(Linear { terms: vec![(var, 1)], constant: -least });
        self.problem.atleast.push(Linear { terms: vec![(var, -1)], constant: most });
    }

    /// A model of a small launch, which can be run, if there is one.
    fn smaller(&self, model: Vec<i128>) -> Vec<i128> {
        for (blocks, number, bytes) in SMALL {
            let mut problem = self.problem.clone();
            for (key, var) in &self.vars {
                let [(symbol, _)] = key.as_slice() else { continue };
                if *symbol >= LEVELS {
                    continue;
                }
                let most = match self.views.world.symbol(*symbol).meaning {
                    Meaning::Blocks(_) | Meaning::Block(_) => blocks,
                    Meaning::Param(_) | Meaning::Number(_) | Meaning::Turn => number,
                    Meaning::Len(_) => bytes,
                    Meaning::Field(..) | Meaning::Base | Meaning::Other => continue,
                };
                problem.atleast.push(Linear { terms: vec![(*var, -1)], constant: most });
                problem.atleast.push(Linear { terms: vec![(*var, 1)], constant: most });
            }
            let mut left = SMALL_BUDGET;
            if let Answer::Sat(found) = solve(&problem, &mut left) {
                return found;
            }
        }
        model
    }

    /// A condition as alternatives of conjunctions; nothing if there are too many.
    fn alternatives(&mut self, view: usize, cond: &Cond, firsts: &[usize]) -> Option<Vec<Conjunction>> {
        match cond {
            Cond::Const(true) => Some(vec![Vec::new()]),
            Cond::Const(false) => Some(Vec::new()),
            Cond::Table(table) => {
                let thread = self.groups[view].threads[0];
                Some(if table.get(thread) == Some(&true) { vec![Vec::new()] } else { Vec::new() })
            }
            Cond::AtLeast(form) => {
                let linear = self.linear(view, form, firsts)?;
                Some(vec![vec![linear]])
            }
            Cond::Any(parts) => {
                let mut all = Vec::new();
                for part in parts.iter() {
                    all.extend(self.alternatives(view, part, firsts)?);
                    if all.len() > ALTERNATIVES {
                        return None;
                    }
                }
                Some(all)
            }
            Cond::All(parts) => {
                let mut all: Vec<Conjunction> = vec![Vec::new()];
                for part in parts.iter() {
                    let more = self.alternatives(view, part, firsts)?;
                    if all.len() * more.len() > ALTERNATIVES {
                        return None;
                    }
                    all = all.iter().flat_map(|a| more.iter().map(|b| [&a[..], &b[..]].concat())).collect();
                }
                Some(all)
            }
        }
    }

    fn atom(&mut self, atom: &Atom, firsts: &[usize]) -> Option<Linear> {
        let mut sum = Linear::constant(atom.constant);
        for (view, form, factor) in &atom.parts {
            let linear = self.linear(*view, form, firsts)?;
            let Some(more) = sum.combine(1, &linear, *factor) else {
                self.overflow = true;
                return None;
            };
            sum = more;
        }
        Some(sum)
    }

    /// A form in a view.
    fn linear(&mut self, view: usize, form: &Form, firsts: &[usize]) -> Option<Linear> {
        let found = self.linear_of(view, form, firsts);
        self.overflow |= found.is_none();
        found
    }

    fn linear_of(&mut self, view: usize, form: &Form, firsts: &[usize]) -> Option<Linear> {
        let group = self.groups[view];
        let first = group.threads[0];
        let base = form.constant.at(first);
        let mut sum = Linear::constant(base);
        for ((stride, _), var) in group.levels.iter().zip(firsts[view]..) {
            let step = form.constant.at(group.threads[*stride]) - base;
            sum = sum.combine(1, &Linear::variable(var), step)?;
        }
        for (mono, coef) in &form.terms {
            let base = coef.at(first);
            let steps: Vec<(Sym, i128)> = (LEVELS..)
                .zip(&group.levels)
                .map(|(level, (stride, _))| (level, coef.at(group.threads[*stride]) - base))
                .filter(|(_, step)| *step != 0)
                .collect();
            for (key, factor) in self.expanded(view, mono) {
                sum = self.plus(&sum, &key, factor.checked_mul(base)?)?;
                for (level, step) in &steps {
                    let mut longer = key.clone();
                    longer.push((*level, view));
                    longer.sort_small();
                    sum = self.plus(&sum, &longer, factor.checked_mul(*step)?)?;
                }
            }
        }
        Some(sum)
    }

    fn plus(&mut self, sum: &Linear, key: &Key, factor: i128) -> Option<Linear> {
        if key.is_empty() {
            return sum.combine(1, &Linear::constant(1), factor);
        }
        if factor == 0 {
            return Some(sum.clone());
        }
        let var = self.var(key);
        sum.combine(1, &Linear::variable(var), factor)
    }

    /// A product of symbols, some of which are shifted, as a sum of products.
    fn expanded(&self, view: usize, mono: &[Sym]) -> Vec<(Key, i128)> {
        let mut all: Vec<(Key, i128)> = vec![(Vec::new(), 1)];
        for symbol in mono {
            let space = if self.same.contains(symbol) { 0 } else { self.views.space(view, *symbol) };
            let name = (*symbol, space);
            let shift = self.views.views[view].shift.get(symbol).copied().unwrap_or(0);
            let mut next: Vec<(Key, i128)> = Vec::new();
            for (key, factor) in &all {
                let mut longer = key.clone();
                longer.push(name);
                longer.sort_small();
                next.push((longer, *factor));
                if shift != 0 {
                    next.push((key.clone(), factor * shift));
                }
            }
            all = next;
        }
        all
    }

    /// The variable of a product, with the products that it is made of.
    fn var(&mut self, key: &Key) -> usize {
        if let Some(var) = self.vars.get(key) {
            return *var;
        }
        let var = self.problem.variables;
        self.problem.variables += 1;
        self.vars.insert(key.clone(), var);
        if let [(symbol, _)] = key.as_slice() {
            let Symbol { least, most, .. } = self.views.world.symbol(*symbol);
            self.bounds(var, (*least, *most));
            return var;
        }
        if !self.has_products {
            self.bound_product(var, key);
            return var;
        }
        for at in 0..key.len() {
            let mut rest = key.clone();
            let one = vec![rest.remove(at)];
            let (a, b) = (self.var(&rest), self.var(&one));
            // A product is a factor of longer ones, where its sign counts. Its greatest value is of little use, and has many digits.
            let symbols: Vec<Sym> = rest.iter().map(|(symbol, _)| *symbol).collect();
            let is_whole = rest.len() > 1 && symbols.iter().all(|symbol| *symbol < LEVELS);
            if is_whole && self.views.world.product_range(&symbols).is_some_and(|(least, _)| least >= 0) {
                self.problem.atleast.push(Linear::variable(a));
            }
            if !self.problem.products.contains(&(var, a, b)) {
                self.problem.products.push((var, a, b));
            }
        }
        var
    }

    /// The least values of a product: with factors that are at least `a` and `b`, their differences to these have a product that is not below zero.
    fn bound_product(&mut self, var: usize, key: &Key) {
        let least = |(symbol, _): &(Sym, usize)| match *symbol >= LEVELS {
            true => 0,
            false => self.views.world.symbol(*symbol).least,
        };
        let leasts: Vec<i128> = key.iter().map(least).collect();
        if leasts.iter().any(|least| !(0..=LEAST).contains(least)) {
            return;
        }
        self.problem.atleast.push(Linear::variable(var));
        let ([first, second], [a, b]) = (key.as_slice(), leasts.as_slice()) else { return };
        if (*a, *b) != (0, 0) {
            let [first, second] = [first, second].map(|factor| self.var(&vec![*factor]));
            let sum = Linear::variable(var).combine(1, &Linear::variable(first), -b);
            let sum = sum.and_then(|sum| sum.combine(1, &Linear::variable(second), -a));
            let sum = sum.and_then(|sum| sum.combine(1, &Linear::constant(a * b), 1));
            self.problem.atleast.extend(sum);
        }
    }
}
