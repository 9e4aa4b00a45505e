//! Launches of several ranks on one machine: those of a rank run in order, those of different ranks beside each other, and all see the
//! same global memory.
//!
//! The ranks take turns in one order for each seed, so that a run can be repeated. A rank whose threads all wait for others ends its turn
//! at once. Nothing runs between two calls of [`Machine::run_ranks`], so whoever submits from several threads locks the machine.

use super::{Machine, check_launch, find_entry};
use crate::engine::{Engine, Patience, Queue};
use crate::fault::Fault;
use crate::launch::{Launch, Options, Stats};
use crate::mix::mix;
use crate::observe::Observer;
use crate::program::Program;
use crate::watch::{Known, Ranks as Watches, Watch};
use std::collections::VecDeque;
use std::sync::Arc;

/// The most ranks of a machine.
pub const MOST_RANKS: u32 = 1 << 10;

/// Result of a turn.
#[derive(Debug)]
pub enum Turn {
    /// Some rank has run.
    Ran,
    /// The same, and its threads have only looked whether they may go on.
    Looked,
    /// A launch of a rank is over; those behind it have not begun.
    Ended(u32, Result<Stats, Fault>),
    /// Every launch waits for something that only a launch of a rank without any can change. The fault lists the waits. Without such a
    /// rank it is a deadlock.
    Stuck(Box<Fault>),
    /// No rank has a launch.
    Idle,
}

/// The launches of all ranks.
#[derive(Default)]
pub(super) struct Ranks {
    ranks: Vec<Rank>,
    watches: Watches,
    turns: u64,
    /// Warp instructions of all launches, and when to look whether all wait for ever.
    steps: u64,
    patience: Option<Patience>,
}

/// The launches of a rank.
#[derive(Default)]
struct Rank {
    waiting: VecDeque<Waiting>,
    running: Option<Running>,
}

/// A launch that has not begun.
struct Waiting {
    program: Arc<Program>,
    entry: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    dynamic_shared: u32,
    cooperative: bool,
    params: Vec<u8>,
    options: Options,
    /// The host's clocks at the submission.
    host: Arc<Known>,
}

impl Waiting {
    fn launch(&self) -> Launch<'_> {
        Launch {
            entry: &self.entry,
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared: self.dynamic_shared,
            cooperative: self.cooperative,
            params: &self.params,
            options: self.options,
        }
    }
}

/// A launch that has begun.
struct Running {
    submitted: Waiting,
    id: u64,
    queue: Queue,
    stats: Stats,
    watch: Option<Watch>,
}

impl Machine {
    /// Submits a launch of a rank. It begins when those of the rank before it are over, in [`Machine::run_ranks`].
    ///
    /// # Errors
    /// A [`Fault`] if the launch has dimensions, parameters or a size that no device takes.
    pub fn submit(&mut self, rank: u32, program: &Arc<Program>, launch: &Launch) -> Result<(), Fault> {
        check_launch(program, launch, true)?;
        let Launch { entry, grid, block, cluster, dynamic_shared, cooperative, params, options } = *launch;
        let (entry, params, host) = (entry.to_owned(), params.to_vec(), self.ranks.watches.host());
        let program = program.clone();
        let waiting =
            Waiting { program, entry, grid, block, cluster, dynamic_shared, cooperative, params, options, host };
        self.ranks.of(rank).waiting.push_back(waiting);
        self.ranks.patience = None;
        Ok(())
    }

    /// Returns true if launches of a rank wait or run.
    pub fn has_launches(&self, rank: u32) -> bool {
        self.ranks.ranks.get(rank as usize).is_some_and(|rank| rank.running.is_some() || !rank.waiting.is_empty())
    }

    /// The host has waited for all launches of a rank: what is submitted from now on, on any rank, comes after them.
    pub fn meet_host(&mut self, rank: u32) {
        self.ranks.watches.meet_host(rank);
    }

    /// Drops the launches of a rank. Memory holds what they have written so far.
    pub fn abandon(&mut self, rank: u32) {
        let gone = std::mem::take(self.ranks.of(rank));
        if gone.running.is_some() {
            self.ranks.watches.end(rank, None);
        }
        self.ranks.patience = None;
    }

    /// Gives one rank a turn.
    pub fn run_ranks(&mut self) -> Turn {
        let mut ranks = std::mem::take(&mut self.ranks);
        let turn = self.run_turn(&mut ranks);
        self.ranks = ranks;
        turn
    }

    fn run_turn(&mut self, ranks: &mut Ranks) -> Turn {
        for rank in 0..ranks.ranks.len() {
            if let Err(fault) = self.begin(ranks, rank) {
                return Turn::Ended(rank as u32, Err(fault.of_rank(rank as u32)));
            }
        }
        let Some(rank) = ranks.next() else { return Turn::Idle };
        let Some(mut running) = ranks.ranks[rank].running.take() else { return Turn::Idle };
        let (before, worked) = (running.stats.warp_instructions, running.queue.worked);
        let result = self.run_one(rank as u32, &mut running);
        ranks.steps = ranks.steps.saturating_add(running.stats.warp_instructions - before);
        match result {
            Ok(false) => {
                let ran = if running.queue.worked == worked { Turn::Looked } else { Turn::Ran };
                ranks.ranks[rank].running = Some(running);
                self.look_for_deadlock(ranks).unwrap_or(ran)
            }
            result => {
                ranks.patience = None;
                ranks.watches.end(rank as u32, running.watch);
                let seed = running.submitted.options.seed;
                let result = result.map(|_| running.stats);
                Turn::Ended(rank as u32, result.map_err(|fault| fault.seed(seed).of_rank(rank as u32)))
            }
        }
    }

