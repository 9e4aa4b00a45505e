//! Shared memory that nobody wrote: every byte that a thread reads was written before, by a thread that the kernel brings there.
//!
//! For each read, writers are found by numbers: the threads whose bytes cover those of the reader. That one of them wrote is then a question about
//! the reader alone, because the conditions of a writer are forms whose numbers are taken from the writer's thread. Order between the two is what
//! `races` decides.

use crate::contract::Contract;
use crate::filled;
use crate::finding::{counterexample, describe, reached, worse};
use crate::form::{Coef, Cond, Form, Sym};
use crate::local::{FAR, is_excluded};
use crate::machine::Machine;
use crate::query::{BUDGET, Decision, View, Views};
use crate::report::{Finding, Property, Verdict};
use crate::trace::{Access, Kind, Mark, Node, Trace, What};
use crate::world::Scope;
use ptx_core::hash::{Map, Set};
use ptx_core::ir::Space;
use ptx_target::sort::SortSmall;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most nodes whose order is computed.
const NODES: usize = 12_000;
/// The most threads that are tried as writers of one place by one store.
const WRITERS: usize = 4;
/// The most threads that are looked at as readers of a store.
const WORK: usize = 20_000_000;
/// The most places of one read that depends on values.
const PLACES: usize = 1 << 20;
/// The most bytes of a variable whose places are listed.
const BYTES: i128 = 1 << 18;

/// The order of accesses within a turn of every loop.
struct Order {
    /// By access: its node, and its place there.
    place: Vec<(usize, usize)>,
    /// By node: the nodes before it, as bits.
    before: Vec<Vec<u64>>,
}

impl Order {
    /// Nothing if there are too many nodes.
    fn new(trace: &Trace) -> Option<Order> {
        let count = trace.nodes.len();
        if count > NODES {
            return None;
        }
        let mut place = vec![(usize::MAX, 0); trace.accesses.len()];
        let mut before = vec![vec![0u64; count.div_ceil(64)]; count];
        for (at, node) in trace.nodes.iter().enumerate() {
            for (index, mark) in node.marks.iter().enumerate() {
                if let Mark::Access(access) = mark {
                    place[*access] = (at, index);
                }
            }
            // A node is made behind those that lead to it.
            let mut own = std::mem::take(&mut before[at]);
            own[at / 64] |= 1 << (at % 64);
            for (next, _) in node.next.iter().filter(|(next, back)| back.is_none() && *next > at) {
                before[*next].iter_mut().zip(&own).for_each(|(old, new)| *old |= new);
            }
            own[at / 64] &= !(1 << (at % 64));
            before[at] = own;
        }
        Some(Order { place, before })
    }

    /// Returns true if a thread that makes both accesses in one turn makes the first one first.
    fn precedes(&self, first: usize, second: usize) -> bool {
        let ((a, i), (b, j)) = (self.place[first], self.place[second]);
        if a == b { i < j } else { self.leads(a, b) }
    }

    /// Returns true if a node is before another one.
    fn leads(&self, node: usize, other: usize) -> bool {
        let word = self.before.get(other).and_then(|before| before.get(node / 64));
        word.is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    /// Returns true if a thread makes an access behind a loop, whose turns are over then.
    fn is_behind(&self, trace: &Trace, access: usize, own: usize) -> bool {
        let in_loop = |(_, node): &(usize, &Node)| node.turns.contains(&own);
        !trace.accesses[access].turns.contains(&own)
            && trace.nodes.iter().enumerate().filter(in_loop).any(|(at, _)| self.leads(at, self.place[access].0))
    }
}

/// The turn of a store that is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    /// The first one of the loops that are not around the reader.
    First,
    /// In such a loop, the one with this number: that of the reader's own turn.
    Own(Sym),
    /// The first one of the innermost loop around both.
    Earlier,
}

/// A store as one that a reader's question can use.
struct Writer {
    offset: Form,
    size: i128,
    /// The conditions under which a thread makes it.
    conds: Vec<Cond>,
    /// The threads that numbers allow, by the start of each piece of their bytes; nothing if the offset's symbols are not common.
    by_place: Option<Map<i128, Vec<usize>>>,
}

