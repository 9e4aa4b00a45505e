//! The schedule: the resident clusters of a grid, and the one that runs next.

use super::Engine;
use super::deadlock::explain_deadlock;
use super::spin::Patience;
use crate::block::Block;
use crate::cluster::{Cluster, Shared};
use crate::contend::CONTENDERS;
use crate::fault::Fault;
use crate::listing::Entry;
use crate::map::Map;
use crate::tmem::{BYTES as TENSOR_BYTES, Tmem};
use crate::warp::Warp;
use std::collections::VecDeque;

/// Instructions a cluster runs before another may start beside it.
const SLICE: u64 = 1 << 20;
/// The same at most where a seed chooses another interleaving.
const SMALL_SLICE: u64 = 1 << 13;
/// Maximum bytes of registers and shared memory of all resident blocks.
const RESIDENT_BYTES: u64 = 4 << 30;

/// Clusters of a grid that are to run, in order, and those that do.
pub(crate) struct Queue {
    /// The next to begin, and the one behind the last.
    pub next: u64,
    pub end: u64,
    resident: VecDeque<Cluster>,
    /// Maximum number that may run beside each other now.
    room: usize,
    /// Number of slices that ended without the end of a cluster.
    pub fruitless: usize,
    /// True if the last slice ended at an atomic, so that others go first.
    contended: bool,
    /// When to look whether all that run wait for ever.
    pub patience: Patience,
    /// True if launches of other ranks run, too, for which these may wait.
    is_beside_others: bool,
    /// Slices in which a warp did more than look whether it may go on.
    pub worked: u64,
}

/// Result of a look at clusters that may wait for ever.
enum Found {
    Nothing,
    /// Some wait with a time-out, and go on.
    Retry,
    Deadlock(Box<Fault>),
}

impl Queue {
    pub(super) fn new(next: u64, end: u64) -> Queue {
        Queue {
            next,
            end,
            resident: VecDeque::new(),
            room: 1,
            fruitless: 0,
            contended: false,
            patience: Patience::new(0),
            is_beside_others: false,
            worked: 0,
        }
    }

    /// The clusters of a launch beside which launches of other ranks run: whoever runs all of them looks for deadlocks.
    pub(crate) fn beside_others(clusters: u64) -> Queue {
        Queue { is_beside_others: true, ..Queue::new(0, clusters) }
    }

    /// Number of clusters that run.
    pub(crate) fn count_resident(&self) -> usize {
        self.resident.len()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.next >= self.end && self.is_between()
    }

    /// Returns true if none runs.
    pub(super) fn is_between(&self) -> bool {
        self.resident.is_empty()
    }

    /// The same before any of them begins.
    pub(super) fn again(&self) -> Queue {
        Queue { resident: VecDeque::new(), ..*self }
    }
}

