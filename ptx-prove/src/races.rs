//! Races: two threads, the same bytes, one of them writes, and nothing orders them.
//!
//! Within a block, accesses that one can come to from the same barrier without passing another may happen at once, the start of the entry and the
//! turns of loops included. Between blocks, all accesses of global memory may.

mod factors;
mod incoherent;
pub(crate) mod stores;

use crate::contract::Contract;
use crate::copies::{Flight, Flights};
use crate::distinct::{self, Case};
use crate::finding::{counterexample, describe, reached, worse};
use crate::form::{Coef, Cond, Form, Sym};
use crate::grids::{Digit, Grids};
use crate::local::{FAR, is_excluded};
use crate::machine::Machine;
use crate::near::{has_conjunctions, of_forms};
use crate::offsets;
use crate::overlap;
use crate::pipeline::Pipeline;
use crate::query::{BUDGET, Clause, Decision, View, Views, differ, difference};
use crate::rendezvous;
use crate::report::{Finding, Property, Verdict};
use crate::rows;
use crate::settled::settled_in_both;
use crate::solver::gcd;
use crate::tickets::Tickets;
use crate::trace::{Access, Crossings, Kind, Mark, Node, Span, What};
use crate::world::{Meaning, Scope, Symbol, World};
use ptx_core::hash::{Map, Set};
use ptx_core::ir::Space;
use ptx_target::sort::SortSmall;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The turns of two accesses in the loops around both.
type Turns = Vec<(usize, Option<i128>)>;

/// Threads that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    /// One thread, and a copy of its own.
    Thread,
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

impl Pair {
    /// Two accesses by threads of two blocks.
    fn of_blocks(first: usize, second: usize) -> Pair {
        let which = Which::Blocks;
        Pair { first, second, which, group: None, turns: Vec::new(), entered: Vec::new(), ended: None }
    }
}

/// The most pairs of threads whose numbers are compared one by one.
const EXACT: usize = 64;
/// The most pairs of accesses.
const PAIRS: usize = 20_000;
/// The work for two places by an order of their strides.
const ORDER: u32 = 16 * BUDGET;
/// The work for two places to which elements of buffers lead: few accesses have such, and many steps.
const ELEMENTS: u32 = 4 * BUDGET;

