//! `mbarrier`s: initialization, arrivals with bytes, and waits.

use super::{Here, Place, operand, place, who};
use crate::pipeline::code::Role;
use crate::pipeline::needs::{Holder, Of};
use crate::pipeline::state::{Barrier, Clock, State, Stop};
use crate::pipeline::term::Poly;
use crate::pipeline::value::{Value, active};
use crate::pipeline::walk::{Done, Halt, Walk};
use ptx_core::ir::{Base, Operand, Symbol};
use std::collections::BTreeMap;

/// A change of a phase: arrivals, and bytes that are expected (added) or come (subtracted).
#[derive(Default)]
pub(super) struct Change {
    pub(super) arrivals: u32,
    pub(super) bytes: Option<(Poly, i128)>,
    /// True if it releases what the lanes know of memory.
    pub(super) releases: bool,
    /// An event that it comes behind.
    pub(super) after: Option<(usize, u32)>,
}

impl Here<'_, '_, '_> {
    /// The barriers at the address of this name, each with the number of lanes.
    fn barriers(&mut self, name: &str) -> Result<Vec<(Place, u32)>, Halt> {
        let Some(address) = self.address(name) else { return self.gap("the barrier is not described") };
        let mut found: BTreeMap<Place, u32> = BTreeMap::new();
        for lane in active(self.lanes) {
            let Some(address) = address.at(lane) else {
                return self.gap("the address of the barrier is not a number: it depends on sizes or on memory");
            };
            *found.entry(self.place(address)).or_insert(0) += 1;
        }
        Ok(found.into_iter().collect())
    }

    pub(super) fn init(&mut self) -> Result<Done, Halt> {
        let Some(count) = self.number("count") else { return self.gap("the count of the barrier is not a number") };
        for (place, _) in self.barriers("addr")? {
            if self.state.barriers.contains_key(&place) {
                return self.gap("a barrier is initialized twice");
            }
            self.walk.marks.insert(place);
            let component = self.state.new_component(false);
            self.state.new_component(true);
            self.state.event(self.w);
            let init = self.state.access(self.w, self.lanes);
            let barrier = Barrier {
                component,
                count: count as u32,
                pending: count as u32,
                bytes: Poly::number(0),
                phase: 0,
                init,
                init_by: (self.w, self.lanes),
                is_fenced: false,
                arrivals: Clock::default(),
                counted: Clock::default(),
                done: Clock::default(),
                passed: Vec::new(),
                expected: Vec::new(),
                copied: None,
            };
            self.state.barriers.insert(place, barrier);
        }
        Ok(Done::Next)
    }

    /// The barrier, if its initialization is behind the lanes.
    fn begun(&self, place: Place) -> Result<&Barrier, Halt> {
        let Some(barrier) = self.state.barriers.get(&place) else {
            return self.wrong("the barrier is not initialized");
        };
        let (component, event) = barrier.init;
        if event > 0 && self.state.known(self.w, self.lanes).at(component) < event {
            return self.wrong(format!(
                "{} may come here before the barrier is initialized, or without a fence or a barrier behind its initialization",
                self.who()
            ));
        }
        Ok(barrier)
    }

    /// Checks that a barrier is ready for lanes, and that what they do is counted in the current phase in every order.
    pub(super) fn ready(&self, place: Place) -> Result<(), Halt> {
        let barrier = self.begun(place)?;
        let phase = ((barrier.component, Of::Phase), barrier.phase);
        if !self.walk.is_behind(self.state, self.w, &self.state.warps[self.w].clock, phase) {
            return self.wrong(format!(
                "{} may come here before the phase before is complete, so that this is counted in it",
                self.who()
            ));
        }
        Ok(())
    }

    /// Counts arrivals and bytes at a barrier.
    pub(super) fn count(&mut self, place: Place, change: Change) -> Result<(), Halt> {
        self.ready(place)?;
        let event = self.state.event(self.w);
        let mut clock =
            if change.releases { self.state.known(self.w, self.lanes) } else { self.state.executed(self.w) };
        if let Some((component, event)) = change.after {
            clock.raise(component, event);
        }
        if place.0 != self.block() {
            self.state.remote.insert((place.0, self.w), event);
        }
        let (w, at) = (self.w, self.at);
        let Some(barrier) = self.state.barriers.get_mut(&place) else { return Ok(()) };
        let Change { arrivals, bytes, .. } = change;
        if barrier.pending < arrivals {
            let more = arrivals - barrier.pending;
            return self.wrong(format!("{more} more arrivals than the barrier counts"));
        }
        barrier.pending -= arrivals;
        barrier.arrivals.join(&clock);
        if arrivals > 0 {
            barrier.counted.join(&clock);
        }
        if let Some((bytes, sign)) = bytes {
            barrier.copied = Some(barrier.phase);
            if arrivals == 0 && sign > 0 {
                barrier.expected.push((w, event));
            }
            match barrier.bytes.plus(&bytes, sign) {
                Some(sum) => barrier.bytes = sum,
                None => return self.gap("the sum of bytes is too long a term"),
            }
        }
        if barrier.pending == 0 && barrier.bytes.known() == Some(0) {
            complete(self.walk, self.state, (w, at), place)?;
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self) -> Result<Done, Halt> {
        let role = self.role();
        let each = match (role, self.operand("count")) {
            (Role::Arrive, Some(_)) => self.number("count").map(|count| count as u32),
            (Role::Expect, _) => Some(0),
            _ => Some(1),
        };
        let Some(each) = each else { return self.gap("the number of arrivals is not a number") };
        let bytes = match self.operand("tx_count") {
            Some(_) => match self.number("tx_count") {
                Some(bytes) => Some(bytes),
                None => {
                    return self.gap("the number of expected bytes is not a number: it depends on sizes or on memory");
                }
            },
            None => None,
        };
        for (place, number) in self.barriers("addr")? {
            let beyond = place.0 != self.block() && self.site.is("cta");
            let change = Change {
                arrivals: each * number,
                bytes: bytes.map(|bytes| (Poly::number(i128::from(bytes as u32) * i128::from(number)), 1)),
                releases: role != Role::Expect && !self.site.is("relaxed") && !beyond,
                after: None,
            };
            self.count(place, change)?;
        }
        Ok(Done::Next)
    }

    /// One arrival that comes behind an event, when the block goes on.
    pub(super) fn arrive_behind(&mut self, name: &str, after: Option<(usize, u32)>) -> Result<(), Halt> {
        for (place, _) in self.barriers(name)? {
            if place.0 != self.block() {
                return self.gap("a `tcgen05.commit` at another block's barrier is not described");
            }
            if let Some(barrier) = self.state.barriers.get_mut(&place) {
                barrier.copied = Some(barrier.phase);
            }
            self.count(place, Change { arrivals: 1, after, ..Change::default() })?;
        }
        Ok(())
    }

    pub(super) fn wait(&mut self) -> Result<Done, Halt> {
        if !self.walk.code.waits_in_loop(self.at) {
            return self.gap("the result of this test is used for more than to wait");
        }
        let Some(parity) = self.number("phase_parity") else {
            return self.gap("the parity of the phase is not a number");
        };
        let all = self.barriers("addr")?;
        for (place, _) in &all {
            if self.begun(*place)?.phase.wrapping_add(1) & 1 != parity as u32 & 1 {
                return Ok(Done::Waits);
            }
        }
        // A scope that is named and narrower than the cluster orders the own block alone.
        let is_narrow = self.site.is("cta") && self.state.ended.len() > 1;
        let acquires = !self.site.is("relaxed") && !is_narrow;
        for (place, _) in all {
            let event = self.state.event(self.w);
            let Some(barrier) = self.state.barriers.get_mut(&place) else { continue };
            let phase = ((barrier.component, Of::Phase), barrier.phase.saturating_sub(1));
            let (known, done) = (self.state.warps[self.w].clock.clone(), barrier.done.clone());
            barrier.passed.push((self.w, event));
            if !self.walk.is_behind(self.state, self.w, &known, phase) {
                let text =
                    "may come here before the phase before the one it waits for is complete, so that it does not wait";
                return self.wrong(format!("{} {text}", self.who()));
            }
            let done = if acquires { done } else { self.state.of_execution(&done) };
            self.state.learn(self.w, self.lanes, |clock| clock.join(&done));
            self.state.warps[self.w].joins(Holder::Memory(place));
        }
        self.write(&Value::Number(1));
        Ok(Done::Next)
    }
}