/// All accesses of shared memory.
struct Shared<'m> {
    machine: &'m Machine<'m>,
    order: Order,
    /// The stores of each variable.
    writes: Map<usize, Vec<usize>>,
    /// The bytes of a piece, by variable.
    piece: Map<usize, i128>,
    /// Stores as a reader sees them: by access and the loops that are not the reader's, with the turn that is taken.
    writers: Map<(usize, usize, Turn), Option<Rc<Writer>>>,
    /// Pairs of threads that may still be looked at.
    work: usize,
}

pub(crate) fn check(machine: &Machine<'_>, contract: &Contract) -> Vec<Finding> {
    let trace = &machine.trace;
    let is_shared = |access: &Access| {
        let base = &machine.bases[access.base];
        base.space == Space::Shared && base.what != What::Tensor
    };
    let mut found: BTreeMap<usize, Finding> = BTreeMap::new();
    let reads: Vec<usize> = (0..trace.accesses.len())
        .filter(|at| is_shared(&trace.accesses[*at]) && matches!(trace.accesses[*at].kind, Kind::Read | Kind::Atomic))
        .collect();
    if reads.is_empty() {
        return Vec::new();
    }
    let unknown = |at: usize, missing: &str| Finding {
        verdict: Verdict::Unknown(missing.to_owned()),
        ..describe(machine, contract, Property::Initialization, &trace.accesses[at])
    };
    let Some(order) = Order::new(trace) else {
        return reads
            .first()
            .map(|at| unknown(*at, "there are too many accesses to find what was written before"))
            .into_iter()
            .collect();
    };
    let mut shared =
        Shared { machine, order, writes: Map::default(), piece: Map::default(), writers: Map::default(), work: WORK };
    for (at, access) in trace.accesses.iter().enumerate().filter(|(_, access)| is_shared(access)) {
        let piece = shared.piece.entry(access.base).or_insert(16);
        *piece = piece_of(*piece, access);
        if access.kind == Kind::Write {
            shared.writes.entry(access.base).or_default().push(at);
        }
    }
    let mut done: Map<(usize, usize, Form, Cond, Cond), Vec<usize>> = Map::default();
    for at in reads {
        let access = &trace.accesses[at];
        let key = (access.inst, access.base, access.offset.clone(), access.path.cond(), access.guard.clone());
        // An equal read before this one found no more.
        let earlier = done.entry(key).or_default();
        if earlier.iter().any(|other| shared.order.precedes(*other, at)) {
            continue;
        }
        earlier.push(at);
        let verdict = shared.decide(at);
        let finding = Finding { verdict, ..describe(machine, contract, Property::Initialization, access) };
        match found.get_mut(&access.inst) {
            Some(old) => worse(old, finding),
            None => drop(found.insert(access.inst, finding)),
        }
    }
    found.into_values().collect()
}

/// The greatest piece that divides all bytes of an access.
fn piece_of(piece: i128, access: &Access) -> i128 {
    let size = i128::from(access.size.max(1));
    let fits = |piece: &i128| {
        size % piece == 0
            && access.offset.constant.all(|value| value % piece == 0)
            && access.offset.terms.iter().all(|(_, coef)| coef.all(|value| value % piece == 0))
    };
    [16, 8, 4, 2].into_iter().filter(|smaller| *smaller <= piece).find(fits).unwrap_or(1)
}

