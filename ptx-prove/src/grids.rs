//! Places in matrices. A place is a multiple of a stride, the row, and what is left, the column. Where the columns of two places lie below that
//! multiple, the places meet only in one row, and where their columns do. So a question about products becomes one about rows and one about columns,
//! which are sums. That the columns lie below is a question about each thread alone.

use crate::form::{Coef, Cond, Form, Mono, Sym};
use crate::local::{FAR, is_excluded};
use crate::machine::Machine;
use crate::nearby::is_decided_nearby;
use crate::query::{BUDGET, Clause, decide, difference};
use crate::rows::{Part, part, strides, unit};
use crate::settled::{Settled, settled};
use crate::solver::gcd;
use crate::strides::{By, Under, for_all_threads, holds, holds_by_extents};
use crate::world::{Meaning, Scope, WORK};
use ptx_core::hash::Map;
use ptx_target::sort::SortSmall;
use std::cell::{Cell, RefCell};

/// The most strides of a place.
const LEVELS: usize = 4;
/// The work for two tiles.
const TILE: u32 = 4 * BUDGET;

/// A part of two places. Bytes of both places are the same only if they are in all parts.
#[derive(Clone)]
pub(crate) struct Digit {
    pub(crate) forms: [Form; 2],
    pub(crate) sizes: [i128; 2],
}

impl Digit {
    /// The parts meet.
    pub(crate) fn meets(&self) -> [Clause; 2] {
        let [a, b] = &self.forms;
        [
            vec![vec![difference((0, a), (1, b), self.sizes[0] - 1)]],
            vec![vec![difference((1, b), (0, a), self.sizes[1] - 1)]],
        ]
    }
}

/// Two places without what both have: the start of a part that the threads share is in no row and no column.
fn apart(a: &Form, b: &Form, is_shared: &dyn Fn(Sym) -> bool) -> Option<[Form; 2]> {
    let is_common = |term: &&(Mono, Coef)| {
        matches!(term.1, Coef::One(_)) && b.terms.contains(term) && term.0.iter().all(|symbol| is_shared(*symbol))
    };
    let terms = a.terms.iter().filter(is_common).cloned().collect();
    let common = Form { terms, constant: Coef::One(0) };
    Some([a.sub(&common)?, b.sub(&common)?])
}

/// The strides of a place, those of most products first: of `(z · height + y) · width + x`, the width.
fn inner_first(of: &Form, is_stride: &dyn Fn(Sym) -> bool) -> Vec<Sym> {
    let uses = |symbol: &Sym| of.terms.iter().filter(|(mono, _)| mono.contains(symbol)).count();
    let mut found = strides(of, is_stride);
    found.sort_small_by_key(|symbol| std::cmp::Reverse(uses(symbol)));
    found
}

/// The greatest number that divides the rows of both parts but for a constant; zero if they are constants.
fn unit_of_terms(parts: &[Part; 2]) -> i128 {
    let of = |part: &Part| {
        let terms = Form { terms: part.rows.terms.clone(), constant: Coef::One(0) };
        if terms.terms.is_empty() { 0 } else { terms.reduced().1 }
    };
    gcd(of(&parts[0]), of(&parts[1])).unwrap_or(0)
}

/// The rows of a part in groups of so many, and the number of the row in its group, which all threads have in common.
fn grouped(part: &Part, unit: i128) -> Option<(Form, i128)> {
    let rest = part.rows.constant.at(0).rem_euclid(unit);
    Some((part.rows.plus(-rest)?.divided(unit)?, rest))
}

/// Returns true for alternatives that all have products, as the orders of strides do.
fn is_order(fact: &Cond) -> bool {
    let has_product = |part: &Cond| {
        let mut found = false;
        part.forms(&mut |form| found |= form.degree() > 1);
        found
    };
    matches!(fact, Cond::Any(parts) if parts.iter().all(has_product))
}

