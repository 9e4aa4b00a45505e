//! A block: its place in the grid and its barriers.

use super::fault::{Fault, FaultKind};
use super::flight::Together;
use super::grid::Grid;
use super::kept::{Keeper, Message};
use super::warp::{Warp, lanes};
use ptx_core::diag::codes;

/// Number of barriers of a block.
pub(super) const BARRIERS: usize = 16;

/// State shared by the threads of a block beside memory.
#[derive(Debug)]
pub(super) struct Block {
    /// `%ctaid`.
    pub id: [u32; 3],
    /// `%cluster_ctarank`.
    pub rank: usize,
    /// The lanes of each warp that have not exited.
    pub live: Vec<u32>,
    /// Reads shared by warpgroups.
    pub together: Together,
    barriers: Vec<Barrier>,
    wakes: Vec<Waiter>,
}

/// One barrier of a block.
#[derive(Clone, Debug, Default)]
struct Barrier {
    /// Lanes that have arrived, by warp.
    arrived: Vec<u32>,
    /// Threads that have arrived, where a count is given; a whole warp counts 32 even if some lanes do not exist.
    count: u32,
    /// Number of threads that must arrive; all of the block's if none is given.
    expected: Option<u32>,
    /// Who waits.
    waiters: Vec<Waiter>,
    /// The predicates of `bar.red`.
    votes: Votes,
}

/// The predicates that arrived at a reduction barrier.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    yes: u32,
    no: u32,
}

/// Combination of the predicates of a `bar.red`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    Popc,
    And,
    Or,
}

/// Lanes that wait at a barrier.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub warp: u32,
    pub lanes: u32,
    /// The register (absolute) that gets the reduction, and which.
    pub result: Option<(u32, Join)>,
    value: u64,
    /// State that those who arrived leave for them.
    message: Message,
}

impl Waiter {
    /// Lanes of a warp that go on once the barrier is complete.
    pub(super) fn new(warp: u32, lanes: u32, result: Option<(u32, Join)>) -> Waiter {
        Waiter { warp, lanes, result, value: 0, message: None }
    }
}

/// An arrival at a barrier.
pub(super) struct Arrival {
    pub warp: u32,
    pub lanes: u32,
    /// Number of threads of the barrier, if the instruction gives it.
    pub expected: Option<u32>,
    /// In how many of the lanes the predicate holds.
    pub yes: u32,
}

impl Block {
    /// A block whose warps have these live lanes.
    pub(super) fn new(id: [u32; 3], rank: usize, live: Vec<u32>) -> Block {
        let barrier = Barrier { arrived: vec![0; live.len()], ..Barrier::default() };
        Block { id, rank, live, together: Together::default(), barriers: vec![barrier; BARRIERS], wakes: Vec::new() }
    }

    /// `%clusterid`.
    pub(super) fn cluster_id(&self, grid: &Grid) -> [u32; 3] {
        std::array::from_fn(|d| self.id[d] / grid.cluster[d])
    }

    /// `%cluster_ctaid`.
    pub(super) fn in_cluster(&self, grid: &Grid) -> [u32; 3] {
        std::array::from_fn(|d| self.id[d] % grid.cluster[d])
    }

