//! Barriers of warps, blocks and clusters, and fences.

use super::{Here, bulk};
use crate::pipeline::needs::{Holder, Of};
use crate::pipeline::state::{Named, State, Stop};
use crate::pipeline::walk::{Done, Halt};

impl Here<'_, '_, '_> {
    pub(super) fn sync(&mut self) -> Result<Done, Halt> {
        let Some(id) = self.number("a") else { return self.gap("the number of the barrier is not a number") };
        let threads: u64 = self.walk.block.iter().map(|extent| u64::from(*extent)).product();
        let count = match self.operand("b") {
            Some(_) => self.number("b"),
            None => Some(threads.next_multiple_of(32)),
        };
        let Some(count) = count else { return self.gap("the number of threads of the barrier is not a number") };
        if !self.is_whole() {
            return self.gap("a barrier that a part of a warp comes to is not described");
        }
        let (w, key) = (self.w, (self.block(), id as u32));
        if !self.state.named.contains_key(&key) {
            let component = self.state.new_component(false);
            self.state.named.insert(key, Named { component, count: count as u32, ..Named::default() });
        }
        let is_arrival = self.role() == crate::pipeline::code::Role::SyncArrive;
        if !self.state.warps[w].arrived {
            self.state.synchronize(w);
            self.state.event(w);
            let clock = self.state.warps[w].clock.clone();
            let is_behind =
                |named: &Named| self.walk.is_behind(self.state, w, &clock, ((named.component, Of::Phase), named.phase));
            let has_left = self.state.named.get(&key).is_none_or(is_behind);
            let Some(named) = self.state.named.get_mut(&key) else { return Ok(Done::Next) };
            if named.count != count as u32 && named.arrived == 0 {
                named.count = count as u32;
            }
            if named.count != count as u32 {
                return self.wrong(format!("threads at barrier {id} expect different numbers of threads"));
            }
            if !has_left {
                return self
                    .wrong(format!("{} may come to barrier {id} before the threads before have left it", self.who()));
            }
            named.arrived += 32;
            named.arrivals.join(&clock);
            if named.arrived > named.count {
                return self.wrong(format!("more threads come to barrier {id} than it counts"));
            }
            // The phase that it waits for is this one.
            if named.arrived == named.count {
                named.phase += 1;
                named.arrived = 0;
                named.done = std::mem::take(&mut named.arrivals);
                named.done.raise(named.component, named.phase);
                let (component, phase) = (named.component, named.phase);
                self.state.events[component] = phase;
            }
            self.state.warps[w].arrived = !is_arrival;
            if is_arrival {
                return Ok(Done::Next);
            }
        }
        let Some(named) = self.state.named.get(&key) else { return Ok(Done::Next) };
        // It is complete if the warp is among those whose arrivals were counted.
        if named.done.at(w) < self.state.warps[w].clock.at(w) {
            return Ok(Done::Waits);
        }
        let done = named.done.clone();
        self.state.learn(w, self.lanes, |clock| clock.join(&done));
        self.state.warps[w].joins(Holder::Number(key));
        self.state.warps[w].arrived = false;
        Ok(Done::Next)
    }

    /// Lanes that wait for each other; of a part of the warp, nothing is concluded.
    pub(super) fn warp_sync(&mut self) -> Result<Done, Halt> {
        let mask = match self.site.inst.operands.len() {
            0 => Some(u64::from(u32::MAX)),
            _ => match self.site.operand(0) {
                ptx_core::ir::Operand::Int(mask) => Some(*mask),
                operand => self.walk.source(self.state, self.w, operand, 32).at(self.lanes.trailing_zeros() as usize),
            },
        };
        if self.is_whole() && mask.is_some_and(|mask| mask as u32 & self.lanes == self.lanes) {
            self.state.synchronize(self.w);
        }
        Ok(Done::Next)
    }

    /// Barriers that the lanes have initialized are visible to everybody behind them, and to copies.
    pub(super) fn init_fence(&mut self) -> Result<Done, Halt> {
        let event = self.state.event(self.w);
        for barrier in self.state.barriers.values_mut().filter(|barrier| barrier.init_by.0 == self.w) {
            if barrier.init_by.1 & !self.lanes == 0 && !barrier.is_fenced {
                (barrier.init, barrier.is_fenced) = ((self.w, event), true);
            }
        }
        Ok(Done::Next)
    }

    /// All writes that the lanes are behind are visible to copies and products behind this.
    pub(super) fn proxy_fence(&mut self) -> Result<Done, Halt> {
        let known = self.state.known(self.w, self.lanes);
        let fence = self.state.access(self.w, self.lanes);
        for stage in &mut self.state.stages {
            for (component, written) in &mut stage.writes {
                let is_shown = written.fences.iter().any(|(component, event)| known.at(*component) >= *event);
                if known.at(*component) >= written.event && !is_shown {
                    written.fences.insert(fence.0, fence.1);
                }
            }
        }
        for barrier in self.state.barriers.values_mut() {
            barrier.is_fenced |= known.at(barrier.init.0) >= barrier.init.1;
        }
        Ok(Done::Next)
    }

    pub(super) fn cluster_arrive(&mut self) -> Result<Done, Halt> {
        if !self.is_whole() {
            return self.gap("a barrier that a part of a warp comes to is not described");
        }
        let w = self.w;
        self.state.event(w);
        let clock = match self.site.is("relaxed") {
            true => self.state.executed(w),
            false => self.state.known(w, self.lanes),
        };
        if self.state.cluster.component == 0 {
            self.state.cluster.component = self.state.new_component(false);
            self.state.cluster.count = self.state.warps.len() as u32;
        }
        if self.state.warps[w].cluster != self.state.cluster.phase {
            return self.wrong(format!("{} arrives twice at the barrier of the cluster", self.who()));
        }
        self.state.warps[w].cluster += 1;
        self.state.cluster.arrived += 1;
        self.state.cluster.arrivals.join(&clock);
        complete_cluster(self.state);
        Ok(Done::Next)
    }

    pub(super) fn cluster_wait(&mut self) -> Result<Done, Halt> {
        let w = self.w;
        if self.state.warps[w].cluster == 0 {
            return self.wrong("a wait for the barrier of the cluster without an arrival");
        }
        if self.state.cluster.phase < self.state.warps[w].cluster {
            return Ok(Done::Waits);
        }
        let done = self.state.cluster.done.clone();
        self.state.learn(w, self.lanes, |clock| clock.join(&done));
        self.state.warps[w].joins(Holder::Cluster);
        Ok(Done::Next)
    }
}

