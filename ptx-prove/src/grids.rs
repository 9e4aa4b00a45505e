//! Places in matrices. A place is a multiple of a stride, the row, and what is left, the column. Where the columns of two places lie below that
//! multiple, the places meet only in one row, and where their columns do. So a question about products becomes one about rows and one about columns,
//! which are sums. That the columns lie below is a question about each thread alone.

use crate::form::{Coef, Cond, Form, Mono, Sym};
use crate::local::{FAR, is_excluded};
use crate::machine::Machine;
use crate::query::{BUDGET, Clause, decide, difference};
use crate::rows::{Part, part, strides, unit};
use crate::strides::{By, Under, holds, holds_by_extents};
use crate::world::{Meaning, Scope};
use ptx_core::hash::Map;
use std::cell::RefCell;

/// The most strides of a place.
const LEVELS: usize = 4;

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

/// The columns that are known to lie below a multiple of a stride, or not to.
pub(crate) struct Grids<'m> {
    machine: &'m Machine<'m>,
    known: RefCell<Map<(usize, Cond, Cond), bool>>,
}

impl<'m> Grids<'m> {
    pub(crate) fn new(machine: &'m Machine<'m>) -> Grids<'m> {
        Grids { machine, known: RefCell::default() }
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

    /// The places of two accesses by parts; the places themselves if they have none. The two share each stride. What is given holds beside the
    /// conditions of the launch.
    pub(crate) fn digits(&self, accesses: [usize; 2], is_stride: &dyn Fn(Sym) -> bool, given: &Cond) -> Vec<Digit> {
        let of = |at: usize| &self.machine.trace.accesses[at];
        let [a, b] = accesses.map(|at| self.without_zeros(at));
        // By an order of strides, a part is known from its start on.
        let is_ordered = *given != Cond::Const(true);
        let whole = Digit {
            forms: if is_ordered { [a, b] } else { apart(&a, &b, is_stride).unwrap_or([a, b]) },
            sizes: accesses.map(|at| i128::from(of(at).size)),
        };
        let (mut pending, mut found) = (vec![whole], Vec::new());
        while let Some(of) = pending.pop() {
            let is_full = found.len() + pending.len() >= LEVELS;
            match if is_full { None } else { self.split(accesses, &of, is_stride, given) } {
                // Rows differ more often than columns.
                Some((column, row)) => pending.extend([column, row]),
                None => found.push(of),
            }
        }
        found
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
        strides(a, is_stride).into_iter().find_map(|stride| {
            let parts = [part(a, stride)?, part(b, stride)?];
            let unit = unit(&parts[0], &parts[1]);
            let wide = Form::symbol(stride).scale(unit)?;
            let [left, right] = &parts;
            let columns = [a.sub(&left.bytes)?, b.sub(&right.bytes)?];
            let is_below = |view: usize| self.is_below(accesses[view], (&columns[view], of.sizes[view]), &wide, given);
            let rows = |own: &Part| own.rows.divided(unit);
            let rows = [rows(left)?, rows(right)?];
            ([0, 1].into_iter().all(|view| is_below(view) == Some(true)))
                .then_some((Digit { forms: columns, sizes: of.sizes }, Digit { forms: rows, sizes: [1, 1] }))
        })
    }

    /// Returns true if bytes from a column on lie in a row of so many, wherever a thread makes the access.
    fn is_below(&self, access: usize, (column, size): (&Form, i128), wide: &Form, given: &Cond) -> Option<bool> {
        let inside = [Cond::le(&Form::number(0), column)?, Cond::le(&column.plus(size)?, wide)?];
        let inside = self.machine.world.simplify(Cond::all(inside));
        let decided = |outside: &Cond| {
            let own = &self.machine.trace.accesses[access];
            let conds = [own.path.cond(), own.guard.clone()];
            let (world, launch) = (&self.machine.world, &self.machine.launch.facts);
            if *given == Cond::Const(true) {
                let under = Under { world, conds: &conds, facts: launch };
                return [By::Near, By::All].into_iter().any(|by| holds(&under, &inside, by))
                    || decide(world, &conds, launch, outside, BUDGET / 8).is_impossible();
            }
            let facts: Vec<Cond> = launch.iter().filter(|fact| !matches!(fact, Cond::Any(_))).cloned().collect();
            let facts = [facts, vec![given.clone()]].concat();
            holds_by_extents(&Under { world, conds: &conds, facts: &facts }, &inside)
        };
        Some(self.asked((access, inside.negate(), given.clone()), decided))
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
    fn without_zeros(&self, access: usize) -> Form {
        let own = &self.machine.trace.accesses[access];
        let (world, facts) = (&self.machine.world, &self.machine.launch.facts);
        let offset = world.with_names(&own.offset);
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