    /// Begins the next launch of a rank, if none runs.
    fn begin(&mut self, ranks: &mut Ranks, rank: usize) -> Result<(), Fault> {
        let Some(state) = ranks.ranks.get_mut(rank).filter(|rank| rank.running.is_none()) else { return Ok(()) };
        let Some(submitted) = state.waiting.pop_front() else { return Ok(()) };
        self.load(rank as u32, &submitted.program)?;
        self.launches += 1;
        let (id, launch) = (self.launches, submitted.launch());
        let watched = (&mut self.past, &mut self.global);
        let watch = ranks.watches.watch(watched, &submitted.program, &launch, (rank as u32, &submitted.host));
        let clusters = (0..3).map(|d| u64::from(launch.grid[d] / launch.cluster[d].max(1))).product();
        let (queue, stats) = (Queue::beside_others(clusters), Stats::default());
        ranks.ranks[rank].running = Some(Running { submitted, id, queue, stats, watch });
        Ok(())
    }

    /// Runs each resident cluster of a launch once; returns true if the launch is over.
    fn run_one(&mut self, rank: u32, running: &mut Running) -> Result<bool, Fault> {
        self.with_engine(rank, running, |engine, entry, queue| {
            let left = std::cell::Cell::new(queue.count_resident() + 1);
            engine.drain(entry, queue, |_, _| left.replace(left.get().saturating_sub(1)) == 0)?;
            Ok(queue.is_done())
        })
    }

    /// Calls `act` with the engine of a launch.
    fn with_engine<R>(
        &mut self,
        rank: u32,
        Running { submitted, id, queue, stats, watch }: &mut Running,
        act: impl FnOnce(&mut Engine, &crate::listing::Entry, &mut Queue) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let (program, launch) = (&*submitted.program, submitted.launch());
        let entry = find_entry(program, launch.entry)?;
        let loaded = self.loaded.get(&(rank, program.id)).ok_or_else(super::not_loaded)?;
        let grid = super::grid_of(*id, (program, entry), &launch, (loaded, &self.textures));
        let mut engine = Engine {
            program,
            grid: &grid,
            global: &mut self.global,
            stats,
            observer: watch.as_ref().map(|watch| watch as &dyn Observer),
            tracer: None,
            reporter: None,
            chosen: None,
            cores: 1,
        };
        act(&mut engine, entry, queue)
    }

    /// Finds out whether all that run wait for ever. `None` if not.
    fn look_for_deadlock(&mut self, ranks: &mut Ranks) -> Option<Turn> {
        let steps = ranks.steps;
        let mut patience = *ranks.patience.get_or_insert_with(|| Patience::new(steps));
        if !patience.is_over(steps) {
            return None;
        }
        let mut found: Option<Fault> = None;
        for (rank, state) in ranks.ranks.iter_mut().enumerate() {
            let Some(running) = &mut state.running else { continue };
            let stuck = self
                .with_engine(rank as u32, running, |engine, entry, queue| {
                    engine.find_deadlock(entry, queue, &mut patience)
                })
                .map(|stuck| stuck.map(|fault| fault.of_rank(rank as u32)));
            match stuck {
                Ok(Some(fault)) => found = Some(found.take().map_or_else(|| fault.clone(), |all| all.also(&fault))),
                Ok(None) => {
                    patience.grow(steps);
                    ranks.patience = Some(patience);
                    return None;
                }
                Err(fault) => {
                    if let Some(running) = state.running.take() {
                        ranks.watches.end(rank as u32, running.watch);
                    }
                    return Some(Turn::Ended(rank as u32, Err(fault.of_rank(rank as u32))));
                }
            }
        }
        ranks.patience = None;
        found.map(|fault| Turn::Stuck(Box::new(fault)))
    }
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranks").field("ranks", &self.ranks.len()).finish_non_exhaustive()
    }
}

impl Ranks {
    /// So many ranks will have launches.
    pub(super) fn expect(&mut self, count: u32) {
        self.watches.expect(count);
    }

    fn of(&mut self, rank: u32) -> &mut Rank {
        let at = rank.min(MOST_RANKS) as usize;
        if self.ranks.len() <= at {
            self.ranks.resize_with(at + 1, Rank::default);
        }
        &mut self.ranks[at]
    }

    /// The rank whose turn it is: in order with seed 0, else any.
    fn next(&mut self) -> Option<usize> {
        let running: Vec<usize> = (0..self.ranks.len()).filter(|at| self.ranks[*at].running.is_some()).collect();
        let first = running.first().and_then(|at| self.ranks[*at].running.as_ref())?;
        let seed = first.submitted.options.seed;
        let at = if seed == 0 { self.turns } else { mix(seed ^ mix(self.turns)) };
        self.turns += 1;
        Some(running[at as usize % running.len()])
    }
}
