//! The state of a cluster: its warps, barriers in memory, named barriers, groups of `wgmma`, and the memory of stages.
//!
//! Order is kept as clocks. A component of a clock is a warp, a barrier (its completed phases), the `wgmma` groups of a warp group or the bulk
//! groups of a warp. An event is ordered behind another one if its clock has at least the number of the other one in the component of the other one.
//!
//! A warp and a barrier have two components each: one for the order in which instructions execute, and one for the order of accesses to memory. A
//! relaxed arrival or the bytes of a copy pass on the first one alone. Lanes of a warp execute together where they branch alike, but their accesses
//! are ordered only where they synchronize: what one lane has waited for is not there for the others, and one lane does not release their accesses.

use super::filled::Filled;
use super::needs::{Holder, Need, Needs, Of};
use super::term::{Facts, Poly};
use super::value::Value;
use ptx_target::sort::SortSmall;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Numbers of events, by component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Rc<Vec<u32>>);

impl Clock {
    /// The least of both, in the components that are chosen; elsewhere this one.
    fn least(&self, other: &Clock, chosen: impl Fn(usize) -> bool) -> Clock {
        let own = self.0.iter().enumerate();
        Clock(Rc::new(own.map(|(at, own)| if chosen(at) { (*own).min(other.at(at)) } else { *own }).collect()))
    }

    /// Clears the components that are chosen.
    fn clear(&mut self, chosen: impl Fn(usize, u32) -> bool) {
        if self.0.iter().enumerate().any(|(component, at)| *at > 0 && chosen(component, *at)) {
            let own = Rc::make_mut(&mut self.0);
            own.iter_mut().enumerate().filter(|(component, at)| chosen(*component, **at)).for_each(|(_, at)| *at = 0);
        }
    }

    /// The last of the marks at or before each component, of those that are passed on.
    fn round(&mut self, marks: &[Vec<(u32, Of)>], passes: &dyn Fn(Need) -> bool) {
        let last = |component: usize, at: u32| {
            let count = marks[component].partition_point(|(mark, _)| *mark <= at);
            let own = marks[component][..count].iter().rev().find(|(_, of)| passes((component, *of)));
            own.map_or(0, |(event, _)| *event)
        };
        let rounded: Vec<u32> =
            self.0.iter().enumerate().map(|(at, own)| if *own == 0 { 0 } else { last(at, *own) }).collect();
        if rounded != **self.0 {
            self.0 = Rc::new(rounded);
        }
    }

    pub(crate) fn at(&self, component: usize) -> u32 {
        self.0.get(component).copied().unwrap_or(0)
    }

    pub(crate) fn raise(&mut self, component: usize, to: u32) {
        if self.at(component) < to {
            let own = Rc::make_mut(&mut self.0);
            if own.len() <= component {
                own.resize(component + 1, 0);
            }
            own[component] = to;
        }
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        if Rc::ptr_eq(&self.0, &other.0) {
            return;
        }
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        for (component, value) in other.0.iter().enumerate() {
            self.raise(component, *value);
        }
    }
}

/// Lanes that wait for others of their warp behind a branch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Split {
    /// The instruction where they meet.
    pub(crate) meet: usize,
    /// The lanes that meet there.
    pub(crate) mask: u32,
    /// Those that have not taken their way yet.
    pub(crate) other: Option<(usize, u32)>,
    /// Both sides, if all lanes execute both, because the condition of the branch is not described.
    pub(crate) both: Option<Both>,
}

/// Both sides of a branch, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Both {
    /// The registers at the branch, and then those at the end of its first side.
    pub(crate) registers: Rc<Vec<Value>>,
    /// True if all lanes take the same side.
    pub(crate) is_uniform: bool,
    /// True if the lanes were synchronized before, so that they are behind a synchronization on one side.
    pub(crate) is_synchronized: bool,
}

/// The reason why a warp does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It goes on.
    None,
    /// It waits.
    Waits,
    /// A condition is open.
    Open(Poly),
    Ended,
}

/// A group of `wgmma`: its number, the warps that committed it, and their clocks.
pub(crate) type Group = (u32, u32, Clock);

