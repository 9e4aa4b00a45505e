//! Blocks that run ahead on other cores, with the result that one core gives, bit for bit, and the same findings.
//!
//! The rest of a grid is cut into parts. The first goes on as ever; each other runs on a copy of global memory. All note which
//! bytes they touch. In the grid's order each part is then compared with those before it: if none has written what the other has
//! touched, it saw what it would have seen in its turn, and its bytes are taken over; else it was in vain and runs again.
//! What blocks see of each other apart from memory's bytes (atomics' order, clocks, `malloc`) keeps a program on one core, see
//! `Program::alone`.
//!
//! In an observed launch each part has an observer of its own, which begins with what was known when the part began. The engine
//! takes over what it has seen together with the bytes. It does not take over a part with a fault, nor one beside strong
//! accesses that carry knowledge from block to block. Two observers together may name another reader than one would: so after
//! a fault behind a part that was taken over, the blocks run again on one core, from where the parts began.

use super::Engine;
use super::schedule::Queue;
use super::spin::Patience;
use crate::fault::{Fault, FaultKind};
use crate::global::Global;
use crate::grid::Grid;
use crate::kept::Keeper;
use crate::launch::Stats;
use crate::listing::Entry;
use crate::observe::Observer;
use crate::program::Program;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};

/// Warp instructions that run before it is asked whether the rest of the grid is worth other cores.
const FIRST: u64 = 1 << 17;
/// Warp instructions of the rest for each byte of memory that may have to be copied.
const INSTRUCTIONS_PER_BYTE: u64 = 64;
/// Slices in a row without the end of a cluster after which a part is given up: its blocks may wait for others.
const PATIENCE: usize = 32;

/// Result of a part that ran ahead.
struct Ahead {
    global: Global,
    stats: Stats,
    result: Result<(), Fault>,
    /// True if every cluster ended, or one of them in a fault.
    complete: bool,
}

/// The cores of this machine.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

impl Engine<'_> {
    /// Returns true if what is left of the grid should run on several cores.
    pub(super) fn pays(&self, queue: &Queue) -> bool {
        let (left, done) = (queue.end - queue.next, self.stats.warp_instructions);
        if self.cores < 2 || left < 2 * self.cores as u64 || done < FIRST {
            return false;
        }
        if self.observer.is_some_and(|observer| !queue.is_between() || !observer.is_quiet()) {
            return false;
        }
        let rest = u128::from(done) * u128::from(left) / u128::from(queue.next.max(1));
        rest >= u128::from(FIRST) && rest * u128::from(INSTRUCTIONS_PER_BYTE) >= u128::from(self.global.used())
    }

    /// Runs what is left of the grid, parts of it ahead.
    pub(super) fn run_ahead(&mut self, entry: &Entry, queue: Queue) -> Result<(), Fault> {
        let before = self.observer.map(|_| (self.global.fork(self.keeper()), self.stats.clone(), queue.again()));
        let mut taken = 0;
        let result = self.run_parts(entry, queue, &mut taken);
        // An endless launch would only be one again.
        let again = taken > 0 && result.as_ref().is_err_and(|fault| fault.kind != FaultKind::StepLimit);
        let Some((global, stats, mut queue)) = before.filter(|_| again) else { return result };
        (*self.global, *self.stats) = (global, stats);
        self.global.settle(self.keeper());
        self.observer.into_iter().for_each(Keeper::rewind);
        self.drain(entry, &mut queue, |_, _| false)
    }

    /// The same; counts the parts that are taken over.
    fn run_parts(&mut self, entry: &Entry, mut queue: Queue, taken: &mut usize) -> Result<(), Fault> {
        let (end, left) = (queue.end, queue.end - queue.next);
        let first = queue.next;
        let cut = |part: usize| first + left * part as u64 / self.cores as u64;
        let parts: Vec<_> = (1..self.cores).map(|part| (cut(part), cut(part + 1))).collect();
        let stop = AtomicBool::new(false);
        let (program, grid) = (self.program, self.grid);
        let result = thread::scope(|scope| {
            let forks: Vec<_> = parts.iter().map(|_| self.global.fork(self.keeper())).collect();
            let start = |((from, to), fork): (&(u64, u64), Global)| {
                let (queue, observer, stop) = (Queue::new(*from, *to), self.observer.map(Observer::fork), &stop);
                let run = move || ahead((program, grid, entry), (fork, observer), queue, stop);
                // Without a thread, the first core runs the part in its turn.
                thread::Builder::new().spawn_scoped(scope, run).ok()
            };
            let ahead: Vec<_> = parts.iter().zip(forks).map(start).collect();
            let result = self.follow((entry, taken), &mut queue, &parts, ahead);
            stop.store(true, Ordering::Relaxed);
            result
        });
        self.global.settle(self.keeper());
        result?;
        queue.end = end;
        self.drain(entry, &mut queue, |_, _| false)
    }

    /// Runs up to each part in turn, and takes it over if it saw what it should have seen.
    fn follow(
        &mut self,
        (entry, taken): (&Entry, &mut usize),
        queue: &mut Queue,
        parts: &[(u64, u64)],
        ahead: Vec<Option<ScopedJoinHandle<Ahead>>>,
    ) -> Result<(), Fault> {
        for ((from, to), part) in parts.iter().zip(ahead) {
            queue.end = *from;
            // One core would now begin the part, beside what still runs.
            self.drain(entry, queue, |_, queue| queue.next == queue.end)?;
            let part = part.and_then(|part| part.join().ok()).filter(|part| part.complete && self.takes(part));
            if let Some(part) = part {
                *taken += 1;
                self.take(part)?;
                self.ended(to - from);
                queue.next = *to;
            } else if !queue.is_done() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn takes(&self, part: &Ahead) -> bool {
        let steps = self.stats.warp_instructions.saturating_add(part.stats.warp_instructions);
        let quiet = |observer: &dyn Observer| {
            observer.is_quiet() && part.result.is_ok() && self.global.has_room_for(&part.global, observer)
        };
        steps < self.grid.step_limit && self.observer.is_none_or(quiet) && self.global.is_apart_from(&part.global)
    }

    fn take(&mut self, part: Ahead) -> Result<(), Fault> {
        self.global.take_over(part.global, self.keeper())?;
        self.stats.instructions += part.stats.instructions;
        self.stats.warp_instructions += part.stats.warp_instructions;
        self.stats.printed.push_str(&part.stats.printed);
        part.result
    }
}

/// Runs a part on its copy of global memory, with an observer of its own.
fn ahead(
    (program, grid, entry): (&Program, &Grid, &Entry),
    (mut global, observer): (Global, Option<Box<dyn Observer>>),
    mut queue: Queue,
    stop: &AtomicBool,
) -> Ahead {
    let mut stats = Stats::default();
    // Its blocks may wait for blocks of other parts.
    queue.patience = Patience::endless();
    let observer = observer.as_deref();
    let mut engine = Engine {
        program,
        grid,
        global: &mut global,
        stats: &mut stats,
        observer,
        tracer: None,
        reporter: None,
        chosen: None,
        cores: 1,
    };
    let result = engine.drain(entry, &mut queue, |_, queue| queue.fruitless > PATIENCE || stop.load(Ordering::Relaxed));
    let complete = (result.is_err() || queue.is_done()) && observer.is_none_or(Keeper::is_quiet);
    Ahead { global, stats, result, complete }
}
