//! State of the watcher on a machine with several ranks, whose launches run beside each other.
//!
//! Launches of one rank run in order. The view at the start of a launch has all launches of its rank before it, and what the views of
//! their threads at the end had of other ranks; and the launches that the host had waited for when it was submitted. The clock has one entry
//! for each rank, whose tick is the number of its launches that are over.

use super::clock::{Clock, Release, View};
use super::extent::Extent;
use super::vars::Vars;
use super::{Past, Watch};
use crate::global::Global;
use crate::launch::Launch;
use crate::program::Program;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The block of the clock whose only tick is the number of launches of a rank that are over.
pub(super) const fn launches_of(rank: u32) -> u32 {
    u32::MAX - 1 - rank
}

/// State that launches share.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// Views carried by strong accesses to global memory.
    pub vars: Vars,
    /// Launches of which some other may not know that they are over.
    pub launches: Vec<Extent>,
}

impl Together {
    /// A new one, for launches that run alone.
    pub(super) fn new() -> Arc<Mutex<Together>> {
        Arc::default()
    }
}

/// The launches of the ranks so far.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    shared: Arc<Mutex<Together>>,
    /// The number of launches of each rank, and what was known at the end of the last.
    ends: Vec<(u32, View)>,
    /// View of the host.
    host: Arc<View>,
    /// Blocks so far.
    blocks: u32,
    /// The first block that views still have.
    forgotten: u32,
}

impl Ranks {
    fn lock(&self) -> MutexGuard<'_, Together> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_of(&mut self, rank: u32) -> &mut (u32, View) {
        let at = rank as usize;
        if self.ends.len() <= at {
            self.ends.resize_with(at + 1, Default::default);
        }
        &mut self.ends[at]
    }

    /// So many ranks will have launches: what all of them know is forgotten.
    pub(crate) fn expect(&mut self, count: u32) {
        self.end_of(count.saturating_sub(1));
    }

    /// View of the host, for a launch that is submitted now.
    pub(crate) fn host(&self) -> Arc<View> {
        self.host.clone()
    }

    /// The host has waited for all launches of a rank.
    pub(crate) fn meet_host(&mut self, rank: u32) {
        let end = self.end_of(rank).1.clone();
        Arc::make_mut(&mut self.host).join(&end);
        let host = self.host.clone();
        self.lock().launches.retain(|launch| !is_over(&host.seen, launch));
    }

    /// The watcher of a launch that begins now, after those of its rank; `host` is the host's view at its submission.
    pub(crate) fn watch(
        &mut self,
        (past, global): (&mut Past, &mut Global),
        program: &Program,
        launch: &Launch,
        (rank, host): (u32, &View),
    ) -> Option<Watch> {
        let (number, end) = self.end_of(rank);
        *number += 1;
        // What fences have prepared is in `seen` by then: a launch begins behind all that its rank's threads knew.
        let (number, mut start) = (*number, end.plain());
        start.join(host);
        // The end of a launch is a fence of all proxies.
        let View { seen, fenced, .. } = &mut start;
        fenced.join(seen);
        let mut watch = past.watch(global, program, launch, false)?;
        watch.own = Extent { rank, number, base: self.blocks, ..watch.own };
        self.blocks = self.blocks.wrapping_add(watch.own.count / watch.own.warps) % launches_of(1 << 16);
        start.seen.ticks_mut(launches_of(rank), 1)[0] = number - 1;
        let mut shared = self.lock();
        let unknown = shared.launches.iter().filter(|launch| !is_over(&start.seen, launch)).map(|launch| launch.first);
        watch.since = unknown.fold(watch.own.first, u32::min);
        shared.launches.push(watch.own);
        let oldest = shared.launches.iter().map(|launch| launch.base).min();
        let oldest = oldest.unwrap_or(0);
        if self.forgotten != oldest {
            shared.vars.values_mut().for_each(|var| var.forget_before(oldest));
        }
        drop(shared);
        self.forgotten = oldest;
        start.forget_before(oldest);
        (watch.start, watch.shared) = (Arc::new(start), self.shared.clone());
        watch.ended = Some(Default::default());
        Some(watch)
    }

    /// A launch of a rank is over.
    pub(crate) fn end(&mut self, rank: u32, watch: Option<Watch>) {
        let (number, end) = self.end_of(rank);
        if let Some(watch) = watch {
            *end = (*watch.start).clone();
            end.join(&watch.ended.map(|ended| ended.into_inner().view).unwrap_or_default());
        }
        end.seen.ticks_mut(launches_of(rank), 1)[0] = *number;
        self.lock().launches.retain(|launch| !self.ends.iter().all(|(_, end)| is_over(&end.seen, launch)));
    }
}

/// Returns true if the clock has the end of a launch.
pub(super) fn is_over(clock: &Clock, launch: &Extent) -> bool {
    clock.tick(launches_of(launch.rank), 0) >= launch.number
}

/// Views of the threads of a launch at their end.
pub(super) type Ended = std::cell::RefCell<Release>;