#[derive(Clone, Debug)]
pub(crate) struct Warp {
    pub(crate) block: usize,
    /// In the block.
    pub(crate) index: usize,
    pub(crate) at: usize,
    pub(crate) mask: u32,
    /// Lanes that have not ended.
    pub(crate) live: u32,
    pub(crate) splits: Vec<Split>,
    pub(crate) registers: Rc<Vec<Value>>,
    /// The events that it is behind; those of memory are before all lanes, unless some are behind.
    pub(crate) clock: Clock,
    /// Lanes that are behind all events of the clock, and the clock of the others.
    pub(crate) behind: Option<(u32, Clock)>,
    /// Lanes that have accessed memory since the lanes synchronized.
    pub(crate) since: u32,
    pub(crate) stop: Stop,
    /// Committed groups of `wgmma`, and of bulk copies.
    pub(crate) groups: u32,
    pub(crate) bulk: u32,
    /// The lanes that begin bulk copies, and the last group that has one.
    pub(crate) bulk_lanes: u32,
    pub(crate) stored: u32,
    /// The lane that issues `tcgen05` instructions.
    pub(crate) tensor_lanes: u32,
    /// The lanes of the last `tcgen05.fence::after_thread_sync`, and the order that they were behind there.
    pub(crate) fenced: (u32, Clock),
    /// True if it has arrived at the barrier it waits at.
    pub(crate) arrived: bool,
    /// Phases of the cluster's barrier that it arrived at.
    pub(crate) cluster: u32,
    /// The barriers that it came behind last, in order.
    pub(crate) joined: Vec<Holder>,
    /// The states since it moved.
    pub(crate) open: u32,
}

impl Warp {
    /// It comes behind a barrier.
    pub(crate) fn joins(&mut self, holder: Holder) {
        self.joined.retain(|own| *own != holder);
        if self.joined.len() == RECENT {
            self.joined.remove(0);
        }
        self.joined.push(holder);
    }
}

/// The most barriers that a warp came behind last.
const RECENT: usize = 4;

/// An `mbarrier`.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    /// Of its phases; the next one is that of the memory behind them.
    pub(crate) component: usize,
    pub(crate) count: u32,
    pub(crate) pending: u32,
    /// Bytes that are expected and have not arrived.
    pub(crate) bytes: Poly,
    /// Completed phases.
    pub(crate) phase: u32,
    /// The initialization: an event, and the lanes of the warp that did it.
    pub(crate) init: (usize, u32),
    pub(crate) init_by: (usize, u32),
    /// True behind a fence that copies need.
    pub(crate) is_fenced: bool,
    /// Of the arrivals of the current phase, and of the last completed one.
    pub(crate) arrivals: Clock,
    pub(crate) done: Clock,
    /// Of the arrivals alone, without copies: the phase is complete only behind them.
    pub(crate) counted: Clock,
    /// The waits that passed behind the last completed phase: a warp and its event.
    pub(crate) passed: Vec<(usize, u32)>,
    /// Bytes that are expected without an arrival: the same.
    pub(crate) expected: Vec<(usize, u32)>,
    /// The last phase that bytes are counted in.
    pub(crate) copied: Option<u32>,
}

/// A named barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) component: usize,
    pub(crate) phase: u32,
    pub(crate) arrived: u32,
    pub(crate) count: u32,
    pub(crate) arrivals: Clock,
    pub(crate) done: Clock,
}

/// The last write of a warp by its instructions, and the fences that show it to copies and products: whoever is behind one of them sees it. Of those behind
/// another one, that one counts alone.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) event: u32,
    pub(crate) fences: BTreeMap<usize, u32>,
}

impl Written {
    pub(crate) fn new(event: u32) -> Written {
        Written { event, fences: BTreeMap::new() }
    }
}

/// Bytes that copies and products access.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) block: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The component of the barrier that the copy completes at, and the phases that are complete then.
    pub(crate) full: (usize, u32),
    /// The last reads, by component.
    pub(crate) reads: BTreeMap<usize, u32>,
    /// The last writes since the copy, by component.
    pub(crate) writes: BTreeMap<usize, Written>,
}

impl Stage {
    pub(crate) fn new((block, from, to): (usize, u32, u32), full: (usize, u32)) -> Stage {
        Stage { block, from, to, full, reads: BTreeMap::new(), writes: BTreeMap::new() }
    }
}

/// A word that a store of one thread has written.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// Of the last store.
    pub(crate) value: Value,
    /// The event behind which it is there.
    pub(crate) event: (usize, u32),
    /// The last reads that have got the value, by component.
    pub(crate) reads: BTreeMap<usize, u32>,
    /// True if it depends on the order of the events which store is the last one.
    pub(crate) is_torn: bool,
}

impl Word {
    pub(crate) fn new(value: Value, event: (usize, u32)) -> Word {
        Word { value, event, reads: BTreeMap::new(), is_torn: false }
    }
}

