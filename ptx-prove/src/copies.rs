//! Asynchronous copies: each lasts from its `cp.async` to the wait of its thread that covers its group.
//!
//! A thread's copies are followed along all of its ways, with the groups that it commits meanwhile and the turns of the loops that it is in. `races`
//! compares a copy with all that may happen while it lasts: accesses of other threads in all those intervals of barriers, and what its own thread does.

use crate::machine::Machine;
use crate::trace::{Mark, Step};
use ptx_core::hash::{Map, Set};
use std::collections::BTreeMap;

/// Turns of a loop, relative to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Since {
    /// The copy began so many turns before, in the same loop.
    Began(i128),
    /// The loop was entered after that, so many turns before.
    Entered(i128),
    /// It is not known.
    Open,
}

/// The turns of loops since a copy began.
type Turns = BTreeMap<usize, Since>;

/// Copies that begin together, at a place where they may still go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    /// The accesses: numbers in the trace.
    pub(crate) copies: Vec<usize>,
    turns: Turns,
}

impl Flight {
    /// By loop: the turn in which it began relative to that of this place; nothing if it is not known.
    pub(crate) fn began(&self) -> BTreeMap<usize, Option<i128>> {
        let turns = self.turns.iter().filter_map(|(own, since)| match since {
            Since::Began(0) | Since::Entered(_) => None,
            Since::Began(turns) => Some((*own, Some(-turns))),
            Since::Open => Some((*own, None)),
        });
        // Inserted, since std sorts what a map collects.
        let mut began = BTreeMap::new();
        began.extend(turns);
        began
    }

    /// The number of the turn at this place, of loops that were entered since it began.
    pub(crate) fn entered(&self) -> impl Iterator<Item = (usize, i128)> + '_ {
        self.turns.iter().filter_map(|(own, since)| match since {
            Since::Entered(turn) => Some((*own, *turn)),
            _ => None,
        })
    }
}

/// The most turns that are counted, and groups.
const TURNS: i128 = 16;
/// The most states of one thread's copies.
const STATES: usize = 20_000;

/// All places at which copies may go on.
#[derive(Default)]
pub(crate) struct Flights {
    /// By node and mark: what goes on before that mark.
    pub(crate) at: Map<(usize, usize), Vec<Flight>>,
    /// By node where threads may end.
    pub(crate) ends: Vec<(usize, Flight)>,
    /// Pairs of copies that begin together.
    pub(crate) together: Vec<(usize, usize)>,
    /// False if there are too many.
    pub(crate) is_whole: bool,
}

/// Copies of a thread on its way.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    node: usize,
    /// The next mark.
    place: usize,
    turns: Turns,
    /// The groups since theirs; nothing as long as they are in none.
    groups: Option<i128>,
}

impl Flights {
    pub(crate) fn new(machine: &Machine<'_>) -> Flights {
        let mut found = Flights { is_whole: true, ..Flights::default() };
        let mut headers = Map::default();
        for (to, own) in machine.trace.nodes.iter().flat_map(|node| &node.next) {
            headers.extend(own.map(|own| (*to, own)));
        }
        let mut left = STATES;
        for (node, place, copies) in batches(machine) {
            for (at, first) in copies.iter().enumerate() {
                found.together.extend(copies[at + 1..].iter().map(|second| (*first, *second)));
            }
            found.follow(machine, &headers, ((node, place), copies), &mut left);
        }
        found
    }

    /// Copies that go on while their thread passes a barrier.
    pub(crate) fn over_barriers(&self, machine: &Machine<'_>) -> Set<usize> {
        let is_barrier =
            |(node, place): &(usize, usize)| matches!(machine.trace.nodes[*node].marks[*place], Mark::Barrier(_));
        let over = self.at.iter().filter(|(at, _)| is_barrier(at)).flat_map(|(_, flights)| flights);
        over.flat_map(|flight| flight.copies.iter().copied()).collect()
    }

