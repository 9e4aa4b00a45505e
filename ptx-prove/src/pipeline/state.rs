//! The state of a cluster: its warps, barriers in memory, named barriers, groups of `wgmma`, and the memory of stages.
//!
//! Order is kept as clocks. A component of a clock is a warp, a barrier (its completed phases), the `wgmma` groups of a warp group or the bulk
//! groups of a warp. An event is ordered behind another one if its clock has at least the number of the other one in the component of the other one.

use super::term::{Facts, Poly};
use super::value::Value;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Numbers of events, by component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Rc<Vec<u32>>);

impl Clock {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// The instruction where they meet.
    pub(crate) meet: usize,
    /// The lanes that meet there.
    pub(crate) mask: u32,
    /// Those that have not taken their way yet.
    pub(crate) other: Option<(usize, u32)>,
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
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    /// Committed groups of `wgmma`, and of bulk copies.
    pub(crate) groups: u32,
    pub(crate) bulk: u32,
    /// True if it has arrived at the barrier it waits at.
    pub(crate) arrived: bool,
    /// Phases of the cluster's barrier that it arrived at.
    pub(crate) cluster: u32,
}

/// An `mbarrier`.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) component: usize,
    pub(crate) count: u32,
    pub(crate) pending: u32,
    /// Bytes that are expected and have not arrived.
    pub(crate) bytes: Poly,
    /// Completed phases.
    pub(crate) phase: u32,
    /// The initialization: a warp and its event.
    pub(crate) init: (usize, u32),
    /// Of the arrivals of the current phase, and of the last completed one.
    pub(crate) arrivals: Clock,
    pub(crate) done: Clock,
    /// The waits that passed behind the last completed phase: a warp and its event.
    pub(crate) passed: Vec<(usize, u32)>,
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

/// Bytes that a copy writes.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) block: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The component of the barrier that the copy completes at, and the phases that are complete then.
    pub(crate) full: (usize, u32),
    /// The last reads, by component.
    pub(crate) reads: BTreeMap<usize, u32>,
}

/// A word that one store has written.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) value: Value,
    /// The event behind which it is there.
    pub(crate) event: (usize, u32),
    pub(crate) writes: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) warps: Vec<Warp>,
    /// By block and address.
    pub(crate) barriers: BTreeMap<(usize, u32), Barrier>,
    /// By block and number.
    pub(crate) named: BTreeMap<(usize, u32), Named>,
    pub(crate) cluster: Named,
    pub(crate) stages: Vec<Stage>,
    pub(crate) words: BTreeMap<(usize, u32), Word>,
    /// Events so far, by component.
    pub(crate) events: Vec<u32>,
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

/// Behind so many events nothing is known of a component anymore.
const FAR: u32 = 60;