/// Columns of tensor memory: the address where the address of their allocation is, the first one there, and the one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Columns {
    pub(crate) slot: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Columns {
    /// Returns true if both have a column in common.
    pub(crate) fn meet(&self, other: &Columns) -> bool {
        self.slot == other.slot && self.from < other.to && other.from < self.to
    }
}

/// A kind of what a warp issues for columns of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issued {
    pub(crate) component: usize,
    pub(crate) pipe: super::effect::Pipe,
    pub(crate) columns: Columns,
}

/// The loads and stores of columns by a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Stores, and loads, that the warp has not waited for.
    Open([bool; 2]),
    /// Behind the wait for them, which is this event.
    Complete((usize, u32)),
    /// Behind `tcgen05.fence::before_thread_sync`, which is this event.
    Fenced((usize, u32)),
}

impl Taken {
    /// Stores, and loads, that the warp has not waited for.
    pub(crate) fn open(self) -> [bool; 2] {
        match self {
            Taken::Open(open) => open,
            Taken::Complete(_) | Taken::Fenced(_) => [false; 2],
        }
    }

    /// The event behind which they are complete.
    pub(crate) fn end(self) -> Option<(usize, u32)> {
        match self {
            Taken::Open(_) => None,
            Taken::Complete(event) | Taken::Fenced(event) => Some(event),
        }
    }
}

/// The tensor memory of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tensor {
    /// The number of columns, by the address where theirs is.
    pub(crate) slots: BTreeMap<u32, u32>,
    /// The last event of each kind of what is issued.
    pub(crate) issued: BTreeMap<Issued, u32>,
    /// By warp and the columns that it loads or stores.
    pub(crate) taken: BTreeMap<(usize, Columns), Taken>,
    /// Columns that were written: of each slot, in each quarter of the lanes.
    pub(crate) filled: Filled,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) warps: Vec<Warp>,
    /// By block and address.
    pub(crate) barriers: BTreeMap<(usize, u32), Barrier>,
    /// By block and number.
    pub(crate) named: BTreeMap<(usize, u32), Named>,
    pub(crate) cluster: Named,
    /// The component of waits for the launch before: one event, which is the end of that launch.
    pub(crate) waited: Option<usize>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) words: BTreeMap<(usize, u32), Word>,
    /// Bytes that were written.
    pub(crate) filled: Filled,
    /// By block.
    pub(crate) tensor: BTreeMap<usize, Tensor>,
    /// Events so far, by component.
    pub(crate) events: Vec<u32>,
    /// By component: the events that others must come behind, since they were forgotten last.
    pub(crate) marks: Vec<Vec<u32>>,
    /// By component: the groups that are waited for, since events were forgotten last.
    pub(crate) settled: Vec<u32>,
    /// By component: true if it orders accesses to memory, and not execution.
    pub(crate) of_memory: Vec<bool>,
    /// The last groups of each warp group.
    pub(crate) groups: BTreeMap<(usize, usize), Vec<Group>>,
    /// By block: the last event of each warp that another block is signalled by.
    pub(crate) remote: BTreeMap<(usize, usize), u32>,
    /// By block: the joined clocks of the warps that have ended.
    pub(crate) ended: Vec<Clock>,
    pub(crate) facts: Facts,
}

/// The place of a value whose numbers may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Register(usize, u32),
    Word(usize, u32),
}

/// Behind so many groups nothing is concluded from a wait.
const FAR: u32 = 60;
/// The keys of groups that may be waited for are behind those of ranks.
const PENDING: u32 = 1 << 16;

impl State {
    pub(crate) fn new_component(&mut self, of_memory: bool) -> usize {
        self.events.push(0);
        self.of_memory.push(of_memory);
        self.events.len() - 1
    }

    /// The component of a warp's accesses to memory.
    pub(crate) fn memory(&self, warp: usize) -> usize {
        self.warps.len() + warp
    }

    /// One more access of lanes of a warp.
    pub(crate) fn access(&mut self, warp: usize, lanes: u32) -> (usize, u32) {
        let component = self.memory(warp);
        self.events[component] += 1;
        self.warps[warp].since |= lanes;
        (component, self.events[component])
    }

    /// The lanes of a warp synchronize, unless they may be on another side of a branch.
    pub(crate) fn synchronize(&mut self, warp: usize) {
        let component = self.memory(warp);
        let now = self.events[component];
        let own = &mut self.warps[warp];
        let mut both = own.splits.iter().filter_map(|split| split.both.as_ref());
        if !both.all(|both| both.is_uniform && both.is_synchronized) {
            return;
        }
        (own.behind, own.since) = (None, 0);
        own.clock.raise(component, now);
    }