impl Here<'_, '_, '_> {
    /// The launch before has ended, with all of its accesses.
    pub(super) fn grid_wait(&mut self) -> Result<Done, Halt> {
        let component = match self.state.waited {
            Some(component) => component,
            None => self.state.new_component(true),
        };
        self.state.waited = Some(component);
        self.state.events[component] = 1;
        self.state.learn(self.w, self.lanes, |clock| clock.raise(component, 1));
        Ok(Done::Next)
    }

    /// Returns true if the lanes are behind the end of the launch before.
    pub(super) fn is_behind_grid(&self) -> bool {
        self.state.waited.is_some_and(|component| self.state.known(self.w, self.lanes).at(component) > 0)
    }
}

/// Completes the cluster's barrier if all warps that have not ended have arrived.
pub(crate) fn complete_cluster(state: &mut State) {
    let phase = state.cluster.phase;
    let all = state.warps.iter().all(|warp| warp.cluster > phase || warp.stop == Stop::Ended && warp.live == 0);
    if state.cluster.component == 0 || !all || state.cluster.arrived == 0 {
        return;
    }
    let own = &mut state.cluster;
    own.phase += 1;
    own.arrived = 0;
    own.done = std::mem::take(&mut own.arrivals);
    own.done.raise(own.component, own.phase);
    let (component, phase) = (own.component, own.phase);
    state.events[component] = phase;
}

/// The words for a bulk copy that may still read shared memory when its warp ends.
pub(crate) fn open_copy(state: &State, w: usize) -> Option<String> {
    let warp = &state.warps[w];
    (warp.stored > warp.clock.at(bulk(state, w)))
        .then(|| format!("{} may end while its bulk copies read shared memory", super::who(state, w)))
}
