//! The engine: warps of a block take turns, and lanes that agree run instructions together.
//!
//! `schedule` decides which clusters of a grid run, `ahead` runs blocks on several cores, `spin` finds loops that wait for
//! ever, `deadlock` and `endless` say why nothing goes on, `trace` follows chosen threads.

pub(super) mod ahead;
mod deadlock;
mod endless;
mod schedule;
mod spin;
mod trace;

use super::block::{Arrival, Block, Waiter};
use super::cluster::Shared;
use super::ctx::{Ctx, Flow};
use super::exec::{ExecState, Src};
use super::fault::{Fault, FaultKind};
use super::global::Global;
use super::grid::Grid;
use super::kept::{Keeper, Message};
use super::launch::Stats;
use super::observe::Observer;
use super::program::{Instruction, Program};
use super::progress::Reporter;
use super::trace::Tracer;
use super::warp::{TURN, Warp, lanes};
pub(super) use schedule::Queue;
pub(super) use spin::Patience;

use endless::{endless, given_up};
use trace::Before;

/// Number of instructions of a warp before the next warp's turn.
const QUANTUM: u64 = 4096;
/// Environment of a block's warps.
pub(super) struct Engine<'a> {
    pub program: &'a Program,
    pub grid: &'a Grid<'a>,
    pub global: &'a mut Global,
    pub stats: &'a mut Stats,
    pub observer: Option<&'a dyn Observer>,
    pub tracer: Option<&'a mut Tracer>,
    pub reporter: Option<&'a mut Reporter>,
    /// The clusters that run, in order, if not all do.
    pub chosen: Option<&'a [u64]>,
    /// On how many cores the blocks may run.
    pub cores: usize,
}

impl<'a> Engine<'a> {
    /// Gives every warp of a block turns, until all wait, be it in a loop, or `budget` instructions are spent. Returns true if some warp did more
    /// than look whether it may go on.
    pub(crate) fn run_block(
        &mut self,
        shared: &mut Shared,
        block: &mut Block,
        warps: &mut [Warp],
        budget: u64,
    ) -> Result<bool, Fault> {
        let end = self.stats.warp_instructions.saturating_add(budget);
        let mut worked = false;
        loop {
            let mut idle = true;
            let round = self.stats.warp_instructions;
            for turn in 0..warps.len() {
                shared.wake(block.rank, warps, self.keeper());
                let index = self.grid.turn(turn, warps.len(), round);
                if warps.get(index).is_none_or(|w| w.ready() == 0) {
                    continue;
                }
                let (before, rest) = warps.split_at_mut(index);
                let Some((warp, behind)) = rest.split_first_mut() else { continue };
                idle &= !self.run_warp(shared, block, warp, [before, behind])?;
                block.wake(warps, self.keeper());
            }
            worked |= !idle;
            if idle || shared.contention.yields || self.stats.warp_instructions >= end {
                return Ok(worked);
            }
        }
    }

    /// The observer's own state.
    fn keeper(&self) -> Option<&'a dyn Keeper> {
        self.observer.map(|observer| observer as &dyn Keeper)
    }

    /// The environment of a warp's instructions.
    pub(crate) fn ctx<'c>(&'c mut self, shared: &'c mut Shared, block: &'c mut Block, warp: &'c mut Warp) -> Ctx<'c> {
        Ctx {
            exec: ExecState {
                listing: &self.program.listing,
                grid: self.grid,
                global: self.global,
                stats: self.stats,
                cluster: shared,
                block,
                warp,
            },
            observer: self.observer,
            issuer: 0,
            probe: None,
            tracer: self.tracer.as_deref_mut(),
            others: [&[]; 2],
        }
    }

    /// Runs a warp until it waits, ends, or its turn is over. Says whether it did more than look whether it may go on.
    fn run_warp(
        &mut self,
        shared: &mut Shared,
        block: &mut Block,
        warp: &mut Warp,
        others: [&[Warp]; 2],
    ) -> Result<bool, Fault> {
        let limit = self.grid.step_limit;
        let quantum = self.grid.quantum(QUANTUM, self.stats.warp_instructions);
        if self.stats.warp_instructions >= limit {
            return Err(endless(&self.program.listing, warp, block, limit));
        }
        let begin = self.stats.warp_instructions;
        if self.reporter.as_mut().is_some_and(|reporter| reporter.stops(begin)) {
            return Err(given_up(&self.program.listing, warp, block, begin));
        }
        let end = limit.min(begin.saturating_add(quantum));
        let program = self.program;
        let mut ctx = self.ctx(shared, block, warp);
        ctx.others = others;
        while ctx.stats.warp_instructions < end {
            let Some(group) = ctx.warp.choose() else { break };
            let alone = group == ctx.warp.live;
            let start = ctx.stats.warp_instructions;
            let yields = ctx.run_group(program, group, end)?;
            ctx.warp.turn += if alone { 0 } else { ctx.stats.warp_instructions - start };
            if yields {
                let ran = ctx.stats.warp_instructions - begin;
                return Ok(!ctx.warp.let_others(group, ran));
            }
        }
        ctx.warp.looks.has_worked();
        Ok(true)
    }
}

