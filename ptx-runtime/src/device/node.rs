//! The CPU devices of a node, one for each rank: they have one memory, and their launches run beside each other.
//!
//! A launch is submitted, as to a GPU, and runs while the host waits for its rank: the thread that waits gives turns to the launches of all
//! ranks. So one thread may launch on one rank after the other, and each rank may have a thread of its own. A launch that waits for a rank
//! without any lets the thread wait until another one submits it, at most [`PATIENCE`]. When a launch fails, those of the other ranks end
//! with an error, too.
//!
//! A device that has joined a group of processes is a node of one rank, which takes turns with those of the other processes: see `processes`.

#[cfg(all(target_os = "linux", feature = "processes"))]
mod processes;
#[cfg(not(all(target_os = "linux", feature = "processes")))]
#[path = "node/no_processes.rs"]
mod processes;

use crate::device::cpu::{CpuDevice, fault_error};
use crate::error::{Error, ErrorKind, Result};
#[cfg(all(target_os = "linux", feature = "processes"))]
pub(crate) use processes::Peers;
use processes::{Processes, Wait};
use ptx_interp::{Fault, Launch, Machine, Program, Stats, Turn};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a thread waits for a launch of another rank, without which nobody can go on.
const PATIENCE: Duration = Duration::from_secs(10);
/// Turns after which other threads may submit.
const TURNS: u32 = 64;

/// Memory and launches of the ranks of a node.
pub(crate) struct Node {
    machine: Mutex<Machine>,
    ranks: Mutex<Vec<Rank>>,
    /// Something was submitted.
    changed: Condvar,
    /// Threads that want the machine.
    waiting: AtomicUsize,
    processes: Processes,
}

/// The machine of a node, which no other thread uses, and no process that has memory of it.
pub(crate) struct Locked<'a> {
    machine: MutexGuard<'a, Machine>,
    turns: processes::Turns,
}

impl Deref for Locked<'_> {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Machine {
        &mut self.machine
    }
}

/// The launches of a rank, as far as messages are concerned.
#[derive(Default)]
struct Rank {
    submitted: VecDeque<Box<dyn Submitted>>,
    /// The error that the next wait returns.
    failed: Option<Error>,
}

/// The kernel of a launch, for messages.
pub(crate) trait Submitted: Send {
    /// The name of the entry.
    fn entry(&self) -> &str;

    /// The error for a fault of the launch.
    fn explain(&self, fault: &Fault) -> Error;

    /// Writes what the launch has printed.
    fn print(&self, text: &str);
}

impl Node {
    /// A node with an empty memory.
    pub(crate) fn new(ranks: usize) -> Node {
        Node {
            machine: Mutex::new(Machine::of_ranks(ranks as u32)),
            ranks: Mutex::new((0..ranks).map(|_| Rank::default()).collect()),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            processes: Processes::default(),
        }
    }

