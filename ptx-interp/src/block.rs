//! A block: its place in the grid, its barriers, and how its warps take turns.

use super::cluster::{Shared, Who};
use super::ctx::{Ctx, Flow, Src};
use super::endless::endless;
use super::fault::{Fault, FaultKind};
use super::flight::Together;
use super::global::Global;
use super::grid::Grid;
use super::launch::Stats;
use super::observe::{Message, Observer};
use super::program::{Code, Program};
use super::trace::{Before, Tracer};
use super::warp::{TURN, Warp, lanes};
use ptx_core::diag::codes;

/// Number of instructions of a warp before the next warp's turn.
const QUANTUM: u64 = 4096;
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

    /// Lanes arrive at a barrier, and wait there if `waiter` says so. `left` gives what goes to those who wait if it opens.
    fn arrive(
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
    fn exit(&mut self, warp: u32, group: u32, mut left: impl FnMut(usize) -> Message) {
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
    pub(super) fn wake(&mut self, warps: &mut [Warp], observer: Option<&dyn Observer>) {
        for wake in self.wakes.drain(..) {
            let Some(warp) = warps.get_mut(wake.warp as usize) else { continue };
            warp.waiting &= !wake.lanes;
            if let Some(observer) = observer {
                observer.learn(warp, wake.lanes, &wake.message, true);
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

/// Environment of a block's warps.
pub(super) struct Engine<'a> {
    pub program: &'a Program,
    pub grid: &'a Grid<'a>,
    pub global: &'a mut Global,
    pub stats: &'a mut Stats,
    pub observer: Option<&'a dyn Observer>,
    pub tracer: Option<&'a mut Tracer>,
    /// On how many cores the blocks may run.
    pub cores: usize,
}

impl Engine<'_> {
    /// Gives every warp of a block turns, until all wait, be it in a loop, or `budget` instructions are spent.
    pub(super) fn run_block(
        &mut self,
        shared: &mut Shared,
        block: &mut Block,
        warps: &mut [Warp],
        budget: u64,
    ) -> Result<(), Fault> {
        let end = self.stats.warp_instructions.saturating_add(budget);
        loop {
            let mut idle = true;
            let round = self.stats.warp_instructions;
            for turn in 0..warps.len() {
                shared.wake(block.rank, warps, self.observer);
                let index = self.grid.turn(turn, warps.len(), round);
                let Some(warp) = warps.get_mut(index).filter(|w| w.ready() != 0) else { continue };
                idle &= !self.run_warp(shared, block, warp)?;
                block.wake(warps, self.observer);
            }
            if idle || self.stats.warp_instructions >= end {
                return Ok(());
            }
        }
    }

    /// The environment of a warp's instructions.
    pub(super) fn ctx<'c>(&'c mut self, shared: &'c mut Shared, block: &'c mut Block, warp: &'c mut Warp) -> Ctx<'c> {
        Ctx {
            program: self.program,
            grid: self.grid,
            global: self.global,
            stats: self.stats,
            cluster: shared,
            block,
            warp,
            observer: self.observer,
            issuer: 0,
            probe: None,
            tracer: self.tracer.as_deref_mut(),
        }
    }

    /// Runs a warp until it waits, ends, or its turn is over. Says whether it did more than look whether it may go on.
    fn run_warp(&mut self, shared: &mut Shared, block: &mut Block, warp: &mut Warp) -> Result<bool, Fault> {
        let limit = self.grid.step_limit;
        let quantum = self.grid.quantum(QUANTUM, self.stats.warp_instructions);
        if self.stats.warp_instructions >= limit {
            return Err(endless(self.program, warp, block, limit));
        }
        let begin = self.stats.warp_instructions;
        let end = limit.min(begin.saturating_add(quantum));
        let mut ctx = self.ctx(shared, block, warp);
        while ctx.stats.warp_instructions < end {
            let Some(group) = ctx.warp.choose() else { break };
            let alone = group == ctx.warp.live;
            let start = ctx.stats.warp_instructions;
            let yields = ctx.run_group(group, end)?;
            ctx.warp.turn += if alone { 0 } else { ctx.stats.warp_instructions - start };
            if yields {
                return Ok(!ctx.warp.let_others(group, ctx.stats.warp_instructions - begin));
            }
        }
        ctx.warp.has_worked();
        Ok(true)
    }
}

impl<'a> Ctx<'a> {
    /// Lanes arrive at a barrier of the block, and wait there if `waiter` says so.
    pub(super) fn arrive(&mut self, barrier: usize, arrival: &Arrival, waiter: Option<Waiter>) -> Result<(), Fault> {
        if let Some(observer) = self.observer {
            observer.arrive(self, barrier, arrival.lanes);
        }
        let (observer, cluster, rank) = (self.observer, &mut *self.cluster, self.block.rank);
        let left = |barrier| observer.and_then(|observer| observer.open_barrier(cluster, rank, barrier));
        self.block.arrive(barrier, arrival, waiter, left)
    }

    /// Lanes end: nobody waits for them any longer.
    pub(super) fn exit(&mut self, group: u32) {
        // Where they ended.
        self.warp.jump(group, self.warp.at);
        if let Some(observer) = self.observer {
            observer.exit(self, group);
        }
        let met = self.warp.exit(group);
        self.met(met);
        let (observer, cluster, rank) = (self.observer, &mut *self.cluster, self.block.rank);
        let left = |barrier| observer.and_then(|observer| observer.open_barrier(cluster, rank, barrier));
        self.block.exit(self.warp.index, group, left);
        self.cluster.exit(Who { rank, warp: self.warp.index, lanes: group }, self.observer);
    }

    /// Runs lanes that agree, as long as they agree and no other lane should come first. Says whether the warp yields.
    pub(super) fn run_group(&mut self, group: u32, end: u64) -> Result<bool, Fault> {
        let until = self.warp.next_meeting(group);
        let start = self.stats.warp_instructions;
        let end = if until == u32::MAX { end } else { end.min(start + TURN) };
        let program = self.program;
        let mut pc = self.warp.at;
        loop {
            self.warp.at = pc;
            let Some(inst) = program.code.get(pc as usize) else {
                return Err(Fault::new(FaultKind::Undefined, "execution ran past the end of the program"));
            };
            let active = self.guarded(inst, group).map_err(|fault| self.locate(fault, group))?;
            self.stats.warp_instructions += 1;
            self.stats.instructions += u64::from(active.count_ones());
            let flow = match active {
                0 => Flow::Next,
                _ => self.step(inst, active).map_err(|fault| self.locate(fault, active))?,
            };
            match flow {
                Flow::Next => pc += 1,
                Flow::Jump(to) if active == group => pc = to,
                Flow::Jump(to) => {
                    self.warp.jump(active, to);
                    self.warp.jump(group & !active, pc + 1);
                    return Ok(false);
                }
                Flow::Apart => {
                    self.warp.jump(group & !active, pc + 1);
                    return Ok(false);
                }
                Flow::Yield => {
                    self.warp.jump(group, pc + 1);
                    return Ok(true);
                }
                Flow::Again => {
                    self.warp.jump(group, pc);
                    return Ok(true);
                }
            }
            if pc >= until || self.stats.warp_instructions >= end {
                self.warp.jump(group, pc);
                return Ok(false);
            }
        }
    }

    /// The lanes of a group that an instruction's guard lets through.
    #[inline]
    fn guarded(&self, inst: &Code, group: u32) -> Result<u32, Fault> {
        let Some((slot, negated)) = inst.guard else { return Ok(group) };
        if let Some(observer) = self.told(inst) {
            observer.check_guard(self, group, slot)?;
        }
        let mask = self.fetch_mask(Src::Reg(slot));
        Ok(group & if negated { !mask } else { mask })
    }

    /// The observer, if it is told of an instruction.
    #[inline]
    fn told(&self, inst: &Code) -> Option<&'a dyn Observer> {
        self.observer.filter(|_| inst.reported || self.warp.reported)
    }

    /// Runs an instruction in lanes, observed and traced.
    #[inline]
    fn step(&mut self, inst: &Code, active: u32) -> Result<Flow, Fault> {
        let observer = self.told(inst);
        if let Some(observer) = observer {
            observer.before(self, active)?;
        }
        let before = if self.tracer.is_some() { self.before(active) } else { Before::new() };
        let flow = (inst.step)(self, active)?;
        if self.tracer.is_some() && flow != Flow::Again {
            self.trace(active, &before);
        }
        if let (Some(observer), Flow::Next | Flow::Yield) = (observer, flow) {
            observer.after(self, active);
        }
        Ok(flow)
    }

    /// Adds where a fault happened.
    fn locate(&self, mut fault: Fault, active: u32) -> Fault {
        let lane = fault.lane.map_or(active.trailing_zeros() as usize % 32, usize::from);
        let inst = self.program.code.get(self.warp.at as usize);
        fault.span = inst.map(|i| i.span);
        fault.function = inst.and_then(|i| self.program.function_name(i.function));
        fault.thread = self.warp.tid.get(lane).copied();
        fault.block = Some(self.block.id);
        fault
    }
}

impl Warp {
    /// The program counter at which the running group should look around again: where the nearest other lanes are. It
    /// is 0 (at once) while somebody else has the turn, and never for a warp that agrees.
    fn next_meeting(&self, group: u32) -> u32 {
        let others = (self.ready() | self.meeting) & !group;
        if others == 0 {
            return u32::MAX;
        }
        let nearest = lanes(others).filter(|&lane| self.base[lane] == self.origin).map(|lane| self.pc[lane]).min();
        let nearest = nearest.unwrap_or(u32::MAX);
        if self.others_turn() || nearest <= self.at { 0 } else { nearest.min(u32::MAX - 1) }
    }
}