    /// The order that lanes of a warp are behind, with their own accesses.
    pub(crate) fn known(&self, warp: usize, lanes: u32) -> Clock {
        let own = &self.warps[warp];
        let mut clock = match &own.behind {
            Some((ahead, known)) if lanes & !ahead != 0 => own.clock.least(known, |at| self.of_memory[at]),
            _ => own.clock.clone(),
        };
        if own.since & !lanes == 0 {
            let component = self.memory(warp);
            clock.raise(component, self.events[component]);
        }
        clock
    }

    /// Its order of execution alone.
    pub(crate) fn executed(&self, warp: usize) -> Clock {
        self.of_execution(&self.warps[warp].clock)
    }

    /// The order of execution of a clock.
    pub(crate) fn of_execution(&self, clock: &Clock) -> Clock {
        clock.least(&Clock::default(), |at| self.of_memory[at])
    }

    /// Lanes of a warp come behind others.
    pub(crate) fn learn(&mut self, warp: usize, lanes: u32, what: impl Fn(&mut Clock)) {
        let own = &mut self.warps[warp];
        let before = own.clock.clone();
        what(&mut own.clock);
        let is_whole = own.live & !lanes == 0;
        match &mut own.behind {
            None if is_whole => {}
            None => own.behind = Some((lanes, before)),
            Some((_, known)) if is_whole => what(known),
            Some((ahead, _)) => *ahead &= lanes,
        }
    }

    /// One more event of a warp.
    pub(crate) fn event(&mut self, warp: usize) -> u32 {
        self.events[warp] += 1;
        let new = self.events[warp];
        self.warps[warp].clock.raise(warp, new);
        new
    }

    pub(crate) fn value(&self, place: Place) -> &Value {
        match place {
            Place::Register(warp, register) => &self.warps[warp].registers[register as usize],
            Place::Word(block, address) => {
                self.words.get(&(block, address)).map_or(&Value::Unknown, |word| &word.value)
            }
        }
    }

    pub(crate) fn set(&mut self, place: Place, value: Value) {
        match place {
            Place::Register(warp, register) => Rc::make_mut(&mut self.warps[warp].registers)[register as usize] = value,
            Place::Word(block, address) => {
                if let Some(word) = self.words.get_mut(&(block, address)) {
                    word.value = value;
                }
            }
        }
    }

    /// By component: the event up to which waits that count groups back from the last one have come. Only behind it the distance to the last one counts.
    fn settled(&self) -> Vec<u32> {
        let mut settled = vec![u32::MAX; self.events.len()];
        let mut waits = |component: usize, warp: &Warp| {
            let behind = warp.behind.as_ref().map_or(u32::MAX, |(_, known)| known.at(component));
            settled[component] = settled[component].min(warp.clock.at(component)).min(behind);
        };
        for (number, warp) in self.warps.iter().enumerate() {
            waits(super::effect::bulk(self, number), warp);
            waits(super::effect::tensor_of(self.warps.len(), warp.block, warp.index / 4), warp);
        }
        settled
    }

    /// The rank of an event among those that others must come behind; of groups that may be waited for, their distance from the last one.
    fn age(&self, component: usize, event: u32) -> u32 {
        match event {
            0 => FAR,
            event if self.settled.get(component).is_some_and(|settled| event > *settled) => {
                PENDING + self.events[component].saturating_sub(event).min(FAR)
            }
            event => self.marks.get(component).map_or(0, |marks| marks.partition_point(|mark| *mark <= event)) as u32,
        }
    }

