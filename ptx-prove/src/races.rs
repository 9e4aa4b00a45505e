//! Races: two threads, the same bytes, one of them writes, and nothing orders them.
//!
//! Within a block, accesses that one can come to from the same barrier without passing another may happen at once, the start of the entry and the
//! turns of loops included. Between blocks, all accesses of global memory may.

use crate::contract::Contract;
use crate::copies;
use crate::finding::{counterexample, describe, worse};
use crate::form::{Coef, Cond, Form, Sym};
use crate::machine::Machine;
use crate::near::of_forms;
use crate::overlap;
use crate::query::{BUDGET, Decision, View, Views};
use crate::report::{Finding, Property, Verdict};
use crate::rows::{self, Clause, differ, difference};
use crate::trace::{Access, Kind, Mark, Node, Span, What};
use crate::world::{Meaning, Scope, Symbol};
use ptx_core::hash::{Map, Set};
use ptx_core::ir::Space;
use std::collections::BTreeMap;

/// The turns of two accesses in the loops around both.
type Turns = Vec<(usize, Option<i128>)>;

/// Threads that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    /// Of one warp.
    Warp,
    /// Of two warps of a block.
    Warps,
    /// Of one block.
    Block,
    /// Of two blocks.
    Blocks,
}

/// Two accesses that may happen at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pair {
    first: usize,
    second: usize,
    which: Which,
    /// Where parts of the block have barriers: both are of this one, or not both of any.
    group: Option<Option<usize>>,
    turns: Turns,
    /// Of loops that a thread enters between the barrier and its access: the number of the turn, by view.
    entered: Vec<(usize, usize, i128)>,
    /// Holds for the first thread, which ends without a barrier that the second one passes.
    ended: Option<Cond>,
}

/// The most pairs of threads whose numbers are compared one by one.
const EXACT: usize = 64;
/// The most pairs of accesses.
const PAIRS: usize = 20_000;

pub(crate) fn check(machine: &Machine<'_>, contract: &Contract, are_together: bool) -> Vec<Finding> {
    let trace = &machine.trace;
    let is_common = |access: &Access| matches!(machine.bases[access.base].space, Space::Global | Space::Shared);
    let mut found: BTreeMap<usize, Finding> = BTreeMap::new();
    for access in trace.accesses.iter().filter(|access| is_common(access)) {
        found.entry(access.inst).or_insert_with(|| describe(machine, contract, Property::Races, access));
    }
    let (pairs, is_whole) = pairs(machine);
    let mut decided: Set<(usize, usize)> = Set::default();
    for pair in pairs {
        let (a, b) = (&trace.accesses[pair.first], &trace.accesses[pair.second]);
        let insts = (a.inst.min(b.inst), a.inst.max(b.inst));
        if decided.contains(&insts) {
            continue;
        }
        let verdict = decide(machine, &pair);
        if matches!(verdict, Verdict::Refuted(_)) {
            decided.insert(insts);
        }
        let other = machine.function.insts.get(b.inst).map(|inst| inst.span);
        let finding = Finding { verdict, other, ..describe(machine, contract, Property::Races, a) };
        if let Some(old) = found.get_mut(&a.inst) {
            worse(old, finding);
        }
    }
    let missing = if !is_whole {
        Some("there are too many pairs of accesses")
    } else if !are_together {
        Some("barriers order threads only if all come to them, which is not proved")
    } else if copies::disorder(machine).is_some() {
        Some(
            "asynchronous copies go on while their thread passes a barrier or accesses shared memory, which is not described: wait for them first",
        )
    } else {
        None
    };
    if contract.overlaps && overlap::waits(machine) {
        overlap::check(machine, &mut found);
    }
    let mut found: Vec<Finding> = found.into_values().collect();
    for finding in found.iter_mut().filter(|finding| finding.verdict == Verdict::Proved) {
        if let Some(missing) = missing {
            finding.verdict = Verdict::Unknown(missing.to_owned());
        }
    }
    found
}

