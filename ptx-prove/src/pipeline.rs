//! Pipelines of `mbarrier`s: the warps of a cluster as automata over phases, arrivals and bytes, explored for every launch of a contract.
//!
//! A warp is executed by its instructions. Addresses, counts, parities and the numbers of threads are numbers; what depends on arguments is a term
//! that is equal in all warps that compute it in the same way. A condition on terms is decided once for all of them, and both ways are explored. So
//! the trip counts of a producer and of its consumers agree where their terms do, and stay open.
//!
//! - `code` has the slice of an entry that decides what happens at barriers, `walk` executes it, with the operations of `value` on the numbers and
//!   terms of `term`. `bits` are those of counters that are read, and `sides` has branches on what is not described.
//! - `effect` has the barriers, with the checks by which one order of the events stands for every order. `state` has what they change.
//! - `cover` joins turns of loops, so that the exploration ends, and `needs` has what barriers pass on, so that states do not differ in what is not used.
//!   The budget is a number of states and of steps; beyond it the pipeline is unknown, and never proved.
//!
//! Decided: nobody waits forever; every wait sees the phase that it means; the bytes that a phase expects arrive, and no others; a stage is written
//! only behind all accesses to it, and used only behind its copy; products and copies use bytes that were written; copies and products read what
//! instructions have stored only behind a proxy fence; words that a thread sends through shared memory, such as the number of tiles of a work tile, are
//! read behind their store and overwritten behind their reads; registers of products are used behind the waits for their groups (`flying`); what a lane
//! waits for or releases is its own until the warp synchronizes; and a block ends only when no other block signals its barriers, and no copy from or to
//! it is under way.
//!
//! Assumed, and not decided here: lanes of a warp that branch alike stay together; `setmaxnreg` gets its registers; loops that wait for memory end;
//! boxes of tensor maps have the bytes of the contract. `united` proves, or reports as missing, that sums and products of sizes fit their registers, and
//! that memory of `ld.global.nc` does not change. Loads and stores are compared with copies and products, and not with each other: such races, and
//! those in global memory, are decided by `races` and `transfers`.

mod addresses;
mod assume;
mod bits;
mod code;
mod cover;
mod effect;
mod filled;
mod flying;
mod forward;
mod needs;
mod sides;
mod slice;
mod state;
mod term;
mod value;
mod walk;

use crate::contract::Contract;
use code::Code;
use cover::{Seen, Steps};
use ptx_core::check::Checked;
use ptx_core::hash::{Map, Set};
use ptx_core::span::Span;
use ptx_target::sort::SortSmall;
use state::{Clock, Stage, State, Stop, Warp};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::rc::Rc;
use std::time::{Duration, Instant};
use term::{Atoms, Poly};
use value::Value;
use walk::{Halt, Walk, wrong};

/// The result of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The verdict.
    pub outcome: Outcome,
    /// The states that were explored.
    pub states: usize,
    /// The steps that it took: instructions of warps, and comparisons of facts and of states by their size. They are the same on every machine.
    pub steps: u64,
    /// The barriers of the cluster.
    pub barriers: usize,
    /// Its warps.
    pub warps: usize,
    /// The time that it took.
    pub time: Duration,
    /// The instruction of the verdict.
    pub(crate) inst: usize,
    /// Instructions whose results are terms: the operands are taken for numbers without a width.
    pub(crate) reads: Vec<usize>,
    /// Loads of memory that is taken for constant.
    pub(crate) loads: Vec<usize>,
    /// Instructions that may read bytes of shared memory that nothing has written.
    pub(crate) unwritten: Vec<usize>,
    /// Copies to memory that are behind the end of the launch before in every order.
    pub(crate) behind: Vec<usize>,
}

impl Pipeline {
    /// Returns true for a copy to memory that the launch before does not disturb, because threads that it is behind have waited for that.
    pub(crate) fn is_behind_wait(&self, inst: usize) -> bool {
        self.outcome == Outcome::Proved && self.behind.contains(&inst)
    }
}