/// The current phase of a barrier is complete.
fn complete(walk: &Walk<'_, '_>, state: &mut State, (w, at): (usize, usize), place: Place) -> Result<(), Halt> {
    let Some(barrier) = state.barriers.get(&place) else { return Ok(()) };
    let is_early = |(warp, event): &&(usize, u32)| {
        !walk.is_behind(state, w, &barrier.arrivals, ((*warp, Of::Passed(place)), *event))
    };
    // All are looked at, so that all events that are missed are found at once.
    let early = barrier.passed.iter().filter(is_early).last().copied();
    let open = barrier.expected.iter().find(|(warp, event)| barrier.counted.at(*warp) < *event).copied();
    let Some(barrier) = state.barriers.get_mut(&place) else { return Ok(()) };
    barrier.phase += 1;
    barrier.pending = barrier.count;
    barrier.counted = Clock::default();
    barrier.done = std::mem::take(&mut barrier.arrivals);
    barrier.done.raise(barrier.component, barrier.phase);
    barrier.done.raise(barrier.component + 1, barrier.phase);
    barrier.passed.clear();
    barrier.expected.clear();
    let (component, phase) = (barrier.component, barrier.phase);
    state.events[component] = phase;
    state.events[component + 1] = phase;
    if let Some((warp, _)) = early {
        let who = who(state, warp);
        return super::super::walk::wrong(
            at,
            format!("the phase behind completes here, perhaps before {who} has seen the phase that it waits for"),
        );
    }
    if let Some((warp, _)) = open {
        let who = who(state, warp);
        return super::super::walk::wrong(
            at,
            format!("the phase may be complete before {who} has said how many bytes it expects"),
        );
    }
    // Who waits for the phase before would miss it.
    let parity = |phase: u32| phase.wrapping_add(1) & 1;
    for other in 0..state.warps.len() {
        let warp = &state.warps[other];
        if warp.stop != Stop::Waits || walk.code.roles.get(warp.at) != Some(&Role::Wait) || phase < 2 {
            continue;
        }
        let before = ((component, Of::Phase), phase - 1);
        if waits_at(walk, state, other) == Some((place, parity(phase - 1)))
            && !walk.is_behind(state, other, &warp.clock, before)
        {
            return super::super::walk::wrong(at, format!("{} misses the phase that it waits for", who(state, other)));
        }
    }
    Ok(())
}