/// All pairs of accesses that may happen at once, of which one writes; false if there are too many.
fn pairs(machine: &Machine<'_>) -> (Vec<Pair>, bool) {
    let trace = &machine.trace;
    let mut found: Set<Pair> = Set::default();
    let mut order = Vec::new();
    let mut add = |pair: Pair| {
        if found.len() < PAIRS && found.insert(pair.clone()) {
            order.push(pair);
        }
        found.len() < PAIRS
    };
    let mut is_whole = true;
    let has_warps = trace.barriers.iter().any(|barrier| barrier.span == Span::Warp);
    let passes: &[(bool, Which)] =
        if has_warps { &[(false, Which::Warps), (true, Which::Warp)] } else { &[(false, Which::Block)] };
    let groups = (0..trace.groups.len()).map(Some).chain([None]);
    let groups: Vec<Option<Option<usize>>> =
        if trace.groups.is_empty() { vec![None] } else { groups.map(Some).collect() };
    for ((stops_at_warps, which), group) in
        passes.iter().flat_map(|pass| groups.iter().map(move |group| (pass, *group)))
    {
        for (start, at_once) in intervals(machine, *stops_at_warps, group.flatten()) {
            for (i, (first, a)) in at_once.iter().enumerate() {
                for (second, b) in &at_once[i..] {
                    if conflict(machine, *first, *second, false) {
                        let turns = relation(a, b);
                        let both = [(0, *first, a), (1, *second, b)];
                        let entered: Vec<_> = both
                            .iter()
                            .flat_map(|(view, at, crossed)| entered(machine, start, (*view, *at), crossed))
                            .collect();
                        // Two lanes that store the same together do not race.
                        let is_store = first == second && trace.accesses[*first].kind == Kind::Write;
                        let is_of_warp = [first, second].iter().any(|at| trace.accesses[**at].of_warp);
                        let parts: &[Which] = match which {
                            Which::Block if is_of_warp => &[Which::Warps],
                            Which::Warp if is_of_warp => &[],
                            Which::Block if is_store => &[Which::Warps, Which::Warp],
                            which => std::slice::from_ref(which),
                        };
                        for which in parts {
                            let (first, second, turns, entered) = (*first, *second, turns.clone(), entered.clone());
                            is_whole &= add(Pair { first, second, which: *which, group, turns, entered, ended: None });
                        }
                    }
                }
            }
        }
    }
    for pair in ended(machine) {
        is_whole &= add(pair);
    }
    let accesses: Vec<usize> = distinct(machine);
    for (i, first) in accesses.iter().enumerate() {
        for second in &accesses[i..] {
            if conflict(machine, *first, *second, true) {
                let (first, second, turns) = (*first, *second, Vec::new());
                is_whole &= add(Pair {
                    first,
                    second,
                    which: Which::Blocks,
                    group: None,
                    turns,
                    entered: Vec::new(),
                    ended: None,
                });
            }
        }
    }
    (order, is_whole)
}

/// Pairs of an access of a thread that ends before a barrier, and one behind that barrier: nothing orders them.
fn ended(machine: &Machine<'_>) -> Vec<Pair> {
    let trace = &machine.trace;
    let mut found = Vec::new();
    let mut seen: Set<(Cond, usize)> = Set::default();
    let last = last_ones(machine);
    for (node, at) in trace.nodes.iter().enumerate() {
        for (place, mark) in at.marks.iter().enumerate() {
            let Mark::Barrier(barrier) = mark else { continue };
            let barrier = &trace.barriers[*barrier];
            let leaves = barrier.path.steps().filter(|step| step.decides && step.excused);
            let leaves = leaves.map(|step| &step.cond).filter(|cond| machine.world.cond_scope(cond) == Scope::Thread);
            for cond in leaves {
                let behind = follow(machine, (node, place + 1), &|_| false);
                for second in behind.iter().map(|(access, _)| *access) {
                    if !seen.insert((cond.clone(), second)) {
                        continue;
                    }
                    for first in last.iter().copied().filter(|first| conflict(machine, *first, second, false)) {
                        let turns = (0..trace.loops.len()).map(|own| (own, None)).collect();
                        let ended = Some(cond.negate());
                        let is_of_warp = [first, second].iter().any(|at| trace.accesses[*at].of_warp);
                        found.push(Pair {
                            first,
                            second,
                            which: if is_of_warp { Which::Warps } else { Which::Block },
                            group: None,
                            turns,
                            entered: Vec::new(),
                            ended,
                        });
                    }
                }
            }
        }
    }
    found
}

