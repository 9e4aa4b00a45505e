//! A CPU device that has joined groups of processes: one process of a group runs at a time, for one turn of the machine.
//!
//! So an access of one process to memory that others have, too, is never in the midst of one of another process, and an atomic is one for all.
//! A launch that only looks whether it may go on lets the others run for longer and longer. It fails when a process has ended and the launch
//! has waited for a while, or after the patience of the group.

use crate::error::{Error, ErrorKind};
use crate::process_group::shared::Taken;
use crate::process_group::{ProcessGroup, WeakGroup, grace};
use ptx_interp::{Fault, Turn};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which others run after a turn in which a launch has worked.
const SHORTEST: Duration = Duration::from_micros(20);
/// The most after turns in which it only looked.
const LONGEST: Duration = Duration::from_millis(1);
/// Time between two looks whether a process has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The groups of a device.
#[derive(Default)]
pub(super) struct Processes {
    groups: Mutex<Vec<WeakGroup>>,
    has_any: AtomicBool,
}

/// The turns of this process in its groups. The locks are taken in one order in all processes, and given back together.
#[derive(Default)]
pub(super) struct Turns {
    _taken: Vec<Taken>,
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
    pub(super) fn join(&self, group: &ProcessGroup) {
        let mut groups = self.lock();
        groups.retain(|group| group.get().is_some());
        groups.push(WeakGroup::of(group));
        self.has_any.store(true, Ordering::Release);
    }

    pub(super) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WeakGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The groups with other processes that are alive.
    fn groups(&self) -> Vec<ProcessGroup> {
        self.lock().iter().filter_map(WeakGroup::get).filter(|group| group.ranks() > 1).collect()
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
        let place = |group: &ProcessGroup| group.turn().metadata().map_or(0, |metadata| metadata.ino());
        groups.sort_by_key(place);
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
        let failed = groups.iter().find_map(|group| {
            let lost = group.find_lost().filter(|_| waited > grace());
            group.check().err().or_else(|| lost.map(|rank| group.fail(&group.lost(rank))))
        });
        let patience = groups.iter().map(ProcessGroup::patience).max();
        let late = || patience.is_some_and(|patience| waited > patience).then(|| late(&groups, waited));
        let error = failed.or_else(late)?;
        Some((error, wait.stuck.take()))
    }
}

#[cold]
fn late(groups: &[ProcessGroup], waited: Duration) -> Error {
    let ranks: Vec<String> = groups.iter().map(|group| format!("rank {} of {}", group.rank(), group.ranks())).collect();
    let asked = format!("a launch of {} has waited {waited:.0?} for other processes", ranks.join(", "));
    let error = Error::new(ErrorKind::Fault, asked).possible("the same launches on every rank, in the same order");
    groups.iter().for_each(|group| drop(group.fail(&error)));
    error
}