/// Gives what those who arrived at a barrier of a block left, when it opens.
fn opener<'c>(
    observer: Option<&'c dyn Observer>,
    cluster: &'c mut Shared,
    rank: usize,
) -> impl FnMut(usize) -> Message + use<'c> {
    move |barrier| observer.and_then(|observer| observer.open_barrier(&mut cluster.kept, rank, barrier))
}

impl<'a> Ctx<'a> {
    /// Lanes arrive at a barrier of the block, and wait there if `waiter` returns true.
    pub(crate) fn arrive(&mut self, barrier: usize, arrival: &Arrival, waiter: Option<Waiter>) -> Result<(), Fault> {
        if let Some(observer) = self.observer {
            observer.arrive(self, barrier, arrival.lanes);
        }
        let left = opener(self.observer, self.exec.cluster, self.exec.block.rank);
        self.exec.block.arrive(barrier, arrival, waiter, left)
    }

    /// Lanes end: nobody waits for them any longer.
    pub(crate) fn exit(&mut self, group: u32) {
        // Where they ended.
        let at = self.warp.at;
        self.warp.jump(group, at);
        if let Some(observer) = self.observer {
            observer.exit(self, group);
        }
        let met = self.warp.exit(group);
        self.met(met);
        let (who, keeper) = (self.exec.who(group), self.keeper());
        self.exec.block.exit(who.warp, group, opener(self.observer, self.exec.cluster, who.rank));
        self.cluster.exit(who, keeper);
    }

    /// Runs lanes that agree, as long as they agree and no other lane should come first. Says whether the warp yields.
    pub(crate) fn run_group(&mut self, program: &Program, group: u32, end: u64) -> Result<bool, Fault> {
        let until = self.warp.next_meeting(group);
        let start = self.stats.warp_instructions;
        let end = if until == u32::MAX { end } else { end.min(start + TURN) };
        let mut pc = self.warp.at;
        loop {
            self.warp.at = pc;
            let Some(inst) = program.instructions.get(pc as usize) else {
                return Err(Fault::new(FaultKind::Undefined, "execution ran past the end of the program"));
            };
            if self.tracer.is_some() {
                self.pause(group)?;
            }
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
    fn guarded(&self, inst: &Instruction, group: u32) -> Result<u32, Fault> {
        let Some((slot, negated)) = inst.guard else { return Ok(group) };
        if let Some(observer) = self.told(inst) {
            observer.check_guard(self, group, slot)?;
        }
        let mask = self.fetch_mask(Src::Reg(slot));
        Ok(group & if negated { !mask } else { mask })
    }

    /// The observer, if it is told of an instruction.
    #[inline]
    fn told(&self, inst: &Instruction) -> Option<&'a dyn Observer> {
        self.observer.filter(|_| inst.reported || self.warp.reported)
    }

    /// Runs an instruction in lanes, observed and traced.
    #[inline]
    fn step(&mut self, inst: &Instruction, active: u32) -> Result<Flow, Fault> {
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
            observer.after(self, active)?;
        }
        Ok(flow)
    }

    /// Adds where a fault happened.
    fn locate(&self, mut fault: Fault, active: u32) -> Fault {
        let lane = fault.lane.map_or(active.trailing_zeros() as usize % 32, usize::from);
        let inst = self.listing.code.get(self.warp.at as usize);
        // An annotation has a place of its own.
        fault.span = fault.span.or(inst.map(|i| i.span));
        fault.function = inst.and_then(|i| self.listing.function_name(i.function));
        fault.thread = self.warp.tid.get(lane).copied();
        fault.block = Some(self.block.id);
        fault
    }
}

impl Warp {
    /// A turn of `ran` instructions ends because a group can do nothing before others had a turn. Says whether that is true of
    /// the whole warp.
    fn let_others(&mut self, group: u32, ran: u64) -> bool {
        let alone = self.ready() & !group == 0;
        if !alone {
            self.end_turn();
        }
        self.looks.end_turn(alone, ran)
    }

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