/// Accesses behind which a thread can end without a barrier.
fn last_ones(machine: &Machine<'_>) -> Vec<usize> {
    let trace = &machine.trace;
    let is_barrier = |mark: &Mark| matches!(mark, Mark::Barrier(at) if trace.barriers[*at].span == Span::Block);
    // Nodes from whose start the end can be reached, found backwards. A node may be left where a guarded instruction ends threads.
    let mut ends = vec![true; trace.nodes.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (at, node) in trace.nodes.iter().enumerate() {
            let free = !node.marks.iter().any(is_barrier);
            let can = free && (node.next.iter().any(|(next, _)| ends[*next]) || leaves(node));
            if ends[at] != can {
                // Only from true to false.
                changed |= ends[at];
                ends[at] &= can;
            }
        }
    }
    let mut found = Vec::new();
    for node in &trace.nodes {
        let mut can = leaves(node) || node.next.iter().any(|(next, _)| ends[*next]);
        for mark in node.marks.iter().rev() {
            match mark {
                Mark::Access(access) if can => found.push(*access),
                Mark::Access(_) => {}
                Mark::Barrier(at) => can &= trace.barriers[*at].span != Span::Block,
                Mark::Copy(_) | Mark::Waits | Mark::Tensor(_) | Mark::Map(_) => {}
            }
        }
    }
    found
}

/// Returns true if threads may end in a node.
fn leaves(node: &Node) -> bool {
    node.may_end || node.next.is_empty()
}

/// One of the accesses of global memory that are equal in all respects.
fn distinct(machine: &Machine<'_>) -> Vec<usize> {
    let mut seen: Set<(usize, usize, Form, Cond, Cond)> = Set::default();
    let accesses = machine.trace.accesses.iter().enumerate();
    let global = accesses.filter(|(_, access)| machine.bases[access.base].space == Space::Global);
    let new = global.filter(|(_, access)| {
        seen.insert((access.inst, access.base, access.offset.clone(), access.path.cond(), access.guard.clone()))
    });
    new.map(|(at, _)| at).collect()
}

/// Returns true if two accesses can race at all.
fn conflict(machine: &Machine<'_>, first: usize, second: usize, blocks: bool) -> bool {
    let (a, b) = (&machine.trace.accesses[first], &machine.trace.accesses[second]);
    let space = machine.bases[a.base].space;
    let is_common = space == Space::Global || space == Space::Shared && !blocks;
    if [a.kind, b.kind].iter().any(|kind| matches!(kind, Kind::Fetch | Kind::Take | Kind::Signal)) {
        return false;
    }
    let writes = a.kind != Kind::Read || b.kind != Kind::Read;
    // Stores that communicate without atomics leave open which value is read.
    let is_atomic = a.kind == Kind::Atomic || b.kind == Kind::Atomic;
    let are_strong = is_atomic && a.strong && b.strong && !(blocks && (a.narrow || b.narrow));
    a.base == b.base && is_common && writes && !are_strong
}

/// Crossings of the jumps back of loops: how often, or unknown.
type Crossings = BTreeMap<usize, Option<i128>>;

