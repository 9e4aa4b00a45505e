//! A launch: its dimensions, what it starts with, and which blocks are resident.

use super::block::{Block, Engine};
use super::cluster::Shared;
use super::deadlock::explain_deadlock;
use super::fault::{Fault, FaultKind};
use super::names::Map;
use super::program::Entry;
use super::spin::Patience;
use super::texture::Texture;
use super::tmem::{BYTES as TENSOR_BYTES, Tmem};
use super::warp::Warp;
use std::collections::{HashMap, VecDeque};

/// Instructions a cluster runs before another may start beside it.
const SLICE: u64 = 1 << 20;
/// The same at most where a seed asks for another interleaving.
const SMALL_SLICE: u64 = 1 << 13;
/// Maximum bytes of registers and shared memory of all resident blocks.
const RESIDENT_BYTES: u64 = 4 << 30;

/// State that is equal for every thread of a launch.
#[derive(Debug)]
pub(super) struct Grid<'a> {
    pub id: u64,
    /// The number of the entry among the functions.
    pub entry: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    /// The entry's parameters.
    pub params: Vec<u8>,
    /// The constant bank.
    pub constants: &'a [u8],
    /// The address of each variable in global memory.
    pub addresses: &'a [u64],
    /// Textures and surfaces, by handle.
    pub textures: &'a HashMap<u64, Texture>,
    /// Start and size of dynamic shared memory.
    pub dynamic: u64,
    pub dynamic_bytes: u64,
    pub seed: u64,
    pub step_limit: u64,
    /// The registers that a thread starts with, if the entry's directives say.
    pub registers: Option<u32>,
}

/// The blocks of a cluster while they are resident.
pub(super) struct Cluster {
    pub shared: Shared,
    pub blocks: Vec<(Block, Vec<Warp>)>,
}

impl Grid<'_> {
    /// The address of a variable in global memory.
    pub(super) fn address(&self, variable: u32) -> u64 {
        self.addresses.get(variable as usize).copied().unwrap_or(0)
    }

    /// Threads of a block.
    pub(super) fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Clusters in x, y, z.
    pub(super) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|d| self.grid[d] / self.cluster[d].max(1))
    }

    /// Maximum number of instructions of a turn. Seed 0 gives all of them; other seeds now few, now many.
    pub(super) fn quantum(&self, most: u64, at: u64) -> u64 {
        if self.seed == 0 {
            return most;
        }
        let random = mix(self.seed.rotate_left(32) ^ mix(at));
        (most >> (random % 12)).max(1)
    }

    /// Which of `count` has the turn. Seed 0 goes in order; with others each round starts somewhere else and goes up or
    /// down, always in the same way. Everybody has one turn in a round.
    pub(super) fn turn(&self, turn: usize, count: usize, round: u64) -> usize {
        if self.seed == 0 {
            return turn;
        }
        let random = mix(self.seed ^ mix(round));
        let first = (random >> 1) as usize % count.max(1);
        let step = if random & 1 == 0 { turn } else { count - 1 - turn };
        (first + step) % count.max(1)
    }

    /// Number of clusters that may run beside each other: with seed 0 one starts when those before it wait or take
    /// long, with others some are interleaved from the start.
    fn width(&self) -> usize {
        if self.seed == 0 { usize::MAX >> 8 } else { 1 + (mix(self.seed) % 8) as usize }
    }

    fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }
}

/// A 64-bit finaliser (splitmix64).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Clusters of a grid that are to run, in order, and those that do.
pub(super) struct Queue {
    /// The next to begin, and the one behind the last.
    pub next: u64,
    pub end: u64,
    resident: VecDeque<Cluster>,
    /// Maximum number that may run beside each other now.
    room: usize,
    /// Number of slices that ended without the end of a cluster.
    pub fruitless: usize,
    /// When to look whether all that run wait for ever.
    pub patience: Patience,
}

impl Queue {
    pub(super) fn new(next: u64, end: u64) -> Queue {
        Queue { next, end, resident: VecDeque::new(), room: 1, fruitless: 0, patience: Patience::new(0) }
    }