/// The verdict on a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In every launch and every order.
    Proved,
    /// An order of the events goes wrong: the instruction and the order in words. Sizes may exclude it, so a run has to confirm it.
    Violated(Span, String),
    /// The instruction and the fact that is missing.
    Unknown(Span, String),
}

/// The most states.
const STATES: usize = 20_000;
/// The most explorations of an entry.
const ROUNDS: usize = 12;
/// States of one key that are explored before two of them are joined.
const EARLY: usize = 2;
/// The least and the most states that are explored behind an event that a check has missed, in search of others.
const SEARCHED: [usize; 2] = [2, 32];
/// The numbers of a state's key that take as long as a step.
const KEY: u64 = 4;

/// Explores the pipeline of an entry; nothing if it has none. `boxes` has the bytes of a box for each tensor map, by the name of its parameter.
#[must_use]
pub fn explore(checked: &Checked, entry: &str, contract: &Contract, boxes: &[(String, u64)]) -> Option<Pipeline> {
    let module = checked.module();
    let function = module.entry(entry)?;
    let code = Code::new(module, function);
    if !code.has_pipeline() {
        return None;
    }
    let mut walk = Walk {
        code: &code,
        atoms: Atoms::default(),
        block: contract.block,
        cluster: contract.cluster,
        boxes: boxes.iter().cloned().collect(),
        ranges: Set::default(),
        marks: Set::default(),
        reads: Set::default(),
        loads: Set::default(),
        unwritten: Set::default(),
        stores: Map::default(),
        needs: RefCell::default(),
    };
    let start_time = Instant::now();
    let (mut states, mut barriers, mut warps) = (0, 0, 0);
    let mut result = Ok(());
    // Once to find the bytes that copies write, so that accesses before the first copy are compared with it, too, and what barriers have to pass on.
    for _ in 0..ROUNDS {
        let mut state = start(&code, contract);
        walk.atoms.again();
        state.facts = assume::facts(&mut walk.atoms, module, function, contract);
        let mut given = Set::default();
        state.facts.0.iter().for_each(|fact| walk.atoms.all_in(fact, &mut given));
        walk.atoms.given = given;
        warps = state.warps.len();
        let mut ranges: Vec<_> = walk.ranges.iter().copied().collect();
        ranges.sort_small();
        let marks = walk.marks.len();
        state.stages = ranges.iter().map(|range| Stage::new(*range, (0, 0))).collect();
        let mut search = Search {
            walk: &mut walk,
            seen: Map::default(),
            alike: Map::default(),
            states: 0,
            asked: (0, 0),
            barriers: 0,
        };
        result = search.run(state);
        (states, barriers) = (search.states, search.barriers);
        let needs = walk.needs.get_mut();
        let is_complete = needs.end();
        match &result {
            Ok(()) if (walk.ranges.len(), walk.marks.len()) != (ranges.len(), marks) => {
                result = walk::gap(0, "the bytes that copies write are not found");
            }
            Ok(()) if is_complete => break,
            Ok(()) => result = walk::gap(0, "what barriers pass on is not found"),
            Err(_) if walk.atoms.steps.get() > walk::STEPS => break,
            Err(_) if is_complete && !needs.give_all() => break,
            Err(_) => {}
        }
    }
    if let Some(at) = result.is_ok().then(|| flying::first_use(function, &code.flow, &code.roles)).flatten() {
        result = walk::gap(at, "a register is used that `wgmma.mma_async` may still write or read");
    }
    if let Some(at) = result.is_ok().then(|| addresses::first_decision(&code)).flatten() {
        result = walk::gap(at, "an address of shared memory is taken for a number");
    }
    let span = |inst: usize| function.insts.get(inst).map_or(function.span, |inst| inst.span);
    let (inst, outcome) = match result {
        Ok(()) => (0, Outcome::Proved),
        Err(Halt { inst, text, is_violation: true }) => (inst, Outcome::Violated(span(inst), text)),
        Err(Halt { inst, text, .. }) => (inst, Outcome::Unknown(span(inst), text)),
    };
    let sorted = |all: &Set<usize>| {
        let mut all: Vec<usize> = all.iter().copied().collect();
        all.sort_small();
        all
    };
    let (reads, loads, unwritten) = (sorted(&walk.reads), sorted(&walk.loads), sorted(&walk.unwritten));
    let behind = sorted(&walk.stores.iter().filter(|(_, is_behind)| **is_behind).map(|(inst, _)| *inst).collect());
    let steps = walk.atoms.steps.get();
    Some(Pipeline {
        outcome,
        states,
        steps,
        barriers,
        warps,
        time: start_time.elapsed(),
        inst,
        reads,
        loads,
        unwritten,
        behind,
    })
}