/// For each barrier, and for the start, the accesses that follow it before another one.
fn intervals(
    machine: &Machine<'_>,
    stops_at_warps: bool,
    group: Option<usize>,
) -> Vec<(usize, Vec<(usize, Crossings)>)> {
    let trace = &machine.trace;
    let stops = |barrier: usize| match trace.barriers[barrier].span {
        Span::Block => true,
        Span::Warp => stops_at_warps,
        // A thread of a group comes to the barriers of no other group.
        Span::Group(_) => group.is_some(),
    };
    let mut starts = vec![(0, 0)];
    for (at, node) in trace.nodes.iter().enumerate() {
        for (place, mark) in node.marks.iter().enumerate() {
            if let Mark::Barrier(barrier) = mark
                && stops(*barrier)
            {
                starts.push((at, place + 1));
            }
        }
    }
    let starts = starts.into_iter().filter(|_| !trace.nodes.is_empty());
    starts.map(|start| (start.0, follow(machine, start, &stops))).collect()
}

fn follow(machine: &Machine<'_>, start: (usize, usize), stops: &dyn Fn(usize) -> bool) -> Vec<(usize, Crossings)> {
    let trace = &machine.trace;
    let mut found: Set<(usize, Crossings)> = Set::default();
    let mut seen: Set<(usize, usize, Crossings)> = Set::default();
    let mut pending = vec![(start.0, start.1, Crossings::new())];
    let mut order = Vec::new();
    'next: while let Some((node, from, crossed)) = pending.pop() {
        if !seen.insert((node, from, crossed.clone())) {
            continue;
        }
        for mark in trace.nodes[node].marks.iter().skip(from) {
            match mark {
                Mark::Barrier(barrier) if stops(*barrier) => continue 'next,
                Mark::Barrier(_) | Mark::Copy(_) | Mark::Waits | Mark::Tensor(_) | Mark::Map(_) => {}
                Mark::Access(access) => {
                    if found.insert((*access, crossed.clone())) {
                        order.push((*access, crossed.clone()));
                    }
                }
            }
        }
        for (next, back) in &trace.nodes[node].next {
            let mut crossed = crossed.clone();
            if let Some(own) = back
                && trace.loops[*own].together
            {
                let count = crossed.entry(*own).or_insert(Some(0));
                *count = count.and_then(|count| if count < 1 { Some(count + 1) } else { None });
                // Loops inside of it begin again.
                crossed.extend((own + 1..trace.loops.len()).map(|inner| (inner, None)));
            }
            pending.push((*next, 0, crossed));
        }
    }
    order
}

/// The turns of loops around an access that are not around the place where its thread comes from: it takes every jump back since it entered them.
fn entered<'a>(
    machine: &'a Machine<'_>,
    start: usize,
    (view, at): (usize, usize),
    crossed: &'a Crossings,
) -> impl Iterator<Item = (usize, usize, i128)> + 'a {
    let trace = &machine.trace;
    let around = &trace.nodes[start].turns;
    let own = trace.accesses[at].turns.iter().copied();
    let own = own.filter(move |own| !around.contains(own) && trace.loops[*own].together);
    own.filter_map(move |own| Some((view, own, crossed.get(&own).copied().unwrap_or(Some(0))?)))
}

/// The turns of the second access relative to those of the first.
fn relation(a: &Crossings, b: &Crossings) -> Turns {
    let loops: std::collections::BTreeSet<usize> = a.keys().chain(b.keys()).copied().collect();
    let of = |crossed: &Crossings, own: usize| crossed.get(&own).copied().unwrap_or(Some(0));
    let relative = |own: usize| Some(of(b, own)? - of(a, own)?);
    loops.into_iter().map(|own| (own, relative(own))).filter(|(_, turns)| *turns != Some(0)).collect()
}