    /// Lanes arrive at a barrier, and wait there if `waiter` returns true. `left` gives what goes to those who wait if it opens.
    pub(super) fn arrive(
        &mut self,
        barrier: usize,
        arrival: &Arrival,
        waiter: Option<Waiter>,
        left: impl FnMut(usize) -> Message,
    ) -> Result<(), Fault> {
        let live = self.live.get(arrival.warp as usize).copied().unwrap_or(0);
        let Some(state) = self.barriers.get_mut(barrier) else {
            let message = format!("barrier {barrier}; a block has the barriers 0 to {}", BARRIERS - 1);
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0304));
        };
        let first = state.count == 0 && state.arrived.iter().all(|m| *m == 0);
        if !first && state.expected != arrival.expected {
            let say = |n: Option<u32>| n.map_or("all threads of the block".to_string(), |n| format!("{n} threads"));
            let message = format!(
                "barrier {barrier} for {}, while others wait there for {}",
                say(arrival.expected),
                say(state.expected)
            );
            return Err(Fault::new(FaultKind::Sync, message).code(&codes::W0302));
        }
        state.expected = arrival.expected;
        let leads = live.trailing_zeros() == arrival.lanes.trailing_zeros();
        state.count += arrival.lanes.count_ones() + if leads { 32 - live.count_ones() } else { 0 };
        if let Some(mask) = state.arrived.get_mut(arrival.warp as usize) {
            *mask |= arrival.lanes;
        }
        state.votes.yes += arrival.yes;
        state.votes.no += arrival.lanes.count_ones() - arrival.yes;
        state.waiters.extend(waiter);
        self.complete(barrier, left);
        Ok(())
    }

    /// Lanes of a warp that end: barriers for the whole block no longer wait for them.
    pub(super) fn exit(&mut self, warp: u32, group: u32, mut left: impl FnMut(usize) -> Message) {
        if let Some(live) = self.live.get_mut(warp as usize) {
            *live &= !group;
        }
        (0..BARRIERS).for_each(|b| self.complete(b, &mut left));
    }

    /// Wakes everyone at a barrier if all have arrived.
    fn complete(&mut self, barrier: usize, mut left: impl FnMut(usize) -> Message) {
        let Some(state) = self.barriers.get_mut(barrier).filter(|s| s.count > 0) else { return };
        let done = match state.expected {
            Some(expected) => state.count >= expected,
            None => state.arrived.iter().zip(&self.live).all(|(arrived, live)| live & !arrived == 0),
        };
        if !done {
            return;
        }
        let votes = state.votes;
        let fresh = Barrier { arrived: vec![0; self.live.len()], ..Barrier::default() };
        let old = std::mem::replace(state, fresh);
        let message = left(barrier);
        let value = |w: &Waiter| votes.result(w.result);
        let woken = old.waiters.into_iter().map(|w| Waiter { value: value(&w), message: message.clone(), ..w });
        self.wakes.extend(woken);
    }

    /// Lets woken lanes go on.
    pub(super) fn wake(&mut self, warps: &mut [Warp], observer: Option<&dyn Keeper>) {
        for wake in self.wakes.drain(..) {
            let Some(warp) = warps.get_mut(wake.warp as usize) else { continue };
            warp.waiting &= !wake.lanes;
            if let Some(observer) = observer {
                observer.learn(&mut warp.kept, (wake.lanes, warp.live), &wake.message, true);
            }
            for lane in lanes(wake.lanes) {
                warp.pc[lane] += 1;
                if let Some(register) = wake.result.and_then(|(r, _)| warp.regs.get_mut(r as usize)) {
                    register[lane] = wake.value;
                }
            }
        }
    }

    /// The wait of a lane of a warp, for a message.
    pub(super) fn waits_for(&self, warp: u32, lane: usize) -> Option<String> {
        let is = |w: &Waiter| w.warp == warp && w.lanes >> lane & 1 == 1;
        let (number, barrier) = self.barriers.iter().enumerate().find(|(_, b)| b.waiters.iter().any(is))?;
        let expected = barrier.expected.map_or("all threads of the block".to_string(), |n| format!("{n} threads"));
        Some(format!("at barrier {number} for {expected}; {} have arrived", barrier.count))
    }
}

impl Votes {
    fn result(self, join: Option<(u32, Join)>) -> u64 {
        match join.map(|(_, join)| join) {
            Some(Join::Popc) => u64::from(self.yes),
            Some(Join::And) => u64::from(self.no == 0),
            Some(Join::Or) => u64::from(self.yes > 0),
            None => 0,
        }
    }
}