/// The cluster before its first instruction.
fn start(code: &Code<'_>, contract: &Contract) -> State {
    let blocks: usize = contract.cluster.iter().map(|extent| *extent as usize).product();
    let threads: usize = contract.block.iter().map(|extent| *extent as usize).product();
    let registers = Rc::new(vec![Value::Unknown; code.function.registers.len()]);
    let mut state = State::default();
    for block in 0..blocks {
        for index in 0..threads.div_ceil(32) {
            let lanes = (threads - index * 32).min(32);
            let live = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
            let registers = registers.clone();
            state.warps.push(Warp {
                block,
                index,
                at: 0,
                mask: live,
                live,
                splits: Vec::new(),
                registers,
                clock: Clock::default(),
                behind: None,
                since: 0,
                stop: Stop::None,
                groups: 0,
                bulk: 0,
                bulk_lanes: 0,
                stored: 0,
                tensor_lanes: 0,
                fenced: (0, Clock::default()),
                arrived: false,
                cluster: 0,
                joined: Vec::new(),
                open: 0,
            });
        }
    }
    let (warps, components) = (state.warps.len(), effect::components(state.warps.len(), blocks));
    state.events = vec![0; components];
    state.of_memory = (0..components).map(|component| component >= warps).collect();
    state.ended = vec![Clock::default(); blocks];
    state
}

struct Search<'w, 'c, 'm> {
    walk: &'w mut Walk<'c, 'm>,
    /// By key.
    seen: Map<Vec<u32>, Vec<Seen>>,
    /// By shape.
    alike: Map<Vec<u32>, Vec<Seen>>,
    states: usize,
    /// The number of events that checks have missed, and the number of states when they missed the last one.
    asked: (usize, usize),
    barriers: usize,
}