/// The barrier and the parity that a warp waits for.
fn waits_at(walk: &Walk<'_, '_>, state: &State, w: usize) -> Option<(Place, u32)> {
    let warp = &state.warps[w];
    let site = walk.code.site(warp.at)?;
    let lane = warp.mask.trailing_zeros() as usize;
    let Operand::Memory { base, offset, .. } = operand(&site, "addr")? else { return None };
    let base = match base {
        Base::Reg(register) => warp.registers[register.index()].at(lane)?,
        Base::Symbol(Symbol::Var(id)) => walk.code.shared.iter().find(|(own, _)| own == id)?.1.into(),
        _ => return None,
    };
    let parity = match operand(&site, "phase_parity")? {
        Operand::Reg(register) => warp.registers[register.index()].at(lane)?,
        Operand::Int(value) => *value,
        _ => return None,
    };
    Some((place(state, w, base.wrapping_add(*offset as u64)), parity as u32 & 1))
}

/// The words for a warp that waits.
pub(crate) fn describe_wait(walk: &Walk<'_, '_>, state: &State, w: usize) -> String {
    let name = walk.name_of(state.warps[w].at);
    match waits_at(walk, state, w) {
        Some(((block, address), parity)) => {
            let done = state.barriers.get(&(block, address)).map_or(0, |barrier| barrier.phase);
            let open = state.barriers.get(&(block, address)).map_or(String::new(), |barrier| {
                let bytes = walk.atoms.show(&barrier.bytes);
                format!(", {} of {} arrivals and {bytes} bytes are missing", barrier.pending, barrier.count)
            });
            format!(
                "{} waits for parity {parity} of the barrier at byte {} of shared memory (phase {done}{open})",
                who(state, w),
                address - walk.code.first()
            )
        }
        None => format!("{} waits at `{name}`", who(state, w)),
    }
}