/// Decides whether two threads can make two accesses at once.
fn decide(machine: &Machine<'_>, pair: &Pair) -> Verdict {
    let (a, b) = (&machine.trace.accesses[pair.first], &machine.trace.accesses[pair.second]);
    let mut restricted = vec![None];
    if let Some(overlaps) = overlaps(machine, pair, a, b) {
        if overlaps.is_empty() {
            return Verdict::Proved;
        }
        if overlaps.len() < EXACT {
            restricted = overlaps.into_iter().map(Some).collect();
        }
    }
    let mut verdict = Verdict::Proved;
    for threads in restricted {
        match ask(machine, pair, threads) {
            Verdict::Proved => {}
            Verdict::Unknown(missing) => verdict = Verdict::Unknown(missing),
            refuted => return refuted,
        }
    }
    verdict
}

/// Returns true if a symbol of the second thread is another one than that of the first.
fn is_own(machine: &Machine<'_>, pair: &Pair, symbol: Sym, known: &Symbol) -> bool {
    if known.scope == Scope::Thread {
        return true;
    }
    if known.scope == Scope::Grid {
        return false;
    }
    if pair.which == Which::Blocks {
        return true;
    }
    pair.turns.iter().any(|(own, turns)| {
        let own = &machine.trace.loops[*own];
        if symbol == own.turn { turns.is_none() } else { symbol >= own.first && !is_turn(known) }
    })
}

fn is_turn(symbol: &Symbol) -> bool {
    symbol.meaning == Meaning::Turn
}

/// The pairs of threads whose bytes overlap, if the offsets differ by numbers alone.
fn overlaps(machine: &Machine<'_>, pair: &Pair, a: &Access, b: &Access) -> Option<Vec<(usize, usize)>> {
    let world = &machine.world;
    let is_same = pair.ended.is_none()
        && a.offset.terms == b.offset.terms
        && pair.turns.is_empty()
        && pair.which != Which::Blocks;
    let plain = Form { terms: a.offset.terms.clone(), constant: Coef::One(0) };
    let is_shared = !plain.symbols().any(|symbol| is_own(machine, pair, symbol, world.symbol(symbol)));
    if !is_same || !plain.is_even() || !is_shared {
        return None;
    }
    let allowed = |access: &Access| -> Vec<(i128, usize)> {
        let table = Cond::all([access.path.cond(), access.guard.clone()]);
        let known = tables(&table, world.threads);
        let mut list: Vec<_> = (0..world.threads)
            .filter(|t| known[*t])
            .map(|thread| (access.offset.constant.at(thread), thread))
            .collect();
        list.sort_unstable();
        list
    };
    let (left, right) = (allowed(a), allowed(b));
    let (sizes, mut start, mut found) = ((i128::from(a.size), i128::from(b.size)), 0, Vec::new());
    for (at, thread) in left {
        while start < right.len() && right[start].0 + sizes.1 <= at {
            start += 1;
        }
        for (_, other) in right[start..].iter().take_while(|(place, _)| *place < at + sizes.0) {
            let fits = is_of(machine, pair, thread, *other)
                && match pair.which {
                    Which::Warp => thread / 32 == other / 32,
                    Which::Warps => thread / 32 != other / 32,
                    _ => true,
                };
            if thread != *other && fits {
                found.push((thread, *other));
            }
            if found.len() > EXACT {
                return Some(found);
            }
        }
    }
    Some(found)
}

/// Returns true if two threads are those of the groups that a pair is about.
fn is_of(machine: &Machine<'_>, pair: &Pair, first: usize, second: usize) -> bool {
    let both = |group: &crate::trace::Group| group.threads[first] && group.threads[second];
    match pair.group {
        None => true,
        Some(Some(own)) => both(&machine.trace.groups[own]),
        Some(None) => !machine.trace.groups.iter().any(both),
    }
}

/// The threads that the tables of a condition allow.
fn tables(cond: &Cond, threads: usize) -> Vec<bool> {
    match cond {
        Cond::Const(value) => vec![*value; threads],
        Cond::Table(table) => table.to_vec(),
        Cond::All(parts) => parts.iter().fold(vec![true; threads], |all, part| {
            all.iter().zip(tables(part, threads)).map(|(a, b)| *a && b).collect()
        }),
        _ => vec![true; threads],
    }
}