/// The columns that are known to lie below a multiple of a stride, or not to.
pub(crate) struct Grids<'m> {
    machine: &'m Machine<'m>,
    known: RefCell<Map<(usize, Cond, Cond), bool>>,
    /// By access: the first one like it, and there the extent of all of these.
    like: Vec<usize>,
    extents: Vec<Extent>,
    /// The answers about tiles, by the first accesses like two, and the work that is left for others.
    tiles: RefCell<Map<[usize; 2], bool>>,
    left: Cell<u32>,
}

/// Accesses are alike if they are made together, at places that differ by constants: their memory, the way, and the other terms of the places.
type Kind<'m> = (usize, Cond, &'m [(Mono, Coef)]);

/// The constants of the first place and of the last end of accesses, for each thread; nothing for numbers that are too large.
type Extent = Option<(Coef, Coef)>;

/// By access: the first one like it, and there the extent of all of these.
fn extents(machine: &Machine<'_>) -> (Vec<usize>, Vec<Extent>) {
    let accesses = &machine.trace.accesses;
    let mut firsts: Map<Kind<'_>, usize> = Map::default();
    let (mut like, mut extents) = (Vec::new(), vec![None; accesses.len()]);
    for (at, own) in accesses.iter().enumerate() {
        let way = Cond::all([own.path.cond(), own.guard.clone()]);
        let first = *firsts.entry((own.base, way, &own.offset.terms)).or_insert(at);
        let last = own.offset.plus(own.size.into()).map(|end| end.constant);
        let extent = last.map(|last| (own.offset.constant.clone(), last));
        extents[first] = if first == at { extent } else { both(extents[first].take(), extent) };
        like.push(first);
    }
    (like, extents)
}

fn both(one: Extent, other: Extent) -> Extent {
    let ((first, last), (more, further)) = one.zip(other)?;
    Some((first.zip(&more, |a, b| Some(a.min(b)))?, last.zip(&further, |a, b| Some(a.max(b)))?))
}