impl State {
    pub(crate) fn new_component(&mut self) -> usize {
        self.events.push(0);
        self.events.len() - 1
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

    /// The number of events since one.
    fn age(&self, component: usize, event: u32) -> u32 {
        match event {
            0 => FAR,
            event => self.events.get(component).map_or(FAR, |now| now.saturating_sub(event)).min(FAR),
        }
    }

    /// Forgets what lies too far behind: clocks hold less, and what must be ordered is taken to be later.
    pub(crate) fn forget_old(&mut self) {
        let events = self.events.clone();
        let old = |clock: &mut Clock| {
            let is_old = |component: usize, at: u32| {
                at > 0 && events.get(component).is_some_and(|now| now.saturating_sub(at) >= FAR)
            };
            if clock.0.iter().enumerate().any(|(component, at)| is_old(component, *at)) {
                let own = Rc::make_mut(&mut clock.0);
                own.iter_mut()
                    .enumerate()
                    .filter(|(component, at)| is_old(*component, **at))
                    .for_each(|(_, at)| *at = 0);
            }
        };
        let later = |component: usize, event: &mut u32| {
            if *event > 0 {
                *event = (*event).max((events[component] + 1).saturating_sub(FAR));
            }
        };
        let live: Vec<Clock> =
            self.warps.iter().filter(|warp| warp.stop != Stop::Ended).map(|warp| warp.clock.clone()).collect();
        for barrier in self.barriers.values_mut() {
            if live.iter().all(|clock| clock.at(barrier.init.0) >= barrier.init.1) {
                barrier.init = (0, 0);
            }
            old(&mut barrier.arrivals);
            old(&mut barrier.done);
            barrier.passed.iter_mut().for_each(|(warp, event)| later(*warp, event));
        }
        self.warps.iter_mut().for_each(|warp| old(&mut warp.clock));
        self.named.values_mut().chain([&mut self.cluster]).for_each(|named| {
            old(&mut named.arrivals);
            old(&mut named.done);
        });
        self.ended.iter_mut().for_each(&old);
        self.groups.values_mut().flatten().for_each(|(.., clock)| old(clock));
        for stage in &mut self.stages {
            later(stage.full.0, &mut stage.full.1);
            stage.reads.iter_mut().for_each(|(component, event)| later(*component, event));
        }
        self.remote.iter_mut().for_each(|((_, warp), event)| later(*warp, event));
        self.words.values_mut().for_each(|word| later(word.event.0, &mut word.event.1));
    }

    fn ages(&self, clock: &Clock, key: &mut Vec<u32>) {
        key.extend((0..self.events.len()).map(|component| self.age(component, clock.at(component))));
    }

    /// Numbers that are equal for states that differ in the values of flexible registers alone, and these values with their warps and registers.
    pub(crate) fn key(&self, code: &super::code::Code<'_>) -> (Vec<u32>, Vec<Place>) {
        let (mut key, mut flexible) = (Vec::new(), Vec::new());
        for (number, warp) in self.warps.iter().enumerate() {
            let ended = warp.stop == Stop::Ended;
            key.extend([
                warp.at as u32,
                warp.mask,
                warp.live,
                u32::from(ended),
                u32::from(warp.arrived),
                self.cluster.phase.wrapping_sub(warp.cluster),
            ]);
            if ended {
                continue;
            }
            for split in &warp.splits {
                key.extend([split.meet as u32, split.mask]);
                key.extend(split.other.map_or([0, 0], |(at, mask)| [at as u32 + 1, mask]));
            }
            self.ages(&warp.clock, &mut key);
            for register in live(code, warp) {
                value_key(&warp.registers[register as usize], code.rigid[register as usize], &mut key);
                if is_flexible(&warp.registers[register as usize], code.rigid[register as usize]) {
                    flexible.push(Place::Register(number, register));
                }
            }
        }
        for ((block, address), barrier) in &self.barriers {
            key.extend([
                *block as u32,
                *address,
                barrier.phase & 1,
                barrier.pending,
                u32::from(barrier.copied.is_some_and(|copied| copied == barrier.phase)),
            ]);
            key.push(barrier.bytes.known().map_or(u32::MAX, |bytes| bytes as u32));
            key.extend([barrier.init.0 as u32, self.age(barrier.init.0, barrier.init.1)]);
            key.push(barrier.copied.map_or(u32::MAX, |copied| self.age(barrier.component, copied + 1)));
            self.ages(&barrier.arrivals, &mut key);
            self.ages(&barrier.done, &mut key);
            let mut passed: Vec<[u32; 2]> =
                barrier.passed.iter().map(|(warp, event)| [*warp as u32, self.age(*warp, *event)]).collect();
            passed.sort_unstable();
            passed.dedup();
            key.extend(passed.into_iter().flatten());
        }
        for ((block, number), named) in self.named.iter().chain([(&(usize::MAX, 0), &self.cluster)]) {
            key.extend([*block as u32, *number, named.arrived, named.count]);
            self.ages(&named.arrivals, &mut key);
            self.ages(&named.done, &mut key);
        }
        let mut stages: Vec<Vec<u32>> = Vec::new();
        for stage in &self.stages {
            let mut own = vec![
                stage.block as u32,
                stage.from,
                stage.to,
                stage.full.0 as u32,
                self.age(stage.full.0, stage.full.1.min(self.events[stage.full.0])),
            ];
            own.push(stage.full.1.saturating_sub(self.events[stage.full.0]));
            for (component, event) in &stage.reads {
                let age = self.age(*component, *event);
                own.extend([*component as u32, age, event.saturating_sub(self.events[*component])]);
            }
            stages.push(own);
        }
        stages.sort_unstable();
        key.extend(stages.into_iter().flatten());
        for ((block, address), word) in &self.words {
            key.extend([
                *block as u32,
                *address,
                word.writes.min(2),
                word.event.0 as u32,
                self.age(word.event.0, word.event.1),
            ]);
            value_key(&word.value, false, &mut key);
            if is_flexible(&word.value, false) {
                flexible.push(Place::Word(*block, *address));
            }
        }
        for ((block, group), all) in &self.groups {
            key.extend([*block as u32, *group as u32]);
            for (_, warps, clock) in all {
                key.push(*warps);
                self.ages(clock, &mut key);
            }
        }
        for ((block, warp), event) in &self.remote {
            key.extend([*block as u32, *warp as u32, self.age(*warp, *event)]);
        }
        self.ended.iter().for_each(|clock| self.ages(clock, &mut key));
        (key, flexible)
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
    all.sort_unstable();
    all.dedup();
    all
}

fn is_flexible(value: &Value, rigid: bool) -> bool {
    match value {
        Value::Number(_) => !rigid,
        Value::Term(_) | Value::Single(..) | Value::Truth(_) | Value::Chosen(..) => true,
        Value::Unknown | Value::Lanes(_) | Value::Some(..) => false,
    }
}

fn value_key(value: &Value, rigid: bool, key: &mut Vec<u32>) {
    match value {
        Value::Unknown => key.push(0),
        Value::Number(number) if rigid => key.extend([1, *number as u32, (*number >> 32) as u32]),
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