/// Returns true if threads may be ordered by atomics and fences.
pub(crate) fn communicates(machine: &Machine<'_>) -> bool {
    let trace = &machine.trace;
    trace.has_other_order || trace.accesses.iter().any(|access| access.strong && access.kind == Kind::Atomic)
}

/// Two threads with conditions under which they access the same bytes.
struct Question<'m> {
    machine: &'m Machine<'m>,
    pair: &'m Pair,
    /// The threads, if not all.
    threads: Option<(usize, usize)>,
    /// Conditions, each of a thread.
    conds: Vec<(usize, Cond)>,
    /// Conditions of both.
    mixed: Vec<Clause>,
    /// True if the threads may store the same value.
    may_be_same: bool,
}

impl<'m> Question<'m> {
    fn new(machine: &'m Machine<'m>, pair: &'m Pair, threads: Option<(usize, usize)>) -> Question<'m> {
        let (a, b) = accesses(machine, pair);
        let mut conds: Vec<(usize, Cond)> = Vec::new();
        conds.extend([(0, a.path.cond()), (0, a.guard.clone()), (1, b.path.cond()), (1, b.guard.clone())]);
        conds.extend(pair.ended.iter().map(|cond| (0, cond.clone())));
        for (view, own, turn) in &pair.entered {
            let same = Cond::equal(&Form::symbol(machine.trace.loops[*own].turn), &Form::number(*turn));
            conds.extend(same.map(|same| (*view, same)));
        }
        let mixed = vec![
            vec![vec![difference((0, &a.offset), (1, &b.offset), i128::from(a.size) - 1)]],
            vec![vec![difference((1, &b.offset), (0, &a.offset), i128::from(b.size) - 1)]],
        ];
        let mut question = Question { machine, pair, threads, conds, mixed, may_be_same: false };
        question.are_others();
        question.are_of_groups();
        let world = &machine.world;
        let is_stride = |symbol: Sym| {
            let known = world.symbol(symbol);
            known.least >= 0 && known.scope == Scope::Grid && !is_own(machine, pair, symbol, known)
        };
        question.mixed.extend(rows::clauses(&a.offset, &b.offset, &is_stride));
        question.store_others();
        question
    }

    /// The threads are two, of one block or of two.
    fn are_others(&mut self) {
        let (machine, pair) = (self.machine, self.pair);
        let form = |number: &dyn Fn(i128) -> i128| {
            Form::table((0..machine.world.threads).map(|thread| number(thread as i128)).collect())
        };
        let (own, warp) = (form(&|thread| thread), form(&|thread| thread / 32));
        // Equal accesses are a question of order alone.
        let order = |form: &Form| {
            if pair.first == pair.second && pair.turns.is_empty() && pair.ended.is_none() {
                differ(form, form).split_off(1)
            } else {
                differ(form, form)
            }
        };
        match pair.which {
            Which::Blocks => self.mixed.push(machine.launch.block.iter().flat_map(order).collect()),
            Which::Block => self.mixed.push(order(&own)),
            Which::Warps => self.mixed.push(order(&warp)),
            Which::Warp => {
                self.mixed.push(order(&own));
                self.mixed.push(vec![vec![difference((0, &warp), (1, &warp), 0)]]);
                self.mixed.push(vec![vec![difference((1, &warp), (0, &warp), 0)]]);
            }
        }
    }

    /// The threads are those of the groups that the pair is about.
    fn are_of_groups(&mut self) {
        let groups = &self.machine.trace.groups;
        match self.pair.group {
            None => {}
            Some(Some(own)) => {
                let threads = Cond::table(groups[own].threads.to_vec());
                self.conds.extend([(0, threads.clone()), (1, threads)]);
            }
            Some(None) => {
                // A thread of no group is one of its own.
                let of = |thread: usize| groups.iter().position(|group| group.threads[thread]);
                let number = |thread: usize| of(thread).map_or(-1 - thread as i128, |own| own as i128);
                let form = Form::table((0..self.machine.world.threads).map(number).collect());
                self.mixed.push(differ(&form, &form));
            }
        }
    }

    /// Lanes of one instruction that write the same value to the same place are no race.
    fn store_others(&mut self) {
        let (a, _) = accesses(self.machine, self.pair);
        if self.pair.first != self.pair.second || self.pair.which != Which::Warp || a.kind != Kind::Write {
            return;
        }
        match &a.value {
            Some(value) => self.mixed.push([differ(&a.offset, &a.offset), differ(value, value)].concat()),
            None => self.may_be_same = true,
        }
    }

    /// Decides it: at first without the facts of the launch about lengths and addresses, which are many and rarely matter.
    fn decide(&self) -> Decision {
        let (a, b) = accesses(self.machine, self.pair);
        let facts = &self.machine.launch.facts;
        let few = of_forms(&self.machine.world, &self.conds, facts, [&a.offset, &b.offset]);
        if few.len() < self.conds.len() + facts.len() && self.with(few, BUDGET / 2).is_impossible() {
            return Decision::Impossible;
        }
        let all = facts.iter().map(|fact| (0, fact.clone()));
        self.with(self.conds.iter().cloned().chain(all).collect(), BUDGET)
    }

    /// Decides it under conditions.
    fn with(&self, conds: Vec<(usize, Cond)>, budget: u32) -> Decision {
        let (machine, pair) = (self.machine, self.pair);
        let restricted = |view: usize| self.threads.map(|(first, second)| vec![if view == 0 { first } else { second }]);
        let shift = |(own, turns): &(usize, Option<i128>)| Some((machine.trace.loops[*own].turn, (*turns)?));
        let shift: Map<Sym, i128> = pair.turns.iter().filter_map(shift).collect();
        let first = View { own: Box::new(|_, _| false), shift: Map::default(), threads: restricted(0) };
        let own = Box::new(|symbol, known: &Symbol| is_own(machine, pair, symbol, known));
        let second = View { own, shift, threads: restricted(1) };
        let (world, mixed) = (&machine.world, self.mixed.clone());
        Views { world, views: vec![first, second], conds, mixed }.decide(budget)
    }
}

fn accesses<'m>(machine: &'m Machine<'_>, pair: &Pair) -> (&'m Access, &'m Access) {
    (&machine.trace.accesses[pair.first], &machine.trace.accesses[pair.second])
}