impl<'m> Grids<'m> {
    pub(crate) fn new(machine: &'m Machine<'m>) -> Grids<'m> {
        let (like, extents) = extents(machine);
        Grids { machine, known: RefCell::default(), like, extents, tiles: RefCell::default(), left: Cell::new(WORK) }
    }

    /// The extent of an access and of those like it.
    fn extent(&self, access: usize) -> Option<&(Coef, Coef)> {
        self.extents[self.like[access]].as_ref()
    }

    /// The orders of strides that the launch admits, one of which holds: those that two places have in common.
    pub(crate) fn orders(&self, accesses: [usize; 2], is_stride: &dyn Fn(Sym) -> bool) -> &'m [Cond] {
        let trace = &self.machine.trace;
        let own = strides(&trace.accesses[accesses[0]].offset, is_stride);
        let is_len = |symbol: Sym| matches!(self.machine.world.symbol(symbol).meaning, Meaning::Len(_));
        let of_strides = |part: &Cond| {
            let (mut found, mut has_len) = (false, false);
            part.forms(&mut |form| {
                found |= form.degree() > 1 && form.symbols().any(|symbol| own.contains(&symbol));
                has_len |= form.symbols().any(is_len);
            });
            found && !has_len
        };
        let orders = self.machine.launch.facts.iter().find_map(|fact| match fact {
            Cond::Any(parts) if parts.iter().all(of_strides) => Some(parts.as_ref()),
            _ => None,
        });
        orders.unwrap_or(&[])
    }

    /// Returns true if two accesses of one memory are in parts of it, one of which ends where the other one begins, wherever threads make them.
    pub(crate) fn are_parted(&self, accesses: [usize; 2]) -> bool {
        let [a, b] = accesses;
        let base = |at: usize| self.machine.trace.accesses[at].base;
        base(a) == base(b) && !self.machine.world.is_spent() && (self.ends(a, b) || self.ends(b, a))
    }

    /// Returns true if the places of an access and of those like it end at the start of the part in which another one is.
    fn ends(&self, access: usize, other: usize) -> bool {
        let world = &self.machine.world;
        let (start, Some(end)) = (self.start(access), self.start(other)) else { return false };
        // Behind the other start nothing ends there.
        let is_behind = start.and_then(|start| Cond::le(&end, &start)).map(|cond| world.simplify(cond));
        let terms = &self.machine.trace.accesses[access].offset.terms;
        let last = self.extent(access).map(|(_, last)| Form { terms: terms.clone(), constant: last.clone() });
        let inside = last.and_then(|last| Cond::le(&last, &end));
        is_behind != Some(Cond::Const(true))
            && inside.is_some_and(|inside| self.is_in(self.like[access], &world.simplify(inside), &Cond::Const(true)))
    }

    /// The start of the part of the memory in which an access and those like it are, by numbers of the launch alone, such as that of the second one of
    /// several arrays.
    fn start(&self, access: usize) -> Option<Form> {
        let (world, offset) = (&self.machine.world, &self.machine.trace.accesses[access].offset);
        let is_of_launch = |(mono, coef): &&(Mono, Coef)| {
            matches!(coef, Coef::One(_)) && mono.iter().all(|symbol| world.symbol(*symbol).scope == Scope::Grid)
        };
        let terms: Vec<_> = offset.terms.iter().filter(is_of_launch).cloned().collect();
        let (first, _) = self.extent(access)?;
        let start = Form { terms, constant: Coef::One(first.least()) };
        let rest = Form { constant: first.clone(), ..offset.clone() }.sub(&start)?;
        let is_first = world.simplify(Cond::at_least(rest)) == Cond::Const(true);
        (is_first && start.degree() > 1).then_some(start)
    }

    /// The places of two accesses by parts; the places themselves if they have none. The two share each stride. What is given holds beside the
    /// conditions of the launch.
    pub(crate) fn digits(&self, accesses: [usize; 2], is_stride: &dyn Fn(Sym) -> bool, given: &Cond) -> Vec<Digit> {
        let of = |at: usize| &self.machine.trace.accesses[at];
        let [a, b] = accesses.map(|at| self.without_zeros(at, &of(at).offset));
        // By an order of strides, a part is known from its start on.
        let is_ordered = *given != Cond::Const(true);
        let whole = Digit {
            forms: if is_ordered { [a, b] } else { apart(&a, &b, is_stride).unwrap_or([a, b]) },
            sizes: accesses.map(|at| i128::from(of(at).size)),
        };
        self.parts(accesses, whole, is_stride, given)
    }

    /// Asks about the tiles of two accesses: all that the threads of a block access as they do, in one piece. The answer is for all accesses like them.
    pub(crate) fn of_tiles(
        &self,
        accesses: [usize; 2],
        is_stride: &dyn Fn(Sym) -> bool,
        ask: impl FnOnce([usize; 2], &[Digit]) -> bool,
    ) -> bool {
        let firsts = accesses.map(|at| self.like[at]);
        if let Some(known) = self.tiles.borrow().get(&firsts) {
            return *known;
        }
        // These questions are few, and leave the work of all others as it is.
        let (work, left) = (&self.machine.world.work, self.machine.world.work.get());
        let given = self.left.get().min(TILE);
        work.set(given);
        let whole = self.tile(firsts[0]).zip(self.tile(firsts[1])).map(|((a, size), (b, other))| Digit {
            forms: apart(&a, &b, is_stride).unwrap_or([a, b]),
            sizes: [size, other],
        });
        let are_apart =
            whole.is_some_and(|whole| ask(firsts, &self.parts(firsts, whole, is_stride, &Cond::Const(true))));
        self.left.set(self.left.get() - (given - work.get()));
        work.set(left);
        self.tiles.borrow_mut().insert(firsts, are_apart);
        are_apart
    }

    /// The first place of the accesses like one, for all threads, and the bytes to the end of the last one.
    fn tile(&self, access: usize) -> Option<(Form, i128)> {
        let (first, last) = self.extent(access)?;
        let own = &self.machine.trace.accesses[access];
        let mut known = vec![true; self.machine.world.threads];
        Cond::all([own.path.cond(), own.guard.clone()]).keep(&mut known);
        let threads = || (0..known.len()).filter(|thread| known[*thread]);
        let least = threads().map(|thread| first.at(thread)).min()?;
        let most = threads().map(|thread| last.at(thread)).max()?;
        let is_even = own.offset.terms.iter().all(|(_, coef)| matches!(coef, Coef::One(_)));
        let place = self.without_zeros(access, &Form { constant: Coef::One(least), ..own.offset.clone() });
        is_even.then_some((place, most - least))
    }

    fn parts(&self, accesses: [usize; 2], whole: Digit, is_stride: &dyn Fn(Sym) -> bool, given: &Cond) -> Vec<Digit> {
        let (mut pending, mut found) = (vec![whole], Vec::new());
        while let Some(of) = pending.pop() {
            let is_full = found.len() + pending.len() >= LEVELS;
            let split = |of: &Digit| self.split(accesses, of, is_stride, given);
            match if is_full { None } else { split(&of).or_else(|| split(&self.opened(&of)?)) } {
                // Rows differ more often than columns.
                Some((column, row)) => pending.extend([column, row]),
                None => found.push(of),
            }
        }
        found
    }

    /// The part with sums in the place of their names: the rows of a matrix may be those of several, `matrix · height + row`.
    fn opened(&self, of: &Digit) -> Option<Digit> {
        let opened = |form: &Form| {
            let mut symbols = form.symbols();
            let (Some(name), None) = (symbols.next(), symbols.next()) else { return None };
            let sum = self.machine.world.sum_of(name).filter(|_| *form == Form::symbol(name))?;
            sum.terms.iter().all(|(_, coef)| coef.least() > 0).then(|| sum.clone())
        };
        let [a, b] = &of.forms;
        Some(Digit { forms: [opened(a)?, opened(b)?], sizes: of.sizes })
    }

    /// The column and the row by the first stride below which both columns lie.
    fn split(
        &self,
        accesses: [usize; 2],
        of: &Digit,
        is_stride: &dyn Fn(Sym) -> bool,
        given: &Cond,
    ) -> Option<(Digit, Digit)> {
        let [a, b] = &of.forms;
        inner_first(a, is_stride).into_iter().find_map(|stride| {
            let (single, parts) = self.of_stride([a, b], stride, is_stride)?;
            // Four elements may be one access in one place, and lie by themselves in the other: both are in a group of four.
            let (fine, coarse) = (unit(&parts[0], &parts[1]), unit_of_terms(&parts));
            let units = [fine, coarse].into_iter().take(if coarse > fine { 2 } else { 1 });
            units.into_iter().find_map(|unit| {
                let wide = single.scale(unit)?;
                let [left, right] = [grouped(&parts[0], unit)?, grouped(&parts[1], unit)?];
                let column = |form: &Form, own: &Part, rest: i128| form.sub(&own.bytes)?.add(&single.scale(rest)?);
                let columns = [column(a, &parts[0], left.1)?, column(b, &parts[1], right.1)?];
                let is_below =
                    |view: usize| self.is_below(accesses[view], (&columns[view], of.sizes[view]), &wide, given);
                let rows = [left.0, right.0];
                ([0, 1].into_iter().all(|view| is_below(view) == Some(true)))
                    .then_some((Digit { forms: columns, sizes: of.sizes }, Digit { forms: rows, sizes: [1, 1] }))
            })
        })
    }

    /// The parts of two places that a stride multiplies, and the stride: with the symbols that the same rows multiply in both places, whose sum it is.
    fn of_stride(&self, places: [&Form; 2], stride: Sym, is_stride: &dyn Fn(Sym) -> bool) -> Option<(Form, [Part; 2])> {
        let parts_by = |symbol: Sym| Some([part(places[0], symbol)?, part(places[1], symbol)?]);
        let (mut wide, mut parts) = (Form::symbol(stride), parts_by(stride)?);
        for other in strides(places[0], is_stride).into_iter().filter(|other| *other != stride) {
            let own = parts_by(other)?;
            let has_both = |form: &Form| form.symbols().any(|symbol| symbol == stride);
            if (0..2).all(|view| own[view].rows == parts[view].rows && !has_both(&own[view].rows)) {
                wide = wide.add(&Form::symbol(other))?;
                for (sum, more) in parts.iter_mut().zip(&own) {
                    sum.bytes = sum.bytes.add(&more.bytes)?;
                }
            }
        }
        Some((wide, parts))
    }

    /// Returns true if bytes from a column on lie in a row of so many, wherever a thread makes the access.
    fn is_below(&self, access: usize, (column, size): (&Form, i128), wide: &Form, given: &Cond) -> Option<bool> {
        let inside = [Cond::le(&Form::number(0), column)?, Cond::le(&column.plus(size)?, wide)?];
        Some(self.is_in(access, &self.machine.world.simplify(Cond::all(inside)), given))
    }

    /// Returns true if a condition holds wherever a thread makes an access.
    fn is_in(&self, access: usize, inside: &Cond, given: &Cond) -> bool {
        let decided = |outside: &Cond| {
            let own = &self.machine.trace.accesses[access];
            let conds = [own.path.cond(), own.guard.clone()];
            let (world, launch) = (&self.machine.world, &self.machine.launch.facts);
            if *given == Cond::Const(true) {
                let under = Under { world, conds: &conds, facts: launch };
                let all_outside = world.simplify(for_all_threads(inside)).negate();
                return is_excluded(world, (&conds, launch), &all_outside, FAR)
                    || is_decided_nearby(&under, outside, 0)
                    || holds(&under, inside, By::All)
                    || decide(world, &conds, launch, outside, BUDGET / 8).is_impossible();
            }
            let facts: Vec<Cond> = launch.iter().filter(|fact| !is_order(fact)).cloned().collect();
            let facts = [facts, vec![given.clone()]].concat();
            holds_by_extents(&Under { world, conds: &conds, facts: &facts }, inside)
                || settled(world, &conds, &facts, inside).is_some_and(|Settled { world: own, conds, facts, goal }| {
                    let holds = holds_by_extents(&Under { world: &own, conds: &conds, facts: &facts }, &goal);
                    world.work.set(own.work.get());
                    holds
                })
        };
        self.asked((access, inside.negate(), given.clone()), decided)
    }

    /// The answer to a question about an access and a condition, which is decided once.
    fn asked(&self, question: (usize, Cond, Cond), decide: impl FnOnce(&Cond) -> bool) -> bool {
        if let Some(known) = self.known.borrow().get(&question) {
            return *known;
        }
        let is = decide(&question.1);
        self.known.borrow_mut().insert(question, is);
        is
    }

    /// The place without the products of what is zero wherever a thread makes the access: there is no second row, and its stride may be any.
    fn without_zeros(&self, access: usize, offset: &Form) -> Form {
        let own = &self.machine.trace.accesses[access];
        let (world, facts) = (&self.machine.world, &self.machine.launch.facts);
        let offset = world.with_names(offset);
        let conds = [own.path.cond(), own.guard.clone()];
        let is_zero = |symbol: &Sym| {
            let some = Cond::at_least(Form { constant: Coef::One(-1), ..Form::symbol(*symbol) });
            let known = world.symbol(*symbol);
            let may_be = known.least == 0 && known.scope > Scope::Grid;
            may_be
                && self.asked((access, some, Cond::Const(true)), |some| is_excluded(world, (&conds, facts), some, FAR))
        };
        let is_left = |(mono, _): &&(Mono, Coef)| mono.len() < 2 || !mono.iter().any(is_zero);
        Form { terms: offset.terms.iter().filter(is_left).cloned().collect(), constant: offset.constant }
    }
}