    /// The machine; launches of other ranks may be under way.
    pub(crate) fn machine(&self) -> Locked<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Locked { machine, turns: self.processes.take_turns() }
    }

    /// Takes turns with the devices of a group of processes from now on.
    #[cfg(all(target_os = "linux", feature = "processes"))]
    pub(crate) fn join(&self, group: std::sync::Weak<dyn Peers>) {
        self.processes.join(group);
    }

    /// Returns true if it has ever joined a group of processes.
    pub(crate) fn has_joined(&self) -> bool {
        self.processes.has_any()
    }

    fn ranks(&self) -> MutexGuard<'_, Vec<Rank>> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a launch of a rank.
    pub(crate) fn submit(
        &self,
        rank: usize,
        submitted: Box<dyn Submitted>,
        (program, launch): (&Arc<Program>, &Launch),
    ) -> Result<()> {
        let mut machine = self.machine();
        machine.submit(rank as u32, program, launch).map_err(|fault| submitted.explain(&fault))?;
        if let Some(rank) = self.ranks().get_mut(rank) {
            rank.submitted.push_back(submitted);
        }
        drop(machine);
        self.changed.notify_all();
        Ok(())
    }

    /// Runs the launches of all ranks until those of one are over.
    ///
    /// # Errors
    /// The first error of its launches since the last call, also one that another rank's failure caused.
    pub(crate) fn finish(&self, rank: usize) -> Result<Locked<'_>> {
        let mut machine = self.drain(rank);
        let failed = self.ranks().get_mut(rank).and_then(|rank| rank.failed.take());
        machine.meet_host(rank as u32);
        failed.map_or(Ok(machine), Err)
    }

    /// The same, and keeps the error.
    pub(crate) fn drain(&self, rank: usize) -> Locked<'_> {
        let (mut machine, mut since, mut turns) = (self.machine(), None, 0);
        let mut wait = Wait::default();
        while machine.has_launches(rank as u32) {
            let turn = machine.run_ranks();
            wait.note(&turn);
            match turn {
                Turn::Ran | Turn::Looked => turns += 1,
                Turn::Ended(ended, result) => {
                    since = None;
                    self.ended(&mut machine, ended as usize, result);
                }
                Turn::Stuck(_) if self.processes.has_others() => {}
                Turn::Stuck(fault) => machine = self.wait_for_others(machine, &fault, &mut since),
                Turn::Idle => break,
            }
            if self.processes.has_others() {
                machine = self.let_processes_run(machine, rank, &mut wait);
                continue;
            }
            if turns > TURNS && self.waiting.load(Ordering::Relaxed) > 0 {
                turns = 0;
                drop(machine);
                std::thread::yield_now();
                machine = self.machine();
            }
        }
        machine
    }

    /// A launch is over.
    fn ended(&self, machine: &mut Machine, rank: usize, result: std::result::Result<Stats, Fault>) {
        match result {
            Ok(stats) => {
                let submitted = self.ranks().get_mut(rank).and_then(|rank| rank.submitted.pop_front());
                submitted.into_iter().for_each(|submitted| submitted.print(&stats.printed));
                self.changed.notify_all();
            }
            Err(fault) => self.fail(machine, rank, &fault),
        }
    }

    /// Lets other processes run, and ends the launches of a rank if they cannot go on.
    fn let_processes_run<'a>(&'a self, machine: Locked<'a>, rank: usize, wait: &mut Wait) -> Locked<'a> {
        drop(machine);
        let failed = self.processes.pause(wait);
        let mut machine = self.machine();
        if let Some((mut error, fault)) = failed.filter(|_| machine.has_launches(rank as u32)) {
            let ranks = self.ranks();
            if let Some(first) = ranks.get(rank).and_then(|rank| rank.submitted.front()) {
                let why = fault.map_or(String::new(), |fault| format!(": {}", first.explain(&fault)));
                error = error.help(format!("it waits in `{}`{why}", first.entry()));
            }
            drop(ranks);
            self.fail_with(&mut machine, rank, &error);
        }
        machine
    }

    /// Ends the launches of all ranks, since one has failed.
    #[cold]
    fn fail(&self, machine: &mut Machine, guilty: usize, fault: &Fault) {
        let ranks = self.ranks();
        let first = ranks.get(guilty).and_then(|rank| rank.submitted.front());
        let error = first.map_or_else(|| fault_error(fault), |submitted| submitted.explain(fault));
        drop(ranks);
        self.fail_with(machine, guilty, &error);
    }

    #[cold]
    fn fail_with(&self, machine: &mut Machine, guilty: usize, error: &Error) {
        let mut ranks = self.ranks();
        for (number, rank) in ranks.iter_mut().enumerate() {
            machine.abandon(number as u32);
            let failed = match rank.submitted.front() {
                _ if number == guilty => Some(error.clone()),
                Some(submitted) => Some(of_other_rank(submitted.entry(), number, guilty, error)),
                None => None,
            };
            rank.submitted.clear();
            rank.failed = rank.failed.take().or(failed);
        }
        self.changed.notify_all();
    }

    /// Nobody can go on before a rank that has no launch gets one.
    #[cold]
    fn wait_for_others<'a>(
        &'a self,
        mut machine: Locked<'a>,
        fault: &Fault,
        since: &mut Option<Instant>,
    ) -> Locked<'a> {
        let count = self.ranks().len();
        let idle: Vec<String> =
            (0..count).filter(|rank| !machine.has_launches(*rank as u32)).map(|rank| rank.to_string()).collect();
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if idle.is_empty() || waited > PATIENCE {
            let guilty = fault.rank().unwrap_or(0) as usize;
            self.fail(&mut machine, guilty, fault);
            if let Some(failed) = self.ranks().iter_mut().filter_map(|rank| rank.failed.as_mut()).next()
                && !idle.is_empty()
            {
                *failed = failed.clone().help(format!(
                    "launch the kernel on every rank before the host waits for one: {} had no launch for {} s",
                    if let [only] = idle.as_slice() {
                        format!("rank {only}")
                    } else {
                        format!("ranks {}", idle.join(", "))
                    },
                    PATIENCE.as_secs()
                ));
            }
            return machine;
        }
        let Locked { machine, turns } = machine;
        let waited = self.changed.wait_timeout(machine, PATIENCE.saturating_sub(waited) + Duration::from_millis(1));
        let (machine, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        let machine = Locked { machine, turns };
        if !waited.timed_out() {
            *since = None;
        }
        machine
    }
}

#[cold]
fn of_other_rank(entry: &str, rank: usize, guilty: usize, error: &Error) -> Error {
    let asked = format!("`{entry}` ended on rank {rank}, because rank {guilty} failed: {error}");
    Error::new(ErrorKind::Fault, asked)
}

impl CpuDevice {
    /// The devices of a node.
    pub(crate) fn of_node(ranks: usize) -> Vec<CpuDevice> {
        let node = Arc::new(Node::new(ranks));
        (0..ranks).map(|rank| CpuDevice::on(node.clone(), Some(rank))).collect()
    }
}