    /// Follows copies from the mark behind them; `headers` has the nodes to which loops jump back.
    fn follow(
        &mut self,
        machine: &Machine<'_>,
        headers: &Map<usize, usize>,
        ((node, place), copies): ((usize, usize), Vec<usize>),
        left: &mut usize,
    ) {
        let trace = &machine.trace;
        let around = copies.first().map(|copy| trace.accesses[*copy].turns.clone()).unwrap_or_default();
        let together = around.iter().filter(|own| trace.loops[**own].together);
        let mut turns = Turns::new();
        turns.extend(together.map(|own| (*own, Since::Began(0))));
        let mut pending = vec![State { node, place, turns, groups: None }];
        let mut seen: Set<State> = Set::default();
        while let Some(state) = pending.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            let Some(more) = left.checked_sub(1) else {
                self.is_whole = false;
                return;
            };
            *left = more;
            let flight = Flight { copies: copies.clone(), turns: state.turns.clone() };
            let Some(groups) = self.walk(machine, &state, &flight, &mut pending) else { continue };
            let node = &trace.nodes[state.node];
            if node.may_end || node.next.is_empty() {
                self.ends.push((state.node, flight));
            }
            for (next, back) in &node.next {
                let turns = passed(machine, headers, &state.turns, (*next, *back));
                pending.push(State { node: *next, place: 0, turns, groups });
            }
        }
    }

    /// The groups behind a node; nothing if the copies are complete there.
    fn walk(
        &mut self,
        machine: &Machine<'_>,
        state: &State,
        flight: &Flight,
        pending: &mut Vec<State>,
    ) -> Option<Option<i128>> {
        let node = &machine.trace.nodes[state.node];
        let mut groups = state.groups;
        for (place, mark) in node.marks.iter().enumerate().skip(state.place) {
            let at = self.at.entry((state.node, place)).or_default();
            if !at.contains(flight) {
                at.push(flight.clone());
            }
            let Mark::Copy(step) = mark else { continue };
            let next = groups.map_or(0, |groups| (groups + 1).min(TURNS));
            match step {
                Step::Commit => groups = Some(next),
                Step::MayCommit => {
                    // Threads that commit nothing go on as before.
                    pending.push(State { place: place + 1, groups: Some(next), ..state.clone() });
                }
                Step::WaitGroups(most) if groups.is_some_and(|groups| groups >= *most) => return None,
                Step::WaitGroups(_) => {}
                Step::WaitAll => return None,
            }
        }
        Some(groups)
    }
}

/// Turns behind an edge of the graph.
fn passed(
    machine: &Machine<'_>,
    headers: &Map<usize, usize>,
    turns: &Turns,
    (to, back): (usize, Option<usize>),
) -> Turns {
    let mut turns = turns.clone();
    let together = |own: &usize| machine.trace.loops[*own].together;
    if let Some(own) = back.filter(together) {
        let more = |count: i128| count < TURNS;
        let since = turns.entry(own).or_insert(Since::Open);
        *since = match *since {
            Since::Began(count) if more(count) => Since::Began(count + 1),
            Since::Entered(count) if more(count) => Since::Entered(count + 1),
            _ => Since::Open,
        };
        // Loops inside of it begin again.
        turns.extend((own + 1..machine.trace.loops.len()).map(|inner| (inner, Since::Open)));
    } else if let Some(own) = headers.get(&to).copied().filter(together).filter(|_| back.is_none()) {
        let since = if turns.contains_key(&own) { Since::Open } else { Since::Entered(0) };
        turns.insert(own, since);
    }
    turns
}

/// Copies with nothing else between them: the place behind them, and their accesses.
fn batches(machine: &Machine<'_>) -> Vec<(usize, usize, Vec<usize>)> {
    let mut found: Vec<(usize, usize, Vec<usize>)> = Vec::new();
    for (at, node) in machine.trace.nodes.iter().enumerate() {
        for (place, mark) in node.marks.iter().enumerate() {
            let Mark::Access(access) = mark else { continue };
            if !machine.trace.accesses[*access].is_copy {
                continue;
            }
            match found.last_mut() {
                Some((node, behind, copies)) if (*node, *behind) == (at, place) => {
                    copies.push(*access);
                    *behind += 1;
                }
                _ => found.push((at, place + 1, vec![*access])),
            }
        }
    }
    found
}