    /// Forgets what no check depends on. An event that all warps are behind needs no place, because all that comes is behind them. A clock counts by the
    /// last event at or before it that others must come behind. Groups that are too far behind are taken to be later.
    pub(crate) fn forget_old(&mut self, needs: &Needs) {
        self.forget_common();
        self.settled = self.settled();
        for stage in &mut self.stages {
            let settled = &self.settled;
            for (component, event) in stage.reads.iter_mut().filter(|(component, event)| **event > settled[**component])
            {
                *event = (*event).max((self.events[*component] + 1).saturating_sub(FAR));
            }
        }
        let marks = self.marks();
        self.marks = marks.iter().map(|own| own.iter().map(|(event, _)| *event).collect()).collect();
        self.marks.iter_mut().for_each(Vec::dedup);
        let round = |clock: &mut Clock| clock.round(&marks, &|_| true);
        self.groups.values_mut().flatten().for_each(|(.., clock)| round(clock));
        self.ended.iter_mut().for_each(round);
        self.warps.iter_mut().for_each(|warp| {
            round(&mut warp.clock);
            warp.behind.iter_mut().for_each(|(_, known)| round(known));
            round(&mut warp.fenced.1);
        });
        for (place, barrier) in &mut self.barriers {
            let own = barrier.component;
            let passes = |need: Need| need.0 == own || need.0 == own + 1 || needs.has(Holder::Memory(*place), need);
            for clock in [&mut barrier.arrivals, &mut barrier.counted, &mut barrier.done] {
                clock.round(&marks, &passes);
            }
        }
        for (place, named) in &mut self.named {
            let passes = |need: Need| need.0 == named.component || needs.has(Holder::Number(*place), need);
            [&mut named.arrivals, &mut named.done].into_iter().for_each(|clock| clock.round(&marks, &passes));
        }
        let passes = |need: Need| needs.has(Holder::Cluster, need);
        [&mut self.cluster.arrivals, &mut self.cluster.done].into_iter().for_each(|clock| clock.round(&marks, &passes));
    }

    /// By component: the events that others must come behind, in order.
    fn marks(&self) -> Vec<Vec<(u32, Of)>> {
        let mut marks = vec![Vec::new(); self.events.len()];
        let mut mark = |component: usize, event: u32, of: Of| marks[component].push((event, of));
        for (place, barrier) in &self.barriers {
            mark(barrier.init.0, barrier.init.1, Of::Other);
            barrier.passed.iter().for_each(|(warp, event)| mark(*warp, *event, Of::Passed(*place)));
            barrier.expected.iter().for_each(|(warp, event)| mark(*warp, *event, Of::Other));
            mark(barrier.component, barrier.phase, Of::Phase);
            mark(barrier.component, barrier.phase.saturating_sub(1), Of::Phase);
            barrier.copied.iter().for_each(|copied| mark(barrier.component, copied + 1, Of::Phase));
        }
        self.named.values().for_each(|named| mark(named.component, named.phase, Of::Phase));
        self.remote.iter().for_each(|((_, warp), event)| mark(*warp, *event, Of::Other));
        self.waited.iter().for_each(|component| mark(*component, 1, Of::Other));
        for (number, warp) in self.warps.iter().enumerate() {
            mark(super::effect::bulk(self, number), warp.stored, Of::Other);
            // It looks for its own arrival.
            if warp.arrived {
                mark(number, warp.clock.at(number), Of::Other);
            }
        }
        for stage in &self.stages {
            let place = (stage.block, stage.from);
            mark(stage.full.0, stage.full.1, Of::Phase);
            stage.reads.iter().for_each(|(component, event)| mark(*component, *event, Of::Read(place)));
            for (component, written) in &stage.writes {
                mark(*component, written.event, Of::Written(place));
                written.fences.iter().for_each(|(component, event)| mark(*component, *event, Of::Shown(place)));
            }
        }
        for (place, word) in &self.words {
            mark(word.event.0, word.event.1, Of::Other);
            word.reads.iter().for_each(|(component, event)| mark(*component, *event, Of::Read(*place)));
        }
        for ((block, group), all) in &self.groups {
            let component = super::effect::tensor_of(self.warps.len(), *block, *group);
            all.iter().for_each(|(number, ..)| mark(component, *number, Of::Other));
        }
        for tensor in self.tensor.values() {
            tensor.issued.iter().for_each(|(own, event)| mark(own.component, *event, Of::Other));
            let ends = tensor.taken.values().filter_map(|own| own.end());
            ends.for_each(|(component, event)| mark(component, event, Of::Other));
        }
        for own in &mut marks {
            own.retain(|(event, _)| *event > 0);
            own.sort_small_by_key(|(event, _)| *event);
        }
        marks
    }

    /// Changes the clocks that warps join.
    fn clocks(&mut self, change: &dyn Fn(&mut Clock)) {
        for barrier in self.barriers.values_mut() {
            [&mut barrier.arrivals, &mut barrier.counted, &mut barrier.done].into_iter().for_each(change);
        }
        for named in self.named.values_mut() {
            [&mut named.arrivals, &mut named.done].into_iter().for_each(change);
        }
        [&mut self.cluster.arrivals, &mut self.cluster.done].into_iter().for_each(change);
        self.groups.values_mut().flatten().for_each(|(.., clock)| change(clock));
    }