    pub(super) fn is_done(&self) -> bool {
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
    pub(super) fn run(&mut self, entry: &Entry) -> Result<(), Fault> {
        let mut queue = Queue::new(0, self.grid.clusters().iter().map(|d| u64::from(*d)).product());
        self.drain(entry, &mut queue, Engine::pays)?;
        if queue.is_done() { Ok(()) } else { self.run_ahead(entry, queue) }
    }

    /// Runs clusters until all have ended, or until `enough` says so. They start in order; one that runs long lets others
    /// start beside it, so that blocks may wait for each other.
    pub(super) fn drain(
        &mut self,
        entry: &Entry,
        queue: &mut Queue,
        enough: impl Fn(&Self, &Queue) -> bool,
    ) -> Result<(), Fault> {
        let [x, y, z] = self.grid.clusters().map(u64::from);
        let most = (RESIDENT_BYTES / self.cluster_bytes(entry)).max(1) as usize;
        queue.room = queue.room.max(self.grid.width());
        while !queue.is_done() && !enough(self, queue) {
            while queue.next < queue.end && queue.resident.len() < most.min(queue.room) {
                let id = [(queue.next % x) as u32, (queue.next / x % y) as u32, (queue.next / x / y) as u32];
                queue.resident.push_front(self.start(entry, id)?);
                queue.next += 1;
                if self.grid.seed == 0 {
                    break;
                }
            }
            queue.resident.rotate_left(self.grid.turn(0, queue.resident.len(), self.stats.warp_instructions));
            let Some(mut cluster) = queue.resident.pop_front() else { continue };
            if self.run_cluster(&mut cluster)? {
                queue.patience = Patience::new(self.stats.warp_instructions);
                queue.fruitless = 0;
                continue;
            }
            queue.resident.push_back(cluster);
            let all_run = queue.next == x * y * z || queue.resident.len() >= most;
            if all_run && queue.patience.is_over(self.stats.warp_instructions) {
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

    /// Objects if nobody can ever go on, because all who run wait in loops.
    #[cold]
    fn look_for_spins(&mut self, Queue { resident, patience, .. }: &mut Queue) -> Result<(), Fault> {
        let Some(spins) = self.all_spin(resident.iter_mut(), patience)? else {
            patience.grow(self.stats.warp_instructions);
            return Ok(());
        };
        // Waits for an mbarrier time out: who has one may still do something else.
        if patience.retries() && resident.iter_mut().filter_map(|c| c.shared.revive().then_some(c)).count() > 0 {
            return Ok(());
        }
        let clusters = resident.iter().map(|cluster| (&cluster.shared, cluster.blocks.as_slice()));
        Err(explain_deadlock(self.map(), self.observer, clusters, &spins))
    }

    /// For naming what lies at addresses.
    fn map(&self) -> Map<'_> {
        Map { program: self.program, grid: self.grid, global: self.global }
    }

    /// Runs a cluster for a slice; says whether it has ended.
    fn run_cluster(&mut self, cluster: &mut Cluster) -> Result<bool, Fault> {
        let slice =
            if self.grid.seed == 0 { SLICE } else { self.grid.quantum(SMALL_SLICE, self.stats.warp_instructions) };
        let budget = slice / cluster.blocks.len().max(1) as u64;
        for (block, warps) in &mut cluster.blocks {
            self.run_block(&mut cluster.shared, block, warps, budget)?;
        }
        match () {
            () if cluster.blocks.iter().all(|(_, warps)| warps.iter().all(|w| w.live == 0)) => {
                let finished = self.observer.map(|observer| observer.finish_cluster(self.map(), cluster));
                finished.unwrap_or(Ok(())).map(|()| true)
            }
            () if cluster.blocks.iter().any(|(_, w)| w.iter().any(|w| w.ready() != 0)) => Ok(false),
            () if cluster.shared.revive() => Ok(false),
            () => {
                let stuck = std::iter::once((&cluster.shared, cluster.blocks.as_slice()));
                Err(explain_deadlock(self.map(), self.observer, stuck, &[]))
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
                observer.start_block(&mut cluster.shared, at);
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
            observer.start_warp(&mut warp, block);
        }
        Ok(warp)
    }
}

/// Checks the dimensions of a launch.
pub(super) fn check_dimensions(grid: [u32; 3], block: [u32; 3], cluster: [u32; 3]) -> Result<(), Fault> {
    const GRID: [u32; 3] = [0x7fff_ffff, 65535, 65535];
    const BLOCK: [u32; 3] = [1024, 1024, 64];
    let refuse = |message: String| Err(Fault::new(FaultKind::Launch, message));
    for d in 0..3 {
        let axis = ["x", "y", "z"][d];
        for (what, asked, most) in [("grid", grid[d], GRID[d]), ("block", block[d], BLOCK[d])] {
            if asked == 0 || asked > most {
                return refuse(format!("a {what} of {asked} in {axis}; 1 to {most} are possible"));
            }
        }
        if cluster[d] == 0 || !grid[d].is_multiple_of(cluster[d]) {
            return refuse(format!(
                "a grid of {} in {axis} with clusters of {}: it must be a multiple",
                grid[d], cluster[d]
            ));
        }
    }
    let threads: u64 = block.iter().map(|d| u64::from(*d)).product();
    if threads > 1024 {
        return refuse(format!("a block of {threads} threads; 1024 are possible"));
    }
    let blocks: u64 = cluster.iter().map(|d| u64::from(*d)).fold(1, u64::saturating_mul);
    if blocks > 16 {
        return refuse(format!("a cluster of {blocks} blocks; 16 are possible"));
    }
    Ok(())
}