impl Search<'_, '_, '_> {
    fn run(&mut self, first: State) -> Result<(), Halt> {
        let mut pending = vec![first];
        while let Some(mut state) = pending.pop()
            && !self.has_asked()
        {
            let moved = self.walk.run(&mut state)?;
            self.barriers = self.barriers.max(state.barriers.len());
            let Some(at) = state.warps.iter().find(|warp| matches!(warp.stop, Stop::Open(_))).map(|warp| warp.at)
            else {
                self.end(&state)?;
                continue;
            };
            self.states += 1;
            if self.states > STATES {
                return walk::gap(at, format!("its exploration has more than the budget of {STATES} states"));
            }
            // A state that has not moved is one whose condition was divided and is open still, as that of an equality. The state before has its values
            // and less facts, but it is not explored otherwise.
            if moved && !self.is_new(&mut state) {
                continue;
            }
            state.warps.iter_mut().for_each(|warp| warp.open += 1);
            let Some(of) = self.open(&state) else {
                if !moved {
                    return walk::gap(at, "a condition that is decided does not let a warp go on");
                }
                // The join may have decided more, or less.
                pending.push(state);
                continue;
            };
            let Some(opposite) = of.scale(-1).map(|minus| minus.add(-1)) else {
                return walk::gap(at, "a condition is too large to be described");
            };
            // The condition of a loop holds as long as it goes on: its turns come first, and what they have in common.
            for of in [opposite, of] {
                let mut next = state.clone();
                next.facts.assume(&self.walk.atoms, &of);
                pending.push(next);
            }
        }
        Ok(())
    }

    /// Returns true if checks have missed events, and no others for as many states again, or for many: the rest is left to the next exploration.
    fn has_asked(&mut self) -> bool {
        let asked = self.walk.needs.borrow().asked();
        if asked > self.asked.0 {
            self.asked = (asked, self.states);
        }
        let [least, most] = SEARCHED;
        asked > 0 && self.states > self.asked.1 + least + self.asked.1.min(most)
    }

    /// The condition that is open for the longest time: so no warp goes ahead of others without need.
    fn open(&mut self, state: &State) -> Option<Poly> {
        let mut all: Vec<usize> =
            (0..state.warps.len()).filter(|w| matches!(state.warps[*w].stop, Stop::Open(_))).collect();
        all.sort_small_by_key(|w| Reverse(state.warps[*w].open));
        all.into_iter().find_map(|w| {
            let inst = self.walk.code.function.insts.get(state.warps[w].at)?;
            match self.walk.who(state, w, inst) {
                walk::Who::Open(of) => Some(of),
                _ => match &state.warps[w].stop {
                    Stop::Open(of) if state.facts.decide(&self.walk.atoms, of).is_none() => Some(of.clone()),
                    _ => None,
                },
            }
        })
    }

    /// Returns false if an earlier state covers this one; else remembers it, or one that covers it and those that follow it in the same way.
    fn is_new(&mut self, state: &mut State) -> bool {
        state.forget_old(&self.walk.needs.borrow());
        let (key, places) = state.key(self.walk.code);
        self.walk.atoms.spend(key.len() as u64 / KEY);
        let mut own = Seen { terms: cover::terms(state, &places), facts: state.facts.clone() };
        cover::forget(&self.walk.atoms, &mut own);
        let atoms = &mut self.walk.atoms;
        let all = self.seen.entry(key).or_default();
        if cover::are_covering(atoms, all, &own) {
            return false;
        }
        let alike = self.alike.entry(state.shape(&places)).or_default();
        if let Some(general) = cover::generalize(atoms, alike, &own)
            && cover::replace(state, &places, general.terms.clone()).is_some()
        {
            own = general;
            if cover::are_covering(atoms, all, &own) {
                return false;
            }
        }
        if all.len() >= EARLY
            && let Some(last) = all.last()
            && !cover::covers(atoms, &own, last)
            && let Some(joined) = cover::join(atoms, last, &own, Steps::AnyTerms)
            && cover::replace(state, &places, joined.terms.clone()).is_some()
        {
            own = joined;
        }
        state.facts = own.facts.clone();
        all.push(own);
        true
    }

    /// Everything has stopped: all have ended, and as they should.
    fn end(&mut self, state: &State) -> Result<(), Halt> {
        let waiting: Vec<usize> = (0..state.warps.len()).filter(|w| state.warps[*w].stop == Stop::Waits).collect();
        if let Some(first) = waiting.first() {
            let all: Vec<String> =
                waiting.iter().take(6).map(|w| effect::describe_wait(self.walk, state, *w)).collect();
            let facts: Vec<String> = state.facts.0.iter().map(|fact| self.walk.show(fact)).collect();
            let when = if facts.is_empty() { String::new() } else { format!(" (where {})", facts.join(" and ")) };
            return wrong(state.warps[*first].at, format!("nobody goes on{when}: {}", all.join("; ")));
        }
        let last = self.walk.code.function.insts.len().saturating_sub(1);
        for ((block, warp), event) in &state.remote {
            if state.ended[*block].at(*warp) < *event {
                return wrong(
                    last,
                    format!(
                        "block {block} of the cluster may end before {} signals its barrier",
                        effect::who(state, *warp)
                    ),
                );
            }
        }
        for ((block, address), barrier) in &state.barriers {
            let address = address - self.walk.code.first();
            if barrier.copied.is_some_and(|phase| state.ended[*block].at(barrier.component) <= phase) {
                return wrong(
                    last,
                    format!(
                        "block {block} of the cluster may end while a copy to it is under way (the barrier at byte {address} of shared memory)"
                    ),
                );
            }
        }
        Ok(())
    }
}