    /// Forgets events that all warps are behind that go on.
    fn forget_common(&mut self) {
        let live: Vec<(usize, Clock)> = self
            .warps
            .iter()
            .filter(|warp| warp.stop != Stop::Ended)
            .map(|warp| (warp.block, warp.behind.as_ref().map_or(&warp.clock, |(_, known)| known).clone()))
            .collect();
        let least = |component: usize| live.iter().map(|(_, clock)| clock.at(component)).min().unwrap_or(0);
        let common: Vec<u32> = (0..self.events.len()).map(least).collect();
        let all = |component: usize, event: u32| common[component] >= event;
        // Blocks end behind all of their warps.
        for (block, clock) in self.ended.iter_mut().enumerate() {
            clock.clear(|component, event| {
                live.iter().any(|(own, other)| *own == block && other.at(component) >= event)
            });
        }
        for barrier in self.barriers.values_mut() {
            if all(barrier.init.0, barrier.init.1) {
                barrier.init = (0, 0);
            }
            barrier.passed.retain(|(warp, event)| !all(*warp, *event));
            barrier.expected.retain(|(warp, event)| !all(*warp, *event));
        }
        for stage in &mut self.stages {
            if all(stage.full.0, stage.full.1) {
                stage.full = (0, 0);
            }
            // Some are behind a copy because they are behind a read.
            let is_full = stage.full == (0, 0);
            stage.reads.retain(|component, event| !(is_full && all(*component, *event)));
            stage.writes.retain(|component, written| {
                let is_shown = written.fences.iter().any(|(component, event)| all(*component, *event));
                !(is_shown && all(*component, written.event))
            });
        }
        for number in 0..self.warps.len() {
            let component = super::effect::bulk(self, number);
            let warp = &mut self.warps[number];
            if warp.clock.at(component) >= warp.stored {
                warp.stored = 0;
            }
        }
        for word in self.words.values_mut() {
            if all(word.event.0, word.event.1) {
                word.event = (0, 0);
            }
            word.reads.retain(|component, event| !all(*component, *event));
        }
        self.lift(&common);
        let is_behind = |block: usize, warp: usize, event: u32| {
            self.ended[block].at(warp) >= event
                || live.iter().any(|(own, clock)| *own == block && clock.at(warp) >= event)
        };
        let mut remote = std::mem::take(&mut self.remote);
        remote.retain(|(block, warp), event| !is_behind(*block, *warp, *event));
        self.remote = remote;
    }

    /// Lifts clocks that warps join to what all warps are behind that go on: whoever joins one is behind that already, so that clocks which differ in
    /// nothing else are equal. A warp that waits at a named barrier looks for its own arrival in the clock there, and no events of its own are lifted.
    fn lift(&mut self, common: &[u32]) {
        let mut floor = common.to_vec();
        self.warps.iter().enumerate().filter(|(_, warp)| warp.arrived).for_each(|(number, _)| floor[number] = 0);
        let floor = Clock(Rc::new(floor));
        self.clocks(&|clock| clock.join(&floor));
    }

    fn ages(&self, clock: &Clock, key: &mut Vec<u32>) {
        key.extend((0..self.events.len()).map(|component| self.age(component, clock.at(component))));
    }

