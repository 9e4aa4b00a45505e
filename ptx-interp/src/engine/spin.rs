//! Loops that wait for what nobody changes: a launch in which every warp that runs comes back to the state in which it was,
//! and memory with it, will do so for ever.
//!
//! Looking for that costs, so the engine looks for it only when no warp has ended and no barrier has opened for long. The warps go on
//! running while they are looked at; nothing that they do is lost.

use super::Engine;
use crate::block::Block;
use crate::cluster::{Cluster, Shared};
use crate::exec::ExecState;
use crate::fault::Fault;
use crate::probe::{Probe, Read};
use crate::space::Place;
use crate::warp::{Lanes, Warp, lanes};

/// After how many warp instructions without an event the engine looks for the first time.
const PATIENCE: u64 = 1 << 19;
/// Maximum wait until the next look.
const LONGEST: u64 = 1 << 26;
/// Number of instructions in which a warp must return to its state, at first and at last.
const FIRST: u64 = 1 << 10;
const LAST: u64 = 1 << 16;
/// When to look, and how far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    next: u64,
    interval: u64,
    steps: u64,
    retries: u32,
}

impl Patience {
    /// Something has happened for which a thread could wait.
    pub(crate) fn new(now: u64) -> Patience {
        Patience { next: now.saturating_add(PATIENCE), interval: PATIENCE, steps: FIRST, retries: 4 }
    }

    /// Never looks.
    pub(super) fn endless() -> Patience {
        Patience { next: u64::MAX, ..Patience::new(0) }
    }

    /// Returns true if it is time to look.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Nothing was found: the next look comes later and goes further.
    pub(crate) fn grow(&mut self, now: u64) {
        self.interval = (self.interval * 2).min(LONGEST);
        self.steps = (self.steps * 4).min(LAST);
        self.next = now.saturating_add(self.interval);
    }

    /// Returns true if those who wait may try again, after all others were found to spin.
    pub(super) fn retries(&mut self) -> bool {
        self.retries = self.retries.saturating_sub(1);
        self.retries > 0
    }
}

/// A warp that comes back to where it was.
#[derive(Debug)]
pub(super) struct Spin {
    pub block: [u32; 3],
    pub warp: u32,
    pub lanes: u32,
    /// The instruction of the first lane, and what it reads again and again.
    pub pc: u32,
    pub reads: Option<Read>,
}

/// State that decides the continuation of a warp.
#[derive(PartialEq)]
struct State {
    pc: [u32; 32],
    base: [u32; 32],
    stopped: [u32; 5],
    regs: Vec<Lanes>,
}

impl State {
    fn of(warp: &Warp) -> State {
        State { pc: warp.pc, base: warp.base, stopped: stopped(warp), regs: warp.regs.clone() }
    }

    fn is(&self, warp: &Warp) -> bool {
        self.pc == warp.pc && self.base == warp.base && self.stopped == stopped(warp) && self.regs == warp.regs
    }
}

fn stopped(warp: &Warp) -> [u32; 5] {
    [warp.live, warp.waiting, warp.meeting, warp.syncing, warp.carry]
}

impl Engine<'_> {
    /// State for which every warp that can run spins; `None` if one does not.
    pub(super) fn all_spin<'c>(
        &mut self,
        clusters: impl Iterator<Item = &'c mut Cluster>,
        patience: &Patience,
    ) -> Result<Option<Vec<Spin>>, Fault> {
        let mut spins = Vec::new();
        for Cluster { shared, blocks } in clusters {
            for (block, warps) in blocks {
                let all = self.block_spins(shared, block, warps, (patience.steps, &mut spins));
                // Who has come to a barrier meanwhile may have opened it.
                block.wake(warps, self.keeper());
                if !all? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(spins).filter(|spins| !spins.is_empty()))
    }

    fn block_spins(
        &mut self,
        shared: &mut Shared,
        block: &mut Block,
        warps: &mut [Warp],
        (steps, spins): (u64, &mut Vec<Spin>),
    ) -> Result<bool, Fault> {
        for warp in warps.iter_mut().filter(|warp| warp.ready() != 0) {
            match self.spins(shared, block, warp, steps)? {
                Some(spin) => spins.push(spin),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Runs a warp until it is in the state in which it is now, every lane had its turn, and memory is as it was.
    fn spins(
        &mut self,
        shared: &mut Shared,
        block: &mut Block,
        warp: &mut Warp,
        steps: u64,
    ) -> Result<Option<Spin>, Fault> {
        let (before, ready, probe) = (State::of(warp), warp.ready(), Probe::default());
        let mut ran = 0;
        let program = self.program;
        let mut ctx = self.ctx(shared, block, warp);
        ctx.probe = Some(&probe);
        for _ in 0..steps {
            if ctx.stats.warp_instructions >= ctx.grid.step_limit {
                return Ok(None);
            }
            let Some(group) = ctx.warp.choose() else { return Ok(None) };
            let alone = group == ctx.warp.live;
            let next = ctx.stats.warp_instructions + 1;
            ctx.run_group(program, group, next)?;
            ctx.warp.turn += u64::from(!alone);
            ran |= group;
            if ready & !ran == 0 && before.is(ctx.warp) {
                return Ok(if ctx.as_before(&probe) { Some(ctx.spin(&probe)) } else { None });
            }
        }
        Ok(None)
    }
}

impl ExecState<'_> {
    /// Returns true if all that was written since is what was there.
    fn as_before(&self, probe: &Probe) -> bool {
        let touched = probe.0.borrow();
        let same = |(place, lane, old): &(Place, usize, Vec<u8>)| {
            self.bytes_at(*place, *lane, old.len() as u64).is_some_and(|now| now == old.as_slice())
        };
        !touched.full && touched.writes.iter().all(same)
    }

    fn spin(&self, probe: &Probe) -> Spin {
        let lane = lanes(self.warp.ready()).next().unwrap_or(0);
        Spin {
            block: self.block.id,
            warp: self.warp.index,
            lanes: self.warp.ready(),
            pc: self.warp.pc[lane],
            reads: probe.0.borrow().reads.first().copied(),
        }
    }
}