/// Asks for two threads, or for all.
fn ask(machine: &Machine<'_>, pair: &Pair, threads: Option<(usize, usize)>) -> Verdict {
    let (a, b) = accesses(machine, pair);
    let question = Question::new(machine, pair, threads);
    match question.decide() {
        Decision::Impossible => Verdict::Proved,
        Decision::Unknown => {
            Verdict::Unknown("the conditions are too hard to decide in the budget of a proof".to_owned())
        }
        Decision::Possible(model) => {
            let reasons = [
                (
                    model.is_loose,
                    "the places or conditions depend on values that are not described, such as those from memory",
                ),
                (
                    machine.bases[a.base].what == What::Tensor,
                    "warps may use the same lanes of tensor memory, whose columns are not described",
                ),
                (a.strong && b.strong, "volatile and relaxed accesses may communicate, which is not described"),
                (question.may_be_same, "lanes of a warp store to one place, and may store the same value"),
                (communicates(machine), "threads may be ordered by atomics and fences, which are not described"),
            ];
            if let Some((_, missing)) = reasons.into_iter().find(|(is_open, _)| *is_open) {
                return Verdict::Unknown(missing.to_owned());
            }
            match model.form(&machine.world, &a.offset, 0) {
                Some(offset) => Verdict::Refuted(Box::new(counterexample(machine, &model, offset))),
                None => Verdict::Unknown("the numbers do not fit into 128 bits".to_owned()),
            }
        }
    }
}