    /// Numbers that are equal for states that differ in the values of flexible registers alone, and these values with their warps and registers.
    pub(crate) fn key(&self, code: &super::code::Code<'_>) -> (Vec<u32>, Vec<Place>) {
        let (mut key, mut flexible) = (vec![self.events.len() as u32], Vec::new());
        for number in 0..self.warps.len() {
            self.warp_key(code, number, &mut key, &mut flexible);
        }
        self.barriers.iter().for_each(|(place, barrier)| self.barrier_key(*place, barrier, &mut key));
        key.push(self.named.len() as u32);
        for ((block, number), named) in self.named.iter().chain([(&(usize::MAX, 0), &self.cluster)]) {
            key.extend([
                *block as u32,
                *number,
                named.component as u32,
                named.arrived,
                named.count,
                named.phase.min(1),
            ]);
            self.ages(&named.arrivals, &mut key);
            self.ages(&named.done, &mut key);
        }
        let mut stages: Vec<Vec<u32>> = self.stages.iter().map(|stage| self.stage_key(stage)).collect();
        stages.sort_small();
        key.push(stages.len() as u32);
        key.extend(stages.into_iter().flatten());
        key.push(self.words.len() as u32);
        for ((block, address), word) in &self.words {
            key.extend([*block as u32, *address, word.is_torn.into(), word.reads.len() as u32]);
            self.event_key(word.event, &mut key);
            word.reads.iter().for_each(|(component, event)| self.event_key((*component, *event), &mut key));
            value_key(&word.value, false, &mut key);
            if is_flexible(&word.value, false) {
                flexible.push(Place::Word(*block, *address));
            }
        }
        for ((block, group), all) in &self.groups {
            key.extend([*block as u32, *group as u32, all.len() as u32]);
            for (number, warps, clock) in all {
                let component = super::effect::tensor_of(self.warps.len(), *block, *group);
                key.extend([*warps, self.events[component].wrapping_sub(*number)]);
                self.ages(clock, &mut key);
            }
        }
        self.filled.key(&mut key);
        self.tensor.iter().for_each(|(block, tensor)| self.tensor_key(*block, tensor, &mut key));
        key.push(self.remote.len() as u32);
        for ((block, warp), event) in &self.remote {
            key.extend([*block as u32, *warp as u32]);
            self.event_key((*warp, *event), &mut key);
        }
        self.ended.iter().for_each(|clock| self.ages(clock, &mut key));
        key.extend(self.waited.map(|component| component as u32));
        (key, flexible)
    }

    /// Numbers that are equal for states whose terms may be joined: where warps are, and the kinds of what is in flexible places.
    pub(crate) fn shape(&self, places: &[Place]) -> Vec<u32> {
        let mut key: Vec<u32> = self.warps.iter().flat_map(|warp| [warp.at as u32, warp.live, warp.mask]).collect();
        for place in places {
            key.extend(match place {
                Place::Register(warp, register) => [*warp as u32, *register],
                Place::Word(block, address) => [*block as u32, *address],
            });
            value_key(self.value(*place), false, &mut key);
        }
        key
    }

    /// An event that others must come behind: its component, its age, and by how much it is taken to be later.
    fn event_key(&self, (component, event): (usize, u32), key: &mut Vec<u32>) {
        let now = self.events.get(component).copied().unwrap_or(0);
        key.extend([component as u32, self.age(component, event), event.saturating_sub(now)]);
    }

    fn warp_key(&self, code: &super::code::Code<'_>, number: usize, key: &mut Vec<u32>, flexible: &mut Vec<Place>) {
        let warp = &self.warps[number];
        let ended = warp.stop == Stop::Ended;
        let tensor = super::effect::tensor_of(self.warps.len(), warp.block, warp.index / 4);
        key.extend([
            warp.at as u32,
            warp.mask,
            warp.live,
            u32::from(ended),
            u32::from(warp.arrived),
            self.cluster.phase.wrapping_sub(warp.cluster),
            warp.bulk_lanes,
            self.events[tensor].wrapping_sub(warp.groups),
        ]);
        self.event_key((super::effect::bulk(self, number), warp.stored), key);
        if ended {
            return;
        }
        key.extend([warp.since, warp.splits.len() as u32, warp.tensor_lanes, warp.fenced.0]);
        if warp.fenced.0 != 0 {
            self.ages(&warp.fenced.1, key);
        }
        for split in &warp.splits {
            key.extend([split.meet as u32, split.mask]);
            key.extend(split.other.map_or([0, 0], |(at, mask)| [at as u32 + 1, mask]));
        }
        self.ages(&warp.clock, key);
        match &warp.behind {
            Some((ahead, known)) => {
                key.extend([1, *ahead]);
                self.ages(known, key);
            }
            None => key.push(0),
        }
        for register in live(code, warp) {
            let (value, rigid) = (&warp.registers[register as usize], code.rigid[register as usize]);
            key.push(register);
            value_key(value, rigid, key);
            if is_flexible(value, rigid) {
                flexible.push(Place::Register(number, register));
            }
        }
    }