impl Engine<'_> {
    /// Runs every block of the grid.
    pub(crate) fn run(&mut self, entry: &Entry) -> Result<(), Fault> {
        let mut queue = Queue::new(0, self.count_clusters());
        self.drain(entry, &mut queue, Engine::pays)?;
        if queue.is_done() { Ok(()) } else { self.run_ahead(entry, queue) }
    }

    /// The clusters that run.
    fn count_clusters(&self) -> u64 {
        let all = || self.grid.clusters().iter().map(|d| u64::from(*d)).product();
        self.chosen.map_or_else(all, |chosen| chosen.len() as u64)
    }

    /// The place in the grid of the cluster that runs as the one of this number.
    fn cluster_id(&self, number: u64) -> [u32; 3] {
        let at = self.chosen.and_then(|chosen| chosen.get(number as usize)).copied().unwrap_or(number);
        let [x, y, _] = self.grid.clusters().map(u64::from);
        [(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32]
    }

    /// Runs clusters until all have ended, or until `enough` returns true. They start in order; one that runs long lets others
    /// start beside it, so that blocks may wait for each other.
    pub(crate) fn drain(
        &mut self,
        entry: &Entry,
        queue: &mut Queue,
        enough: impl Fn(&Self, &Queue) -> bool,
    ) -> Result<(), Fault> {
        let most = self.most_resident(entry);
        queue.room = queue.room.max(self.grid.width());
        while !queue.is_done() && !enough(self, queue) {
            let contenders = if queue.contended { CONTENDERS } else { usize::MAX };
            while queue.next < queue.end && queue.resident.len() < most.min(queue.room).min(contenders) {
                queue.resident.push_front(self.start(entry, self.cluster_id(queue.next))?);
                queue.next += 1;
                if self.grid.seed == 0 {
                    break;
                }
            }
            queue.resident.rotate_left(self.grid.turn(0, queue.resident.len(), self.stats.warp_instructions));
            let Some(mut cluster) = queue.resident.pop_front() else { continue };
            let others = queue.resident.len();
            let open = self.grid.seed == 0 && others < CONTENDERS && (others > 0 || queue.next < queue.end);
            cluster.shared.contention.begin_turn(open);
            let ended = self.run_cluster(&mut cluster, &mut queue.worked)?;
            queue.contended = cluster.shared.contention.end_turn() && !ended;
            if ended {
                self.ended(1);
                queue.patience = Patience::new(self.stats.warp_instructions);
                queue.fruitless = 0;
                continue;
            }
            queue.resident.push_back(cluster);
            let looks = !queue.is_beside_others && queue.patience.is_over(self.stats.warp_instructions);
            if looks && self.all_run(entry, queue) {
                self.look_for_spins(queue)?;
            }
            queue.fruitless += 1;
            if queue.fruitless > queue.room.saturating_mul(16) {
                // Those that run may wait for one that has not begun.
                (queue.room, queue.fruitless) = (queue.room.saturating_add(1), 0);
            }
        }
        Ok(())
    }

    /// Notes the end of clusters for who waits.
    pub(super) fn ended(&mut self, clusters: u64) {
        let blocks: u64 = self.grid.cluster.iter().map(|d| u64::from(*d)).product();
        self.reporter.iter_mut().for_each(|reporter| reporter.add_ended(clusters * blocks));
    }

    /// Maximum number of resident clusters.
    fn most_resident(&self, entry: &Entry) -> usize {
        (RESIDENT_BYTES / self.cluster_bytes(entry)).max(1) as usize
    }

    /// Returns true if no other cluster can begin beside those that run.
    fn all_run(&self, entry: &Entry, queue: &Queue) -> bool {
        queue.next == self.count_clusters() || queue.resident.len() >= self.most_resident(entry)
    }

    /// Objects if nobody can ever go on, because all who run wait in loops.
    #[cold]
    fn look_for_spins(&mut self, queue: &mut Queue) -> Result<(), Fault> {
        let mut patience = queue.patience;
        let found = self.find_spins(queue, &mut patience)?;
        if let Found::Nothing = found {
            patience.grow(self.stats.warp_instructions);
        }
        queue.patience = patience;
        if let Found::Deadlock(fault) = found { Err(*fault) } else { Ok(()) }
    }

    /// The fault of a launch in which nobody can go on, as long as launches of other ranks change nothing.
    #[cold]
    pub(crate) fn find_deadlock(
        &mut self,
        entry: &Entry,
        queue: &mut Queue,
        patience: &mut Patience,
    ) -> Result<Option<Fault>, Fault> {
        if !self.all_run(entry, queue) {
            return Ok(None);
        }
        Ok(if let Found::Deadlock(fault) = self.find_spins(queue, patience)? { Some(*fault) } else { None })
    }

    fn find_spins(&mut self, Queue { resident, .. }: &mut Queue, patience: &mut Patience) -> Result<Found, Fault> {
        let Some(spins) = self.all_spin(resident.iter_mut(), patience)? else { return Ok(Found::Nothing) };
        // Waits for an mbarrier time out: who has one may still do something else.
        if patience.retries() && resident.iter_mut().filter_map(|c| c.shared.revive().then_some(c)).count() > 0 {
            return Ok(Found::Retry);
        }
        let clusters: Vec<_> = resident.iter().map(|cluster| (&cluster.shared, cluster.blocks.as_slice())).collect();
        Ok(Found::Deadlock(Box::new(explain_deadlock(self.map(), self.observer, &clusters, &spins))))
    }

    /// For naming what lies at addresses.
    fn map(&self) -> Map<'_> {
        Map { listing: &self.program.listing, grid: self.grid, global: self.global }
    }

    /// Runs a cluster for a slice; returns true if it has ended.
    fn run_cluster(&mut self, cluster: &mut Cluster, worked: &mut u64) -> Result<bool, Fault> {
        let slice =
            if self.grid.seed == 0 { SLICE } else { self.grid.quantum(SMALL_SLICE, self.stats.warp_instructions) };
        let budget = slice / cluster.blocks.len().max(1) as u64;
        for (block, warps) in &mut cluster.blocks {
            *worked += u64::from(self.run_block(&mut cluster.shared, block, warps, budget)?);
        }
        match () {
            () if cluster.blocks.iter().all(|(_, warps)| warps.iter().all(|w| w.live == 0)) => {
                let finished = self.observer.map(|observer| observer.finish_cluster(self.map(), cluster));
                finished.unwrap_or(Ok(())).map(|()| true)
            }
            () if cluster.blocks.iter().any(|(_, w)| w.iter().any(|w| w.ready() != 0)) => Ok(false),
            () if cluster.shared.revive() => Ok(false),
            () => {
                let stuck = (&cluster.shared, cluster.blocks.as_slice());
                Err(explain_deadlock(self.map(), self.observer, &[stuck], &[]))
            }
        }
    }

    /// The bytes that one resident cluster takes, at least 1.
    fn cluster_bytes(&self, entry: &Entry) -> u64 {
        let blocks: u64 = self.grid.cluster.iter().map(|d| u64::from(*d)).product();
        let registers = u64::from(self.grid.warps()) * (u64::from(entry.registers) * 256 + 4096);
        (blocks * (registers + self.grid.dynamic + self.grid.dynamic_bytes + TENSOR_BYTES)).max(1)
    }

    /// Makes the blocks of a cluster.
    fn start(&self, entry: &Entry, id: [u32; 3]) -> Result<Cluster, Fault> {
        let [cx, cy, cz] = self.grid.cluster;
        let shared = (self.grid.dynamic + self.grid.dynamic_bytes) as usize;
        let mut cluster = Cluster { shared: Shared::default(), blocks: Vec::new() };
        for rank in 0..cx * cy * cz {
            let inner = [rank % cx, rank / cx % cy, rank / cx / cy];
            let at = std::array::from_fn(|d| id[d] * self.grid.cluster[d] + inner[d]);
            let warps = (0..self.grid.warps()).map(|w| self.start_warp(entry, at, w)).collect::<Result<Vec<_>, _>>()?;
            let live: Vec<u32> = warps.iter().map(|w| w.live).collect();
            cluster.shared.gate.add(live.clone());
            cluster.shared.memory.push(vec![0; shared]);
            cluster.shared.tensor.push(Tmem::default());
            if let Some(observer) = self.observer {
                observer.start_block(&mut cluster.shared.kept, at);
            }
            cluster.blocks.push((Block::new(at, rank as usize, live), warps));
        }
        Ok(cluster)
    }

    fn start_warp(&self, entry: &Entry, block: [u32; 3], index: u32) -> Result<Warp, Fault> {
        let [x, y, _] = self.grid.block;
        let first = index * 32;
        let tid = std::array::from_fn(|lane| {
            let t = first + lane as u32;
            [t % x, t / x % y, t / x / y]
        });
        let mut warp = Warp::new(index, tid, (self.grid.threads() - first).min(32), entry.start, entry.registers);
        for lane in 0..if entry.frame > 0 { 32 } else { 0 } {
            warp.reserve(lane, 0, entry.frame)?;
        }
        if let Some(observer) = self.observer {
            observer.start_warp(&mut warp.kept, block, index);
            warp.reported = observer.follows(block);
        }
        Ok(warp)
    }
}