impl<'m> Shared<'m> {
    fn access(&self, at: usize) -> &'m Access {
        &self.machine.trace.accesses[at]
    }

    /// Decides that all bytes of a read were written.
    fn decide(&mut self, read: usize) -> Verdict {
        let access = self.access(read);
        let piece = self.piece.get(&access.base).copied().unwrap_or(1);
        let pieces = i128::from(access.size) / piece;
        let mut verdict = Verdict::Proved;
        for at in 0..pieces {
            match self.decide_piece(read, at * piece) {
                Verdict::Proved => {}
                refuted @ Verdict::Refuted(_) => return refuted,
                unknown => verdict = unknown,
            }
        }
        if verdict != Verdict::Proved && (self.holds_everywhere(read) || self.is_filled(read, piece)) {
            return Verdict::Proved;
        }
        verdict
    }

    /// Returns true if all threads together filled a range with all bytes of a read.
    fn is_filled(&self, read: usize, piece: i128) -> bool {
        let (trace, access) = (&self.machine.trace, self.access(read));
        let writes = self.writes.get(&access.base).into_iter().flatten().map(|write| self.access(*write));
        let is_earlier = |write: &&Access| matches!(write.turns[..], [own] if self.order.is_behind(trace, read, own));
        writes.filter(is_earlier).any(|write| filled::holds(self.machine, write, access, piece))
    }

    fn decide_piece(&mut self, read: usize, from: i128) -> Verdict {
        let Some(place) = self.access(read).offset.plus(from) else {
            return self.unknown("the numbers do not fit into 128 bits");
        };
        let mut verdict = Verdict::Proved;
        for (place, stage) in self.machine.world.by_remainder(&place) {
            match self.decide_place(read, &place, stage) {
                Verdict::Proved => {}
                refuted @ Verdict::Refuted(_) => return refuted,
                unknown => verdict = unknown,
            }
        }
        verdict
    }

    /// The same of a place that is read under a condition.
    fn decide_place(&mut self, read: usize, place: &Form, stage: Cond) -> Verdict {
        let machine = self.machine;
        let (world, access) = (&machine.world, self.access(read));
        let threads = world.threads;
        let mut open = allowed(&access.path.cond(), &access.guard, threads);
        let mut clauses: Vec<Cond> = Vec::new();
        let mut is_whole = true;
        // The last store is the likeliest to fill all.
        for write in self.writes.get(&access.base).cloned().unwrap_or_default().into_iter().rev() {
            if !open.contains(&true) {
                return Verdict::Proved;
            }
            if self.is_later(write, read) {
                continue;
            }
            let Some(work) = self.work.checked_sub(threads) else {
                return self.unknown("there are too many accesses to find what was written before");
            };
            self.work = work;
            let is_earlier = self.order.precedes(write, read);
            let mut is_used = false;
            for turn in self.turns(write, read) {
                let before = self.before(write, read, turn, is_earlier);
                let writer = before.is_some().then(|| self.writer(write, read, turn)).flatten();
                let (Some(before), Some(writer)) = (before, writer) else { continue };
                let (columns, all) = columns(&writer, place, &open, machine);
                // Several turns may write, of which these are two.
                is_used |= all && self.outer(write, read).is_empty() && !self.moves(write, read);
                for column in columns {
                    let cond = Cond::all([before.clone(), self.under(&writer, &column, read)]);
                    let own = column.iter().map(Option::is_some).collect::<Vec<_>>();
                    if cond == Cond::Const(true) {
                        open.iter_mut().zip(own).for_each(|(open, own)| *open &= !own);
                    } else {
                        clauses.push(Cond::any([Cond::table(own).negate(), cond.negate()]));
                    }
                }
            }
            is_whole &= is_used || !self.may_cover(write, place);
        }
        if !open.contains(&true) {
            return Verdict::Proved;
        }
        let mut conds = reached(machine, access);
        let goal = Cond::all([Cond::table(open.clone()), stage.clone()].into_iter().chain(clauses.iter().cloned()));
        if is_excluded(world, (&conds, &[]), &goal, FAR) {
            return Verdict::Proved;
        }
        conds.push(stage);
        conds.extend(clauses);
        let threads = Some((0..open.len()).filter(|thread| open[*thread]).collect());
        let view = View { own: Box::new(|_, _| false), shift: Map::default(), threads };
        let conds = conds.into_iter().map(|cond| (0, cond)).collect();
        match (Views { world, views: vec![view], conds, mixed: Vec::new(), compares: false }).decide(BUDGET) {
            Decision::Impossible => Verdict::Proved,
            Decision::Unknown => self.unknown("the conditions are too hard to decide in the budget of a proof"),
            Decision::Possible(_) if !is_whole => {
                self.unknown("that these bytes of shared memory were written before depends on more than is described")
            }
            Decision::Possible(model) if model.is_loose => {
                self.unknown("that these bytes of shared memory were written before depends on values that are not described, such as those from memory")
            }
            Decision::Possible(model) => match model.form(world, place, 0) {
                Some(offset) => {
                    let mut example = counterexample(machine, &model, offset);
                    // Kernels may read more than they use, such as padding.
                    example.is_certain &= access.size <= 8;
                    Verdict::Refuted(Box::new(example))
                }
                None => self.unknown("the numbers do not fit into 128 bits"),
            },
        }
    }

    fn unknown(&self, missing: &str) -> Verdict {
        Verdict::Unknown(missing.to_owned())
    }

    /// Returns true if a store comes behind a read in every turn.
    fn is_later(&self, write: usize, read: usize) -> bool {
        let (w, r) = (self.access(write), self.access(read));
        self.order.precedes(read, write) && !w.turns.iter().any(|own| r.turns.contains(own))
    }

    /// The loops around a store that are not around a read.
    fn outer(&self, write: usize, read: usize) -> &'m [usize] {
        let (w, r) = (self.access(write), self.access(read));
        let shared = w.turns.iter().zip(r.turns.iter()).take_while(|(a, b)| a == b).count();
        &w.turns[shared..]
    }

    /// The loops whose turn is chosen for a store.
    fn replaced(&self, write: usize, read: usize, turn: Turn) -> &'m [usize] {
        let (all, outer) = (&self.access(write).turns, self.outer(write, read).len());
        let first = all.len() - outer - usize::from(turn == Turn::Earlier && outer < all.len());
        &all[first..]
    }

    /// Returns true if the place of a store depends on the turn of a loop around it and a read.
    fn moves(&self, write: usize, read: usize) -> bool {
        let (access, outer) = (self.access(write), self.outer(write, read).len());
        let shared = access.turns.iter().rev().skip(outer).map(|own| self.machine.trace.loops[*own].first);
        shared.min().is_some_and(|first| access.offset.symbols().any(|symbol| symbol >= first))
    }

    /// The turns that are tried: the first one, the one with the number of the reader's own turn, and an earlier one of a loop around both.
    fn turns(&self, write: usize, read: usize) -> Vec<Turn> {
        let (outer, r) = (self.outer(write, read), self.access(read));
        let own = r.turns.last().map(|own| Turn::Own(self.machine.trace.loops[*own].turn));
        let mut found = vec![Turn::First];
        found.extend(own.filter(|_| outer.len() == 1));
        found.extend(self.moves(write, read).then_some(Turn::Earlier));
        found
    }

    /// The condition under which a store in such a turn comes before the read; nothing if it does not. `is_earlier`: it does in each turn.
    fn before(&self, write: usize, read: usize, turn: Turn, is_earlier: bool) -> Option<Cond> {
        if is_earlier {
            return Some(Cond::Const(true));
        }
        let loops = self.replaced(write, read, turn);
        let own = loops.first().filter(|own| turn == Turn::Earlier && self.access(read).turns.contains(own))?;
        // All threads have left the first turn, and the barriers in it.
        let own = self.machine.trace.loops.get(*own).filter(|own| own.together)?;
        Form::symbol(own.turn).plus(-1).map(Cond::at_least)
    }

    /// A store in a turn of the loops that are not the reader's.
    fn writer(&mut self, write: usize, read: usize, turn: Turn) -> Option<Rc<Writer>> {
        let outer = self.replaced(write, read, turn);
        let key = (write, outer.len(), turn);
        if let Some(found) = self.writers.get(&key) {
            return found.clone();
        }
        let found = self.made(write, outer, turn).map(Rc::new);
        self.writers.insert(key, found.clone());
        found
    }

    fn made(&self, write: usize, outer: &[usize], turn: Turn) -> Option<Writer> {
        let (machine, access) = (self.machine, self.access(write));
        let loops = &machine.trace.loops;
        let first = outer.first().map_or(Sym::MAX, |own| loops[*own].first);
        let value = match turn {
            Turn::Own(own) => Form::symbol(own),
            Turn::First | Turn::Earlier => Form::number(0),
        };
        let of_turn = |symbol: Sym| match outer.iter().any(|own| loops[*own].turn == symbol) {
            true => Some(value.clone()),
            // What a turn makes is known in that turn alone.
            false => (symbol < first).then(|| Form::symbol(symbol)),
        };
        let replaced = |symbol: Sym| of_turn(symbol).or_else(|| machine.world.remainder_at(symbol, &of_turn));
        let steps = access.path.steps().filter(|step| step.decides).map(|step| step.cond.clone());
        let mut conds: Vec<Cond> = steps.chain([access.guard.clone()]).collect();
        if matches!(turn, Turn::Own(_)) {
            // A turn is reached if every one before leads on, which is so where the condition holds for all smaller numbers.
            for own in outer {
                let enters = loops[*own].enters.clone()?;
                if !enters.falls(loops[*own].turn) {
                    return None;
                }
                conds.push(enters);
            }
        }
        let is_own = |symbol: Sym| {
            let is_turn = outer.iter().any(|own| loops[*own].turn == symbol);
            !is_turn && machine.world.symbol(symbol).scope > Scope::Block
        };
        let mut is_common = !access.offset.symbols().any(is_own);
        conds.iter().for_each(|cond| cond.forms(&mut |form| is_common &= !form.symbols().any(is_own)));
        let offset = access.offset.replaced(&replaced)?;
        let conds: Option<Vec<Cond>> = conds.iter().map(|cond| cond.replaced(&replaced)).collect();
        let conds: Vec<Cond> = conds?.into_iter().filter(|cond| *cond != Cond::Const(true)).collect();
        let size = i128::from(access.size);
        let is_even = offset.terms.iter().all(|(_, coef)| matches!(coef, Coef::One(_)));
        let by_place = (is_common && is_even).then(|| {
            let piece = self.piece.get(&access.base).copied().unwrap_or(1);
            let threads = allowed(&Cond::all(conds.iter().cloned()), &Cond::Const(true), machine.world.threads);
            let mut found: Map<i128, Vec<usize>> = Map::default();
            for thread in (0..threads.len()).filter(|thread| threads[*thread]) {
                let start = offset.constant.at(thread);
                for at in 0..size / piece {
                    let list = found.entry(start + at * piece).or_default();
                    if list.len() <= WRITERS {
                        list.push(thread);
                    }
                }
            }
            found
        });
        Some(Writer { offset, size, conds, by_place })
    }

    /// The condition under which the writers of a column write, where the reader comes.
    fn under(&self, writer: &Writer, column: &[Option<usize>], read: usize) -> Cond {
        let path: Set<Cond> = self.access(read).path.steps().map(|step| step.cond.clone()).collect();
        let world = &self.machine.world;
        let is_self = column.iter().enumerate().all(|(thread, writer)| writer.is_none_or(|writer| writer == thread));
        // What the reader fulfills on its way, a thread with the same conditions does too.
        let open = writer
            .conds
            .iter()
            .filter(|cond| !(path.contains(*cond) && (is_self || world.cond_scope(cond) <= Scope::Block)));
        let conds = open.map(|cond| cond.taken(column));
        let all = Cond::all(conds);
        // Numbers were compared for the writers already.
        match &all {
            Cond::Table(table) if table.iter().zip(column).all(|(holds, writer)| *holds || writer.is_none()) => {
                Cond::Const(true)
            }
            _ => world.simplify(all),
        }
    }

    /// Returns true if a store may write a byte of a piece, by ranges.
    fn may_cover(&self, write: usize, place: &Form) -> bool {
        let world = &self.machine.world;
        let access = self.access(write);
        let piece = self.piece.get(&access.base).copied().unwrap_or(1);
        match (world.range(&access.offset), world.range(place)) {
            (Some((low, high)), Some((least, most))) => low < most + piece && least < high + i128::from(access.size),
            _ => true,
        }
    }

    /// Returns true if all bytes that a read may touch, whatever the values of its symbols are, were written whatever these are.
    fn holds_everywhere(&mut self, read: usize) -> bool {
        let machine = self.machine;
        let access = self.access(read);
        let piece = self.piece.get(&access.base).copied().unwrap_or(1);
        let Some(len) = machine.bases[access.base].len.known().filter(|len| *len <= BYTES) else { return false };
        let mut written = vec![false; (len / piece) as usize + 1];
        for write in self.writes.get(&access.base).cloned().unwrap_or_default() {
            if !self.order.precedes(write, read) {
                continue;
            }
            let Some(writer) = self.writer(write, read, Turn::First) else { continue };
            let (Some(by_place), true) = (&writer.by_place, writer.offset.terms.is_empty()) else { continue };
            let path: Set<Cond> = access.path.steps().map(|step| step.cond.clone()).collect();
            let is_sure = writer.conds.iter().all(|cond| {
                matches!(cond, Cond::Table(_)) || path.contains(cond) && machine.world.cond_scope(cond) <= Scope::Block
            });
            if !is_sure {
                continue;
            }
            for place in by_place.keys() {
                if let Some(written) = usize::try_from(place / piece).ok().and_then(|at| written.get_mut(at)) {
                    *written = true;
                }
            }
        }
        let Some(places) = self.places(access, len) else { return false };
        places.into_iter().all(|place| {
            (0..i128::from(access.size))
                .step_by(piece as usize)
                .all(|at| usize::try_from((place + at) / piece).ok().and_then(|at| written.get(at)) == Some(&true))
        })
    }

    /// Every offset of a read, inside of its variable; nothing if there are too many.
    fn places(&self, access: &Access, len: i128) -> Option<Vec<i128>> {
        let world = &self.machine.world;
        let size = i128::from(access.size);
        let whole = || -> Option<Vec<i128>> {
            let (least, most) = world.range(&access.offset).unwrap_or((0, len));
            let step = self.piece.get(&access.base).copied().unwrap_or(1).max(1);
            let (least, most) = (least.max(0).div_euclid(step) * step, most.min(len - size));
            Some((least..=most).step_by(step as usize).collect())
        };
        let mut found: Vec<i128> = match &access.offset.constant {
            Coef::One(value) => vec![*value],
            Coef::Each(values) => {
                let comes = allowed(&access.path.cond(), &access.guard, world.threads);
                values.iter().zip(comes).filter(|(_, comes)| *comes).map(|(value, _)| *value).collect()
            }
        };
        for (mono, coef) in &access.offset.terms {
            let (Coef::One(factor), [symbol]) = (coef, mono.as_slice()) else { return whole() };
            let known = world.symbol(*symbol);
            let count = known.most.saturating_sub(known.least).saturating_add(1);
            if count.saturating_mul(found.len() as i128) > PLACES as i128 {
                return whole();
            }
            let values = known.least..=known.most;
            found = found.iter().flat_map(|place| values.clone().map(move |value| place + factor * value)).collect();
            found.sort_small();
            found.dedup();
        }
        // Those outside are the bounds' matter.
        found.retain(|place| *place >= 0 && place + size <= len);
        Some(found)
    }
}