    fn barrier_key(&self, (block, address): (usize, u32), barrier: &Barrier, key: &mut Vec<u32>) {
        key.extend([
            block as u32,
            address,
            barrier.component as u32,
            barrier.count,
            // A clock without a phase is behind the first ones alone.
            barrier.phase.min(2 + (barrier.phase & 1)),
            barrier.pending,
            u32::from(barrier.copied.is_some_and(|copied| copied == barrier.phase)),
            u32::from(barrier.is_fenced),
        ]);
        // Bytes are numbers: see `arrive` and `copy`.
        key.push(barrier.bytes.known().map_or(u32::MAX, |bytes| bytes as u32));
        self.event_key(barrier.init, key);
        key.push(barrier.copied.map_or(u32::MAX, |copied| self.age(barrier.component, copied + 1)));
        [&barrier.arrivals, &barrier.counted, &barrier.done].into_iter().for_each(|clock| self.ages(clock, key));
        for list in [&barrier.passed, &barrier.expected] {
            let mut own: Vec<[u32; 2]> =
                list.iter().map(|(warp, event)| [*warp as u32, self.age(*warp, *event)]).collect();
            own.sort_small();
            own.dedup();
            key.push(own.len() as u32);
            key.extend(own.into_iter().flatten());
        }
    }

    fn tensor_key(&self, block: usize, tensor: &Tensor, key: &mut Vec<u32>) {
        key.extend([block as u32, tensor.slots.len() as u32, tensor.issued.len() as u32, tensor.taken.len() as u32]);
        tensor.slots.iter().for_each(|(slot, columns)| key.extend([*slot, *columns]));
        tensor.filled.key(key);
        for (own, event) in &tensor.issued {
            key.extend([own.pipe as u32, own.columns.slot, own.columns.from, own.columns.to]);
            self.event_key((own.component, *event), key);
        }
        for ((warp, columns), taken) in &tensor.taken {
            key.extend([*warp as u32, columns.slot, columns.from, columns.to]);
            match taken {
                Taken::Open(open) => key.extend([1, open[0].into(), open[1].into()]),
                Taken::Complete(event) | Taken::Fenced(event) => {
                    key.push(if matches!(taken, Taken::Fenced(_)) { 3 } else { 2 });
                    self.event_key(*event, key);
                }
            }
        }
    }

    fn stage_key(&self, stage: &Stage) -> Vec<u32> {
        let mut key =
            vec![stage.block as u32, stage.from, stage.to, stage.reads.len() as u32, stage.writes.len() as u32];
        self.event_key(stage.full, &mut key);
        stage.reads.iter().for_each(|(component, event)| self.event_key((*component, *event), &mut key));
        for (component, written) in &stage.writes {
            self.event_key((*component, written.event), &mut key);
            key.push(written.fences.len() as u32);
            written.fences.iter().for_each(|(component, event)| self.event_key((*component, *event), &mut key));
        }
        key
    }
}

/// The registers that are read from where a warp is, or from where its lanes meet.
pub(crate) fn live(code: &super::code::Code<'_>, warp: &Warp) -> Vec<u32> {
    let mut all: Vec<u32> = code.live.get(warp.at).cloned().unwrap_or_default();
    for split in &warp.splits {
        for at in [Some(split.meet), split.other.map(|(at, _)| at)].into_iter().flatten() {
            all.extend(code.live_at(at));
        }
    }
    all.sort_small();
    all.dedup();
    all
}

/// Numbers with the highest bit of 32 may have a sign, and stay as they are.
fn is_rigid(number: u64, rigid: bool) -> bool {
    rigid || number >> 31 != 0
}

fn is_flexible(value: &Value, rigid: bool) -> bool {
    match value {
        Value::Number(number) => !is_rigid(*number, rigid),
        Value::Term(_) | Value::Single(..) | Value::Truth(_) | Value::Chosen(..) => true,
        Value::Unknown | Value::Uniform | Value::Lanes(_) | Value::Some(..) => false,
    }
}

fn value_key(value: &Value, rigid: bool, key: &mut Vec<u32>) {
    match value {
        Value::Unknown => key.push(0),
        Value::Uniform => key.push(8),
        Value::Number(number) if is_rigid(*number, rigid) => key.extend([1, *number as u32, (*number >> 32) as u32]),
        // A number and a term may become one term.
        Value::Number(_) | Value::Term(_) => key.push(2),
        Value::Lanes(lanes) => {
            key.push(3);
            key.extend(lanes.iter().flat_map(|lane| [*lane as u32, (*lane >> 32) as u32]));
        }
        Value::Some(mask, lanes) => {
            key.extend([7, *mask]);
            key.extend(lanes.iter().flat_map(|lane| [*lane as u32, (*lane >> 32) as u32]));
        }
        Value::Single(lane, _) => key.extend([4, *lane as u32]),
        Value::Truth(cond) => {
            key.push(5);
            cond.shape(key);
        }
        Value::Chosen(lane, cond) => {
            key.extend([6, *lane as u32]);
            cond.shape(key);
        }
    }
}
