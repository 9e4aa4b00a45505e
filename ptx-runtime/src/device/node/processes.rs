//! A CPU device that has joined groups of processes: one process of a group runs at a time, for one turn of the machine.
//!
//! So an access of one process to memory that others have, too, is never in the midst of one of another process, and an atomic is one for all.
//! A launch that only looks whether it may go on lets the others run for longer and longer. It fails when a process has ended and the launch
//! has waited for a while, or after the patience of the group.

use crate::error::{Error, ErrorKind};
use ptx_interp::{Fault, Turn};
use ptx_target::sort::SortSmall;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time for which others run after a turn in which a launch has worked.
const SHORTEST: Duration = Duration::from_micros(20);
/// The most after turns in which it only looked.
const LONGEST: Duration = Duration::from_millis(1);
/// Time between two looks whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A group of processes as the device of one of them needs it.
pub(crate) trait Peers: Send + Sync {
    /// The rank of this process, and the number of ranks.
    fn rank_of(&self) -> [usize; 2];

    /// The file whose lock the process has whose device runs. Each process has opened it for itself.
    fn turn(&self) -> &File;

    /// Time that a launch waits for others.
    fn patience(&self) -> Duration;

    /// An error if the group has failed, or if the process of a rank has ended and a launch has waited so long.
    fn find_failure(&self, waited: Duration) -> Option<Error>;

    /// The group has failed.
    fn fail(&self, error: &Error);
}

/// The groups of a device.
#[derive(Default)]
pub(super) struct Processes {
    groups: Mutex<Vec<Weak<dyn Peers>>>,
    has_any: AtomicBool,
}

/// The turns of this process in its groups. The locks are taken in one order in all processes, and given back together.
#[derive(Default)]
pub(super) struct Turns {
    _taken: Vec<Taken>,
}

/// The turn of a process in its group: no CPU device of another process runs. The end of a process ends its turn.
struct Taken(Arc<dyn Peers>);

impl Taken {
    fn of(group: Arc<dyn Peers>) -> Taken {
        while flock(group.turn(), FlockOperation::LockExclusive) == Err(Errno::INTR) {}
        Taken(group)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = flock(self.0.turn(), FlockOperation::Unlock);
    }
}

/// The wait of a launch for other processes.
#[derive(Default)]
pub(super) struct Wait {
    pause: Duration,
    /// Since when it has only looked.
    since: Option<Instant>,
    looked: Option<Instant>,
    stuck: Option<Box<Fault>>,
}

impl Wait {
    /// A turn is over.
    pub(super) fn note(&mut self, turn: &Turn) {
        match turn {
            Turn::Looked => {}
            Turn::Stuck(fault) => self.stuck = Some(fault.clone()),
            Turn::Ran | Turn::Ended(..) | Turn::Idle => {
                *self = Wait::default();
                return;
            }
        }
        self.since.get_or_insert_with(Instant::now);
        self.pause = (2 * self.pause).clamp(SHORTEST, LONGEST);
    }
}

impl Processes {
    pub(super) fn join(&self, group: Weak<dyn Peers>) {
        let mut groups = self.lock();
        groups.retain(|group| group.strong_count() > 0);
        groups.push(group);
        self.has_any.store(true, Ordering::Release);
    }

    pub(super) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<dyn Peers>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The groups with other processes that are alive.
    fn groups(&self) -> Vec<Arc<dyn Peers>> {
        self.lock().iter().filter_map(Weak::upgrade).filter(|group| group.rank_of()[1] > 1).collect()
    }

    /// Returns true if it is in a group with other processes now.
    pub(super) fn has_others(&self) -> bool {
        self.has_any() && !self.groups().is_empty()
    }

    pub(super) fn take_turns(&self) -> Turns {
        if !self.has_any() {
            return Turns::default();
        }
        let mut groups = self.groups();
        let place = |group: &Arc<dyn Peers>| group.turn().metadata().map_or(0, |metadata| metadata.ino());
        groups.sort_small_by_key(place);
        groups.dedup_by_key(|group| place(group));
        Turns { _taken: groups.into_iter().map(Taken::of).collect() }
    }

    /// Lets others run for a while. Returns an error if the launch has no hope, with what it waits for.
    pub(super) fn pause(&self, wait: &mut Wait) -> Option<(Error, Option<Box<Fault>>)> {
        std::thread::sleep(wait.pause.max(SHORTEST));
        let waited = wait.since?.elapsed();
        if wait.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return None;
        }
        wait.looked = Some(Instant::now());
        let groups = self.groups();
        let failed = groups.iter().find_map(|group| group.find_failure(waited));
        let patience = groups.iter().map(|group| group.patience()).max();
        let late = || patience.is_some_and(|patience| waited > patience).then(|| late(&groups, waited));
        let error = failed.or_else(late)?;
        Some((error, wait.stuck.take()))
    }
}

#[cold]
fn late(groups: &[Arc<dyn Peers>], waited: Duration) -> Error {
    let name = |[rank, ranks]: [usize; 2]| format!("rank {rank} of {ranks}");
    let ranks: Vec<String> = groups.iter().map(|group| name(group.rank_of())).collect();
    let asked = format!("a launch of {} has waited {waited:.0?} for other processes", ranks.join(", "));
    let error = Error::new(ErrorKind::Fault, asked).possible("the same launches on every rank, in the same order");
    groups.iter().for_each(|group| group.fail(&error));
    error
}