pub(crate) fn check(
    machine: &Machine<'_>,
    contract: &Contract,
    are_together: bool,
    pipeline: Option<&Pipeline>,
) -> Vec<Finding> {
    let trace = &machine.trace;
    let is_common = |access: &Access| matches!(machine.bases[access.base].space, Space::Global | Space::Shared);
    let mut found: BTreeMap<usize, Finding> = BTreeMap::new();
    for access in trace.accesses.iter().filter(|access| is_common(access)) {
        found.entry(access.inst).or_insert_with(|| describe(machine, contract, Property::Races, access));
    }
    let flights = Flights::new(machine);
    let (pairs, is_whole) = pairs(machine, &flights);
    let grids = Grids::new(machine);
    let others = [Tickets::new(machine).differ, offsets::clauses(machine, contract)].concat();
    let mut decided: Set<(usize, usize)> = Set::default();
    for pair in pairs {
        let (a, b) = (&trace.accesses[pair.first], &trace.accesses[pair.second]);
        let insts = (a.inst.min(b.inst), a.inst.max(b.inst));
        if decided.contains(&insts) {
            continue;
        }
        let verdict = decide((machine, &others), &pair, &grids);
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
    } else if !flights.is_whole {
        Some("there are too many asynchronous copies")
    } else {
        None
    };
    for (inst, verdict) in unfinished(machine, &flights) {
        if let Some(old) = found.get_mut(&inst) {
            worse(old, Finding { verdict, ..old.clone() });
        }
    }
    if contract.overlaps && overlap::waits(machine) {
        overlap::check(machine, &mut found, pipeline);
    }
    for pair in incoherent::pairs(machine) {
        let verdict = incoherent::verdict(decide((machine, &others), &pair, &grids));
        if let Some(old) = found.get_mut(&trace.accesses[pair.first].inst) {
            worse(old, Finding { verdict, ..old.clone() });
        }
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
fn pairs(machine: &Machine<'_>, flights: &Flights) -> (Vec<Pair>, bool) {
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
        for (start, at_once) in intervals(machine, *stops_at_warps, group.flatten(), flights) {
            for (i, first) in at_once.iter().enumerate() {
                for second in &at_once[i..] {
                    if !conflict(machine, first.access, second.access, false) {
                        continue;
                    }
                    let (turns, entered) =
                        (relation(&first.crossed, &second.crossed), entered(machine, start, [first, second]));
                    let (first, second) = (first.access, second.access);
                    // Two lanes that store the same together do not race.
                    let is_store = first == second && trace.accesses[first].kind == Kind::Write;
                    let is_of_warp = [first, second].iter().any(|at| trace.accesses[*at].of_warp);
                    let parts: &[Which] = match which {
                        Which::Block if is_of_warp => &[Which::Warps],
                        Which::Warp if is_of_warp => &[],
                        Which::Block if is_store => &[Which::Warps, Which::Warp],
                        which => std::slice::from_ref(which),
                    };
                    for which in parts {
                        let (turns, entered) = (turns.clone(), entered.clone());
                        is_whole &= add(Pair { first, second, which: *which, group, turns, entered, ended: None });
                    }
                }
            }
        }
    }
    for pair in of_own_copies(machine, flights) {
        is_whole &= add(pair);
    }
    for pair in ended(machine, flights) {
        is_whole &= add(pair);
    }
    let accesses: Vec<usize> = each_once(machine);
    let meetings = rendezvous::All::new(machine);
    for (i, first) in accesses.iter().enumerate() {
        for second in &accesses[i..] {
            if conflict(machine, *first, *second, true) && !meetings.order(*first, *second) {
                is_whole &= add(Pair::of_blocks(*first, *second));
            }
        }
    }
    (order, is_whole)
}

/// Pairs of an access of a thread that ends before a barrier, and one behind that barrier: nothing orders them.
fn ended(machine: &Machine<'_>, flights: &Flights) -> Vec<Pair> {
    let trace = &machine.trace;
    let mut found = Vec::new();
    let mut seen: Set<(Cond, usize)> = Set::default();
    // A copy may last from an interval before.
    let last: Set<usize> = last_ones(machine).into_iter().chain(flights.over_barriers(machine)).collect();
    let last: Vec<usize> = (0..trace.accesses.len()).filter(|access| last.contains(access)).collect();
    for (node, at) in trace.nodes.iter().enumerate() {
        for (place, mark) in at.marks.iter().enumerate() {
            let Mark::Barrier(barrier) = mark else { continue };
            let barrier = &trace.barriers[*barrier];
            // All lanes of a warp come to its barriers, or `barriers` has a finding; and these order no others.
            if barrier.span == Span::Warp {
                continue;
            }
            let leaves = barrier.path.steps().filter(|step| step.decides && step.excused);
            let leaves = leaves.map(|step| &step.cond).filter(|cond| machine.world.cond_scope(cond) > Scope::Block);
            for cond in leaves {
                let behind = machine.trace.follow((node, place + 1), &|_| false);
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
fn each_once(machine: &Machine<'_>) -> Vec<usize> {
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
    // Volatile stores that communicate without atomics leave open which value is read.
    let is_atomic = a.kind == Kind::Atomic
        || b.kind == Kind::Atomic
        || is_synchronizing(machine, a) && is_synchronizing(machine, b);
    let are_strong =
        is_atomic && a.strong && b.strong && !(blocks && (a.narrow || b.narrow)) && have_one_size(machine, [a, b]);
    machine.may_share(a.base, b.base) && is_common && writes && !are_strong
}

/// Modifiers of accesses by which threads communicate, with a scope beside them.
const SYNCHRONIZING: [&str; 4] = ["relaxed", "acquire", "release", "acq_rel"];

fn is_synchronizing(machine: &Machine<'_>, access: &Access) -> bool {
    machine.site(access.inst).is_some_and(|site| SYNCHRONIZING.iter().any(|modifier| site.is(modifier)))
}

/// Returns true if two accesses are of elements of one size: aligned, these overlap as a whole or not at all. The memory model has a race of strong accesses
/// that overlap in part.
fn have_one_size(machine: &Machine<'_>, both: [&Access; 2]) -> bool {
    let element = |access: &Access| {
        let ty = machine.site(access.inst)?.last_type()?;
        (access.align == access.size && !access.is_copy).then_some(ty.bytes())
    };
    let [a, b] = both.map(element);
    a.is_some() && a == b
}

/// An access that may happen between two barriers.
struct Event {
    access: usize,
    /// The turns relative to that of the first barrier.
    crossed: Crossings,
    /// The copy that it is part of, if that began before.
    flight: Option<Rc<Flight>>,
}

/// For each barrier, and for the start, the accesses that follow it before another one, and the copies that still go on.
fn intervals(
    machine: &Machine<'_>,
    stops_at_warps: bool,
    group: Option<usize>,
    flights: &Flights,
) -> Vec<(usize, Vec<Event>)> {
    let trace = &machine.trace;
    let stops = |barrier: usize| match trace.barriers[barrier].span {
        Span::Block => true,
        Span::Warp => stops_at_warps,
        // A thread of a group comes to the barriers of no other group.
        Span::Group(_) => group.is_some(),
    };
    let mut starts = vec![((0, 0), Vec::new())];
    for (at, node) in trace.nodes.iter().enumerate() {
        for (place, mark) in node.marks.iter().enumerate() {
            if let Mark::Barrier(barrier) = mark
                && stops(*barrier)
            {
                let flights = flights.at.get(&(at, place)).into_iter().flatten().cloned().map(Rc::new);
                starts.push(((at, place + 1), flights.collect()));
            }
        }
    }
    let starts = starts.into_iter().filter(|_| !trace.nodes.is_empty());
    let events = starts.map(|(start, flights)| {
        let last = flights.iter().flat_map(|flight| {
            let event =
                |access: &usize| Event { access: *access, crossed: flight.began(), flight: Some(flight.clone()) };
            flight.copies.iter().map(event)
        });
        let next = machine.trace.follow(start, &stops);
        let next = next.into_iter().map(|(access, crossed)| Event { access, crossed, flight: None });
        (start.0, last.chain(next).collect())
    });
    events.collect()
}

/// Pairs of a copy and what its own thread does while it goes on.
fn of_own_copies(machine: &Machine<'_>, flights: &Flights) -> Vec<Pair> {
    let mut found = Vec::new();
    let mut add = |first: usize, second: usize, turns: Turns, entered: Vec<(usize, usize, i128)>| {
        if conflict(machine, first, second, false) {
            found.push(Pair { first, second, which: Which::Thread, group: None, turns, entered, ended: None });
        }
    };
    for (first, second) in &flights.together {
        add(*first, *second, Turns::new(), Vec::new());
    }
    let mut places: Vec<_> = flights.at.iter().collect();
    places.sort_small_by_key(|(place, _)| **place);
    for ((node, place), flights) in places {
        let Mark::Access(second) = machine.trace.nodes[*node].marks[*place] else { continue };
        for flight in flights {
            let turns = relation(&flight.began(), &Crossings::new());
            let around = &machine.trace.accesses[second].turns;
            let entered = flight.entered().filter(|(own, _)| around.contains(own));
            let entered: Vec<_> = entered.map(|(own, turn)| (1, own, turn)).collect();
            flight.copies.iter().for_each(|first| add(*first, second, turns.clone(), entered.clone()));
        }
    }
    found
}

/// Copies that may go on when their thread ends: the memory may have another owner by then.
fn unfinished(machine: &Machine<'_>, flights: &Flights) -> Vec<(usize, Verdict)> {
    let trace = &machine.trace;
    let mut found = Vec::new();
    let mut seen: Set<(usize, &Flight, Cond, Cond)> = Set::default();
    for (node, flight) in &flights.ends {
        for copy in &flight.copies {
            let access = &trace.accesses[*copy];
            // Those that begin together under one condition are one question.
            let is_new = seen.insert((*node, flight, access.path.cond(), access.guard.clone()));
            if is_new && may_outlast(machine, flight, (*copy, *node)) {
                let missing = "this copy may go on when its thread ends: wait for it first";
                found.push((access.inst, Verdict::Unknown(missing.to_owned())));
            }
        }
    }
    found
}

/// Returns true if a thread that begins a copy may end in a node while that goes on.
fn may_outlast(machine: &Machine<'_>, flight: &Flight, (copy, node): (usize, usize)) -> bool {
    let turns = relation(&flight.began(), &Crossings::new());
    let which = Which::Thread;
    let pair = Pair { first: copy, second: copy, which, group: None, turns, entered: Vec::new(), ended: None };
    let own = Form::table((0..machine.world.threads).map(|thread| thread as i128).collect());
    let begins = reached(machine, &machine.trace.accesses[copy]);
    let mut conds: Vec<(usize, Cond)> = begins.into_iter().map(|cond| (0, cond)).collect();
    conds.push((1, machine.trace.nodes[node].path.cond()));
    for (own, turn) in flight.entered() {
        let same = Cond::equal(&Form::symbol(machine.trace.loops[own].turn), &Form::number(turn));
        conds.extend(same.map(|same| (1, same)));
    }
    let mixed = vec![vec![vec![difference((0, &own), (1, &own), 0), difference((1, &own), (0, &own), 0)]]];
    let views = of_pair(machine, &pair, None);
    !(Views { world: &machine.world, views, conds, mixed, compares: false }).decide(BUDGET).is_impossible()
}

/// Turns that are known of two events: of loops that are not around the place where their threads come from, each thread takes every jump back since it
/// entered them; and of loops that were entered while a copy goes on.
fn entered(machine: &Machine<'_>, start: usize, events: [&Event; 2]) -> Vec<(usize, usize, i128)> {
    let trace = &machine.trace;
    let around = &trace.nodes[start].turns;
    let mut found = Vec::new();
    for (view, event) in events.into_iter().enumerate() {
        let own = || trace.accesses[event.access].turns.iter().copied();
        let since = |own: usize| event.crossed.get(&own).copied().unwrap_or(Some(0));
        if event.flight.is_none() {
            let own = own().filter(|own| !around.contains(own) && trace.loops[*own].together);
            found.extend(own.filter_map(|own| Some((view, own, since(own)?))));
        }
        let entered = events.iter().filter_map(|event| event.flight.as_ref()).flat_map(|flight| flight.entered());
        for (of, turn) in entered.filter(|(of, _)| around.contains(of)) {
            if own().any(|own| own == of)
                && let Some(turns) = since(of)
            {
                found.push((view, of, turn + turns));
            }
        }
    }
    found
}

/// The turns of the second access relative to those of the first.
fn relation(a: &Crossings, b: &Crossings) -> Turns {
    let mut loops = std::collections::BTreeSet::new();
    loops.extend(a.keys().chain(b.keys()).copied());
    let of = |crossed: &Crossings, own: usize| crossed.get(&own).copied().unwrap_or(Some(0));
    let relative = |own: usize| Some(of(b, own)? - of(a, own)?);
    loops.into_iter().map(|own| (own, relative(own))).filter(|(_, turns)| *turns != Some(0)).collect()
}

/// Decides whether two threads can make two accesses at once.
fn decide((machine, others): (&Machine<'_>, &[Clause]), pair: &Pair, grids: &Grids<'_>) -> Verdict {
    if grids.are_parted([pair.first, pair.second])
        || are_in_tiles((machine, others), pair, grids)
        || are_apart((machine, others), pair, grids)
    {
        return Verdict::Proved;
    }
    let is_stride = |symbol| is_stride(machine, pair, symbol);
    let digits = grids.digits([pair.first, pair.second], &is_stride, &Cond::Const(true));
    let mut restricted = vec![None];
    if let Some(overlaps) = overlaps(machine, pair, &digits) {
        if overlaps.is_empty() {
            return Verdict::Proved;
        }
        // Threads of other blocks are one question.
        if overlaps.len() < EXACT && pair.which != Which::Blocks {
            restricted = overlaps.into_iter().map(Some).collect();
        }
    }
    let mut verdict = Verdict::Proved;
    for threads in restricted {
        match ask((machine, others), pair, threads, &digits) {
            Verdict::Proved => {}
            Verdict::Unknown(missing) => verdict = Verdict::Unknown(missing),
            refuted => return refuted,
        }
    }
    match verdict {
        Verdict::Unknown(_) if are_told_apart((machine, others), pair, grids) => Verdict::Proved,
        verdict => verdict,
    }
}

/// Returns true if the elements of buffers by which two threads find their places tell them apart, whatever the order of the strides is.
fn are_told_apart((machine, others): (&Machine<'_>, &[Clause]), pair: &Pair, grids: &Grids<'_>) -> bool {
    if machine.launch.distinct.is_empty() || machine.world.is_spent() {
        return false;
    }
    let (accesses, is_stride) = ([pair.first, pair.second], |symbol| is_stride(machine, pair, symbol));
    let any = [Cond::Const(true)];
    let orders = Some(grids.orders(accesses, &is_stride)).filter(|orders| !orders.is_empty()).unwrap_or(&any);
    // These questions are few, and leave the work of all others as it is.
    let left = machine.world.work.get();
    let cases = distinct::cases(machine, accesses, &|of| grids.digits(of, &is_stride, &any[0]));
    let sides = distinct::sides(machine, accesses);
    let questions = || cases.iter().flat_map(|case| sides.iter().map(move |side| (case, side)));
    let are_told_apart = orders.iter().all(|order| {
        machine.world.work.set(ORDER);
        let digits = grids.digits(accesses, &is_stride, order);
        questions().all(|(case, side)| Question::new((machine, others), pair, None).tells_apart((case, side), &digits))
    });
    machine.world.work.set(left);
    are_told_apart
}

/// Returns true if two blocks access other tiles: what the accesses of a block that differ by constants have, one question for all of them.
fn are_in_tiles((machine, others): (&Machine<'_>, &[Clause]), pair: &Pair, grids: &Grids<'_>) -> bool {
    pair.which == Which::Blocks
        && !machine.world.is_spent()
        && grids.of_tiles(
            [pair.first, pair.second],
            &|symbol| is_stride(machine, pair, symbol),
            |[first, second], digits| {
                let pair = Pair { first, second, ..pair.clone() };
                Question::new((machine, others), &pair, None).is_apart_in(digits)
            },
        )
}

/// Returns true if two threads access other rows whatever the order of the strides is: a matrix may have its tokens in its heads, or its heads in its
/// tokens. The parts of threads of one block differ by numbers, or are a question like those of two blocks.
fn are_apart((machine, others): (&Machine<'_>, &[Clause]), pair: &Pair, grids: &Grids<'_>) -> bool {
    let (accesses, is_stride) = ([pair.first, pair.second], |symbol| is_stride(machine, pair, symbol));
    if machine.world.is_spent() {
        return false;
    }
    let orders = grids.orders(accesses, &is_stride);
    // These questions are few, and leave the work of all others as it is.
    let left = machine.world.work.get();
    let are_apart = !orders.is_empty()
        && orders.iter().all(|order| {
            machine.world.work.set(ORDER);
            let digits = grids.digits(accesses, &is_stride, order);
            overlaps(machine, pair, &digits).is_some_and(|threads| threads.is_empty())
                || Question::new((machine, others), pair, None).is_apart_in(&digits)
        });
    machine.world.work.set(left);
    are_apart
}

/// Returns true if a symbol of the second thread is another one than that of the first.
fn is_own(machine: &Machine<'_>, pair: &Pair, symbol: Sym, known: &Symbol) -> bool {
    if known.scope > Scope::Block && (pair.which != Which::Thread || is_of_turn(machine, pair, symbol)) {
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

/// Returns true if the threads of a pair share a number that is at least zero, as the strides of matrices are.
fn is_stride(machine: &Machine<'_>, pair: &Pair, symbol: Sym) -> bool {
    let known = machine.world.symbol(symbol);
    known.least >= 0 && known.scope == Scope::Grid && !is_own(machine, pair, symbol, known)
}

/// Returns true for a symbol of a loop in whose turns the threads may be apart.
fn is_of_turn(machine: &Machine<'_>, pair: &Pair, symbol: Sym) -> bool {
    let trace = &machine.trace;
    let around = [pair.first, pair.second].into_iter().filter_map(|access| trace.accesses.get(access));
    let mut loops = around.flat_map(|access| access.turns.iter()).map(|own| &trace.loops[*own]);
    loops.any(|own| !own.together && symbol >= own.first)
}

fn is_turn(symbol: &Symbol) -> bool {
    symbol.meaning == Meaning::Turn
}

/// The pairs of threads whose bytes overlap, if parts of their offsets differ by numbers, and by multiples of one number, alone.
fn overlaps(machine: &Machine<'_>, pair: &Pair, digits: &[Digit]) -> Option<Vec<(usize, usize)>> {
    let world = &machine.world;
    if pair.ended.is_some() {
        return None;
    }
    let mut known = digits.iter().filter_map(|digit| Some((distance(machine, pair, digit)?, digit)));
    let (Distance { places: [first, second], modulus }, digit) = known.next()?;
    let rest: Vec<_> = known.collect();
    let allowed = |access: usize, place: &Coef| -> Vec<(i128, usize)> {
        let access = &machine.trace.accesses[access];
        let table = Cond::all([access.path.cond(), access.guard.clone()]);
        let mut known = vec![true; world.threads];
        table.keep(&mut known);
        let place = |thread: usize| {
            let place = place.at(thread);
            if modulus > 0 { place.rem_euclid(modulus) } else { place }
        };
        (0..world.threads).filter(|t| known[*t]).map(|thread| (place(thread), thread)).collect()
    };
    let (mut left, mut right) = (allowed(pair.first, &first), allowed(pair.second, &second));
    if modulus > 0 {
        // What begins before a multiple may end behind it.
        let around =
            right.iter().flat_map(|(place, thread)| [-modulus, 0, modulus].map(|more| (place + more, *thread)));
        right = around.collect();
    }
    left.sort_small();
    right.sort_small();
    let (mut start, mut found) = (0, Vec::new());
    for (at, thread) in left {
        while start < right.len() && right[start].0 + digit.sizes[1] <= at {
            start += 1;
        }
        for (_, other) in right[start..].iter().take_while(|(place, _)| *place < at + digit.sizes[0]) {
            let threads = (thread, *other);
            let fits = is_of(machine, pair, thread, *other)
                && match pair.which {
                    Which::Thread => thread == *other,
                    Which::Warp => thread != *other && thread / 32 == other / 32,
                    Which::Warps => thread / 32 != other / 32,
                    Which::Block => thread != *other,
                    Which::Blocks => true,
                }
                && rest.iter().all(|(distance, digit)| distance.meets(digit, threads));
            if fits && !found.contains(&threads) {
                found.push(threads);
            }
            if found.len() > EXACT {
                return Some(found);
            }
        }
    }
    Some(found)
}

/// Two offsets as a number for each thread, plus any multiple of another one.
struct Distance {
    places: [Coef; 2],
    /// Zero if there is none.
    modulus: i128,
}

impl Distance {
    /// Returns true if bytes of two threads overlap.
    fn meets(&self, digit: &Digit, (first, second): (usize, usize)) -> bool {
        let [a, b] = digit.sizes;
        let further = self.places[1].at(second) - self.places[0].at(first);
        match self.modulus {
            0 => further < a && -further < b,
            modulus => {
                let further = further.rem_euclid(modulus);
                further < a || modulus - further < b
            }
        }
    }
}

/// The distance of the two offsets of a part of a pair's places, if no thread has its own factors.
fn distance(machine: &Machine<'_>, pair: &Pair, digit: &Digit) -> Option<Distance> {
    let world = &machine.world;
    let turn = |view: usize, symbol: Sym| {
        let is_own = |(of, own, _): &&(usize, usize, i128)| (*of, machine.trace.loops[*own].turn) == (view, symbol);
        pair.entered.iter().find(is_own).map(|(_, _, turn)| *turn)
    };
    let first = world.expanded(&digit.forms[0], &|symbol| turn(0, symbol));
    let second = world.expanded(&digit.forms[1], &|symbol| turn(1, symbol));
    let mut further = 0i128;
    let mut sum: BTreeMap<Vec<(Sym, usize)>, i128> = BTreeMap::new();
    for (view, form, sign) in [(0, &first, -1), (1, &second, 1)] {
        for (mono, coef) in &form.terms {
            let Coef::One(factor) = coef else { return None };
            let factor = factor.checked_mul(sign)?;
            let is_own = |symbol: Sym| view == 1 && is_own(machine, pair, symbol, world.symbol(symbol));
            let shift = |symbol: Sym| pair.turns.iter().find(|(own, _)| machine.trace.loops[*own].turn == symbol);
            let shifts =
                mono.iter().filter_map(|symbol| shift(*symbol).filter(|_| view == 1)?.1.map(|turns| (*symbol, turns)));
            match (mono.len(), shifts.collect::<Vec<_>>().as_slice()) {
                (_, []) => {}
                (1, [(_, turns)]) => further = further.checked_add(turns.checked_mul(factor)?)?,
                _ => return None,
            }
            let key: Vec<(Sym, usize)> = mono.iter().map(|symbol| (*symbol, usize::from(is_own(*symbol)))).collect();
            let old = sum.entry(key).or_insert(0);
            *old = old.checked_add(factor)?;
        }
    }
    let modulus = sum.values().try_fold(0, |all, factor| gcd(all, *factor))?;
    Some(Distance { places: [first.constant.clone(), second.plus(further)?.constant], modulus })
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
    fn new(
        (machine, others): (&'m Machine<'m>, &[Clause]),
        pair: &'m Pair,
        threads: Option<(usize, usize)>,
    ) -> Question<'m> {
        let (a, b) = accesses(machine, pair);
        let mut conds: Vec<(usize, Cond)> = Vec::new();
        conds.extend([(0, a.path.cond()), (0, a.guard.clone()), (1, b.path.cond()), (1, b.guard.clone())]);
        conds.extend(pair.ended.iter().map(|cond| (0, cond.clone())));
        for (view, own, turn) in &pair.entered {
            let same = Cond::equal(&Form::symbol(machine.trace.loops[*own].turn), &Form::number(*turn));
            conds.extend(same.map(|same| (*view, same)));
        }
        let mut question = Question { machine, pair, threads, conds, mixed: Vec::new(), may_be_same: false };
        question.are_others();
        question.are_blocks(others);
        question.are_of_groups();
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
        // Equal accesses under equal conditions are a question of order alone.
        let is_symmetric = pair.entered.iter().all(|(view, own, turn)| pair.entered.contains(&(1 - view, *own, *turn)));
        let is_same = pair.first == pair.second && pair.turns.is_empty() && pair.ended.is_none() && is_symmetric;
        let order = |form: &Form| {
            if is_same { differ(form, form).split_off(1) } else { differ(form, form) }
        };
        match pair.which {
            Which::Blocks => self.mixed.push(machine.launch.block.iter().flat_map(order).collect()),
            Which::Thread => self.mixed.extend(same(&own)),
            Which::Block => self.mixed.push(order(&own)),
            Which::Warps => self.mixed.push(order(&warp)),
            Which::Warp => {
                self.mixed.push(order(&own));
                self.mixed.extend(same(&warp));
            }
        }
    }

    /// Two blocks have the numbers that counters gave them, and read what buffers of offsets have.
    fn are_blocks(&mut self, others: &[Clause]) {
        if self.pair.which == Which::Blocks {
            self.mixed.extend(others.iter().cloned());
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

    /// Decides it: at first by rows and columns, and without the facts of the launch about lengths and addresses, which are many and rarely matter.
    /// The orders in which strides lie in each other are alternatives that tell blocks apart, and rarely the threads of one.
    fn decide(&self, digits: &[Digit]) -> Decision {
        let few = self.few();
        let (own, launch) = few.split_at(self.conds.len());
        let plain = launch.iter().filter(|(_, fact)| !has_conjunctions(fact));
        let plain: Vec<(usize, Cond)> = own.iter().chain(plain).cloned().collect();
        if plain.len() < few.len() && self.is_apart_under(&plain, digits) || self.is_apart_under(&few, digits) {
            return Decision::Impossible;
        }
        let all = self.machine.launch.facts.iter().map(|fact| (0, fact.clone()));
        self.with(self.conds.iter().cloned().chain(all).collect(), &self.meet(), (BUDGET, false))
    }

    /// Returns true if some of the conditions tell the threads apart.
    fn is_apart_under(&self, some: &[(usize, Cond)], digits: &[Digit]) -> bool {
        let (machine, pair) = (self.machine, self.pair);
        let (a, b) = accesses(machine, pair);
        let is_apart = |meet: &[Clause]| self.with(some.to_vec(), meet, (BUDGET / 2, false)).is_impossible();
        // The parts of the places alone tell most threads apart.
        self.parts(some, digits).is_some_and(|parts| parts.decide(BUDGET / 4).is_impossible())
            || machine.may_be_others(a.base, b.base) && is_apart(&self.place().meets())
            || some.len() < self.conds.len() + machine.launch.facts.len() && is_apart(&self.meet())
    }

    /// The places as a whole.
    fn place(&self) -> Digit {
        let (a, b) = accesses(self.machine, self.pair);
        Digit { forms: [a, b].map(|own| own.offset.clone()), sizes: [a, b].map(|own| i128::from(own.size)) }
    }

    /// The places meet, in the same memory.
    fn meet(&self) -> Vec<Clause> {
        let (machine, pair) = (self.machine, self.pair);
        let (a, b) = accesses(machine, pair);
        let mut meet = self.place().meets().to_vec();
        meet.extend(machine.same_entry(a.base, b.base));
        meet.extend(rows::clauses(&a.offset, &b.offset, &|symbol| is_stride(machine, pair, symbol)));
        meet
    }

    /// Returns true if the parts of the places by an order of strides tell the threads apart. A product is a number that is compared with what it is made of.
    fn is_apart_in(&self, digits: &[Digit]) -> bool {
        self.parts(&self.few(), digits).is_some_and(|parts| parts.excludes_by_facts(ORDER))
    }

    /// Returns true if the parts of the places tell the threads apart in a case of the elements that lead there. A choice that both threads settle is none.
    fn tells_apart(mut self, (case, side): (&Case, &Cond), digits: &[Digit]) -> bool {
        self.conds.extend(case.conds.iter().cloned().chain([(0, side.clone()), (1, side.clone())]));
        self.mixed.extend(case.mixed.iter().cloned());
        let meet: Vec<Clause> = digits.iter().flat_map(Digit::meets).collect();
        let (own, conds) = (&self.machine.world, sums(&self.machine.world, &self.few()));
        let settled = settled_in_both(own, &conds, &[&meet[..], &self.mixed].concat());
        let (world, mut conds) = settled.as_ref().map_or((own, conds), |(world, conds)| (world, conds.clone()));
        let places = digits.iter().flat_map(|digit| digit.forms.iter().enumerate());
        let certain = places.flat_map(|place| certain_alternatives(world, (&conds, &self.machine.launch.facts), place));
        let certain: Vec<_> = certain.collect();
        conds.extend(certain);
        let views = Views { world, ..self.views(conds, &meet, true) };
        views.decide(ELEMENTS).is_impossible()
    }

    /// The question whether all parts of the places meet, under few conditions; nothing for a place of one part.
    fn parts(&self, few: &[(usize, Cond)], digits: &[Digit]) -> Option<Views<'_>> {
        let meet: Vec<Clause> = digits.iter().flat_map(Digit::meets).collect();
        let world = &self.machine.world;
        let places = digits.iter().flat_map(|digit| digit.forms.iter().enumerate());
        let left = places.flat_map(|place| last_alternatives(world, few, place));
        (digits.len() > 1).then(|| self.views([sums(world, few), left.collect()].concat(), &meet, true))
    }

    /// The conditions, and those of the launch that are about the places.
    fn few(&self) -> Vec<(usize, Cond)> {
        let (machine, (a, b)) = (self.machine, accesses(self.machine, self.pair));
        of_forms(&machine.world, &self.conds, &machine.launch.facts, [&a.offset, &b.offset])
    }

    /// Decides it under conditions, for places that meet.
    fn with(&self, conds: Vec<(usize, Cond)>, meet: &[Clause], (budget, compares): (u32, bool)) -> Decision {
        self.views(conds, meet, compares).decide(budget)
    }

    fn views(&self, conds: Vec<(usize, Cond)>, meet: &[Clause], compares: bool) -> Views<'_> {
        let (machine, pair) = (self.machine, self.pair);
        let mixed = meet.iter().chain(&self.mixed).cloned().collect();
        Views { world: &machine.world, views: of_pair(machine, pair, self.threads), conds, mixed, compares }
    }
}

/// The alternatives in what is known of a place's symbols.
fn alternatives<'w>(world: &'w World, place: &Form) -> impl Iterator<Item = &'w [Cond]> {
    let facts = place.symbols().flat_map(|symbol| world.facts_of(symbol));
    let parts = facts.flat_map(|fact| match fact {
        Cond::All(parts) => parts.as_ref(),
        part => std::slice::from_ref(part),
    });
    parts.filter_map(|part| match part {
        Cond::Any(parts) => Some(parts.as_ref()),
        _ => None,
    })
}

/// Of the alternatives of a place, those that the conditions leave: those with products say which.
fn last_alternatives(world: &World, conds: &[(usize, Cond)], (view, place): (usize, &Form)) -> Vec<(usize, Cond)> {
    let own = conds.iter().filter(|(of, _)| *of == view).flat_map(|(_, cond)| match cond {
        Cond::All(parts) => parts.to_vec(),
        other => vec![other.clone()],
    });
    let never: Set<Cond> = own.map(|cond| cond.negate()).collect();
    let left = alternatives(world, place).filter_map(|parts| {
        let mut left = parts.iter().filter(|part| !never.contains(part));
        left.next().filter(|_| left.next().is_none())
    });
    left.map(|cond| (view, cond.clone())).collect()
}

/// Of the alternatives of a place, those that hold by the conditions around them: the smaller one of two numbers is the first one.
fn certain_alternatives(
    world: &World,
    (conds, facts): (&[(usize, Cond)], &[Cond]),
    (view, place): (usize, &Form),
) -> Vec<(usize, Cond)> {
    let own: Vec<Cond> = conds.iter().filter(|(of, _)| *of == view).map(|(_, cond)| cond.clone()).collect();
    let is_certain = |part: &&Cond| is_excluded(world, (&own, facts), &part.negate(), FAR);
    let certain = alternatives(world, place).filter_map(|parts| parts.iter().find(is_certain));
    certain.map(|cond| (view, cond.clone())).collect()
}

/// The conditions without products, which parts of places do not have. A remainder is a number.
fn sums(world: &World, conds: &[(usize, Cond)]) -> Vec<(usize, Cond)> {
    let part = |cond: &Cond| match cond {
        Cond::AtLeast(form) => Some(world.with_names(form)).filter(|form| form.degree() < 2).map(Cond::at_least),
        other => {
            let mut degree = 0;
            other.forms(&mut |form| degree = degree.max(form.degree()));
            Some(other.clone()).filter(|_| degree < 2)
        }
    };
    let parts = |cond: &Cond| match cond {
        Cond::All(parts) => Cond::all(parts.iter().filter_map(part)),
        other => part(other).unwrap_or(Cond::Const(true)),
    };
    conds.iter().map(|(view, cond)| (*view, parts(cond))).collect()
}

/// A form has one value in both threads.
fn same(form: &Form) -> Vec<Clause> {
    [(0, 1), (1, 0)].map(|(a, b)| vec![vec![difference((a, form), (b, form), 0)]]).into()
}

fn accesses<'m>(machine: &'m Machine<'_>, pair: &Pair) -> (&'m Access, &'m Access) {
    (&machine.trace.accesses[pair.first], &machine.trace.accesses[pair.second])
}

/// The views of the two threads of a pair.
fn of_pair<'q>(machine: &'q Machine<'_>, pair: &'q Pair, threads: Option<(usize, usize)>) -> Vec<View<'q>> {
    let restricted = |view: usize| threads.map(|(first, second)| vec![if view == 0 { first } else { second }]);
    let known = pair.turns.iter().filter_map(|(own, turns)| Some((machine.trace.loops[*own].turn, (*turns)?)));
    let shift: Map<Sym, i128> = known.collect();
    let first = View { own: Box::new(|_, _| false), shift: Map::default(), threads: restricted(0) };
    let own = Box::new(|symbol, known: &Symbol| is_own(machine, pair, symbol, known));
    vec![first, View { own, shift, threads: restricted(1) }]
}

fn too_hard() -> Verdict {
    Verdict::Unknown("the conditions are too hard to decide in the budget of a proof".to_owned())
}

/// Asks for two threads, or for all.
fn ask(
    (machine, others): (&Machine<'_>, &[Clause]),
    pair: &Pair,
    threads: Option<(usize, usize)>,
    digits: &[Digit],
) -> Verdict {
    if machine.world.is_spent() {
        return too_hard();
    }
    let (a, b) = accesses(machine, pair);
    let question = Question::new((machine, others), pair, threads);
    match question.decide(digits) {
        Decision::Impossible => Verdict::Proved,
        Decision::Unknown => too_hard(),
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
                (a.base != b.base, "two addresses may be those of the same memory, which is not known"),
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