/// The threads that the tables of conditions allow.
fn allowed(path: &Cond, guard: &Cond, threads: usize) -> Vec<bool> {
    let mut found = vec![true; threads];
    path.keep(&mut found);
    guard.keep(&mut found);
    found
}

/// For each reader that is open a writer that covers the piece, in several columns; and true if no writer is left out.
fn columns(writer: &Writer, place: &Form, open: &[bool], machine: &Machine<'_>) -> (Vec<Vec<Option<usize>>>, bool) {
    let Some(distance) = place.sub(&writer.offset) else { return (Vec::new(), false) };
    let mut found = Vec::new();
    if let (Some(by_place), true) = (&writer.by_place, place.terms == writer.offset.terms) {
        let mut all = true;
        for rank in 0..WRITERS {
            let column: Vec<Option<usize>> = (0..open.len())
                .map(|thread| {
                    let list = open[thread].then(|| by_place.get(&place.constant.at(thread))).flatten()?;
                    all &= list.len() <= WRITERS;
                    list.get(rank).copied()
                })
                .collect();
            if column.iter().any(Option::is_some) {
                found.push(column);
            }
        }
        return (found, all);
    }
    // A thread that reads what it wrote itself.
    if let Some(distance) = distance.constant() {
        let own = |thread: usize| (0..writer.size).contains(&distance.at(thread)) && open[thread];
        let column: Vec<Option<usize>> =
            (0..machine.world.threads).map(|thread| own(thread).then_some(thread)).collect();
        if column.iter().any(Option::is_some) {
            found.push(column);
        }
    }
    (found, false)
}
