//! The accesses of the instruction that runs: collected while it does, counted when it is over.

use super::banks::{Addresses, Pattern, count_copy_wavefronts, count_wavefronts, ideal_wavefronts};
use super::caches::Caches;
use super::counts::Counts;
use super::facts::{Fact, Way};
use super::sectors::{Extent, SECTOR, each_sector, measure};
use crate::space::Where;
use crate::warp::lanes;
use ptx_target::sort::SortSmall;

/// A memory that has counters of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Shared,
    /// Shared memory of another block of the cluster.
    Cluster,
    Global,
    Local,
    Constant,
}

impl Memory {
    /// The memory of a place; parameters are none.
    pub(super) fn new(space: Where, is_own: bool) -> Option<Memory> {
        Some(match space {
            Where::Shared | Where::Cluster if is_own => Memory::Shared,
            Where::Shared | Where::Cluster => Memory::Cluster,
            Where::Global | Where::Generic => Memory::Global,
            Where::Local => Memory::Local,
            Where::Const => Memory::Constant,
            Where::Param => return None,
        })
    }
}

/// One access of lanes to the same bytes, or of all lanes to neighbors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub memory: Memory,
    pub writes: bool,
    pub lanes: u32,
    pub at: u64,
    pub size: u64,
    /// True if each lane's bytes follow those of the lane before.
    pub row: bool,
}

impl Access {
    fn bytes(&self) -> u64 {
        self.size * u64::from(self.lanes.count_ones())
    }

    /// The address of a lane.
    fn address(&self, lane: usize) -> u64 {
        self.at + if self.row { lane as u64 * self.size } else { 0 }
    }

    /// The bytes that it touches, from the first to the one behind the last.
    fn range(&self) -> (u64, u64) {
        let whole = if self.row { 32 * self.size } else { self.size };
        (self.at, self.at.saturating_add(whole))
    }
}

/// The accesses of one instruction.
#[derive(Debug, Default)]
pub(super) struct Open {
    pub accesses: Vec<Access>,
    /// The start of the warp's local memory, as the caches see it.
    pub local: u64,
    /// The sector that a bulk copy touched last, reading and writing.
    last: [Option<u64>; 2],
    ranges: Vec<(u64, u64)>,
}

impl Open {
    /// Adds what the accesses of an instruction cost, and forgets them.
    pub(super) fn close(&mut self, fact: &Fact, caches: &mut Caches, counts: &mut Counts) {
        if self.accesses.is_empty() {
            return;
        }
        match fact.way {
            Way::Threads | Way::Rows => self.count_threads(fact, caches, counts),
            Way::Atomic | Way::Reduction => self.count_updates(fact, caches, counts),
            Way::Copy => self.count_copies(fact, caches, counts),
            Way::Bulk => self.count_bulk(caches, counts),
            Way::Tensor => self.count_tensor(counts),
            Way::Nothing => {}
        }
        self.accesses.clear();
        self.last = [None; 2];
    }

    /// The accesses to a memory, one way.
    fn of(&self, memory: Memory, writes: bool) -> impl Iterator<Item = &Access> {
        self.accesses.iter().filter(move |access| access.memory == memory && access.writes == writes)
    }

    fn any(&self, memory: Memory, writes: bool) -> u64 {
        u64::from(self.of(memory, writes).next().is_some())
    }

    fn bytes(&self, memory: Memory, writes: bool) -> u64 {
        self.of(memory, writes).map(Access::bytes).sum()
    }

    /// The extent of the accesses to a memory.
    fn extent(&mut self, memory: Memory, writes: bool) -> Extent {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.clear();
        ranges.extend(self.of(memory, writes).map(Access::range));
        let extent = measure(&mut ranges);
        self.ranges = ranges;
        extent
    }

    /// The address of each lane that accesses a memory.
    fn addresses(&self, memory: Memory, writes: bool) -> Addresses {
        let mut addresses = [None; 32];
        for access in self.of(memory, writes) {
            lanes(access.lanes).for_each(|lane| addresses[lane] = Some(access.address(lane)));
        }
        addresses
    }

    /// Wavefronts of the accesses to the block's shared memory.
    fn wavefronts(&self, writes: bool, pattern: Pattern) -> u64 {
        let mut rounds = Rounds { taken: 0, addresses: [None; 32], size: 0, pattern, sum: 0 };
        for access in self.of(Memory::Shared, writes) {
            rounds.add(access);
        }
        rounds.end();
        rounds.sum
    }

    fn count_threads(&mut self, fact: &Fact, caches: &mut Caches, counts: &mut Counts) {
        let [reads, writes] = [false, true];
        let pattern = fact.pattern;
        if self.any(Memory::Shared, reads) != 0 {
            counts.shared_load_requests += 1;
            counts.shared_load_wavefronts += self.wavefronts(reads, pattern);
            counts.shared_load_wavefronts_ideal += ideal_wavefronts(self.extent(Memory::Shared, reads).bytes);
            counts.shared_load_bytes += self.bytes(Memory::Shared, reads);
        }
        if self.any(Memory::Shared, writes) != 0 {
            counts.shared_store_requests += 1;
            counts.shared_store_wavefronts += self.wavefronts(writes, Pattern::Plain);
            counts.shared_store_wavefronts_ideal += ideal_wavefronts(self.extent(Memory::Shared, writes).bytes);
            counts.shared_store_bytes += self.bytes(Memory::Shared, writes);
        }
        if self.any(Memory::Global, reads) != 0 {
            let extent = self.extent(Memory::Global, reads);
            counts.global_load_requests += 1;
            counts.global_load_sectors += extent.sectors;
            counts.global_load_sectors_ideal += extent.ideal();
            counts.global_load_bytes += self.bytes(Memory::Global, reads);
            each_sector(&self.ranges, |sector| caches.load(sector, fact.through_l1, counts));
        }
        if self.any(Memory::Global, writes) != 0 {
            let extent = self.extent(Memory::Global, writes);
            counts.global_store_requests += 1;
            counts.global_store_sectors += extent.sectors;
            counts.global_store_sectors_ideal += extent.ideal();
            counts.global_store_bytes += self.bytes(Memory::Global, writes);
            each_sector(&self.ranges, |sector| caches.store(sector, counts));
        }
        if self.any(Memory::Local, reads) != 0 {
            counts.local_load_requests += 1;
            counts.local_load_sectors += self.local_sectors(reads);
            each_sector(&self.ranges, |sector| caches.load(sector, true, counts));
        }
        if self.any(Memory::Local, writes) != 0 {
            counts.local_store_requests += 1;
            counts.local_store_sectors += self.local_sectors(writes);
            each_sector(&self.ranges, |sector| caches.store_local(sector, counts));
        }
        counts.constant_load_requests += self.any(Memory::Constant, reads);
        counts.cluster_load_bytes += self.bytes(Memory::Cluster, reads);
        counts.cluster_store_bytes += self.bytes(Memory::Cluster, writes);
    }

    /// Sectors of local memory, in which the words of a warp's lanes with one address lie side by side.
    fn local_sectors(&mut self, writes: bool) -> u64 {
        const WORD: u64 = 4;
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.clear();
        for access in self.of(Memory::Local, writes) {
            for lane in lanes(access.lanes) {
                let words = access.at / WORD..(access.at + access.size).div_ceil(WORD);
                let place = |word: u64| self.local + (word * 32 + lane as u64) * WORD;
                ranges.extend(words.map(|word| (place(word), place(word) + WORD)));
            }
        }
        let sectors = measure(&mut ranges).sectors;
        self.ranges = ranges;
        sectors
    }

    /// Updates report the whole of what they update, then each element: the first report of a lane counts.
    fn count_updates(&mut self, fact: &Fact, caches: &mut Caches, counts: &mut Counts) {
        let mut seen = 0u32;
        self.accesses.retain_mut(|access| {
            access.lanes &= !seen;
            seen |= access.lanes;
            access.writes = true;
            access.lanes != 0
        });
        let updates: u64 = self.accesses.iter().map(|access| u64::from(access.lanes.count_ones())).sum();
        let mut addresses: Vec<(bool, u64)> =
            self.accesses.iter().map(|access| (access.memory == Memory::Global, access.at)).collect();
        addresses.sort_small();
        addresses.dedup();
        counts.atomic_updates += updates;
        counts.atomic_conflicts += updates.saturating_sub(addresses.len() as u64);
        counts.shared_atomic_requests += self.any(Memory::Shared, true);
        counts.shared_atomic_wavefronts += fact.turns * self.wavefronts(true, fact.pattern);
        counts.cluster_store_bytes += self.bytes(Memory::Cluster, true);
        let (requests, sectors) = (self.any(Memory::Global, true), self.update_sectors());
        self.extent(Memory::Global, true);
        let returns = fact.way == Way::Atomic;
        each_sector(&self.ranges, |sector| caches.update(sector, returns, counts));
        if returns {
            counts.global_atomic_requests += requests;
            counts.global_atomic_sectors += sectors;
        } else {
            counts.global_reduction_requests += requests;
            counts.global_reduction_sectors += sectors;
        }
    }

    /// Sectors of updates of global memory. Lanes with one address take turns, each with the sectors of its own.
    fn update_sectors(&self) -> u64 {
        let place = |access: &Access| (access.range().0, access.range().1, access.lanes.count_ones());
        let mut lanes: Vec<(u64, u64, u32)> = self.of(Memory::Global, true).map(place).collect();
        lanes.sort_small();
        lanes.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 += if same { next.2 } else { 0 };
            same
        });
        let turns = lanes.iter().map(|(.., lanes)| *lanes).max().unwrap_or(0);
        let in_turn =
            |turn: u32| lanes.iter().filter(move |(.., lanes)| *lanes > turn).map(|(from, to, _)| (*from, *to));
        (0..turns).map(|turn| measure(&mut in_turn(turn).collect::<Vec<_>>()).sectors).sum()
    }

    fn count_copies(&mut self, fact: &Fact, caches: &mut Caches, counts: &mut Counts) {
        counts.async_copy_requests += 1;
        let extent = self.extent(Memory::Global, false);
        each_sector(&self.ranges, |sector| caches.load(sector, fact.through_l1, counts));
        counts.async_copy_sectors += extent.sectors;
        counts.async_copy_sectors_ideal += extent.ideal();
        counts.async_copy_bytes += self.bytes(Memory::Global, false);
        let (sources, targets) = (self.addresses(Memory::Global, false), self.addresses(Memory::Shared, true));
        let size = self.of(Memory::Shared, true).map(|access| access.size).max().unwrap_or(0);
        counts.async_copy_wavefronts += count_copy_wavefronts(&sources, &targets, size);
        counts.async_copy_wavefronts_ideal += ideal_wavefronts(self.extent(Memory::Shared, true).bytes);
    }

    /// Bulk copies report pieces in order: a sector counts when a piece enters it.
    fn count_bulk(&mut self, caches: &mut Caches, counts: &mut Counts) {
        let mut last = self.last;
        for access in &self.accesses {
            let (from, to) = access.range();
            match (access.memory, access.writes) {
                (Memory::Global, writes) => {
                    let (first, end) = (from / SECTOR, to.saturating_sub(1) / SECTOR);
                    let known = u64::from(last[usize::from(writes)] == Some(first));
                    last[usize::from(writes)] = Some(end);
                    let fresh = first + known..end + 1;
                    let sectors = (end + 1).saturating_sub(first + known);
                    fresh.for_each(|sector| match writes {
                        true => caches.store(sector, counts),
                        false => caches.load(sector, false, counts),
                    });
                    let (bytes, all) = match writes {
                        true => (&mut counts.bulk_store_bytes, &mut counts.bulk_store_sectors),
                        false => (&mut counts.bulk_load_bytes, &mut counts.bulk_load_sectors),
                    };
                    *bytes += access.bytes();
                    *all += sectors;
                }
                (Memory::Cluster, true) => counts.cluster_store_bytes += access.bytes(),
                (Memory::Cluster | Memory::Shared, _) => counts.bulk_shared_bytes += access.bytes(),
                (Memory::Local | Memory::Constant, _) => {}
            }
        }
        self.last = last;
    }

    fn count_tensor(&mut self, counts: &mut Counts) {
        let shared = |access: &&Access| matches!(access.memory, Memory::Shared | Memory::Cluster) && !access.writes;
        counts.tensor_shared_bytes += self.accesses.iter().filter(shared).map(Access::bytes).sum::<u64>();
    }

    /// Counts pieces of a bulk copy so far, so that a large copy needs no memory.
    pub(super) fn count_pieces(&mut self, way: Way, caches: &mut Caches, counts: &mut Counts) {
        /// Pieces that are kept.
        const MOST: usize = 1024;
        if self.accesses.len() < MOST {
            return;
        }
        match way {
            Way::Bulk => self.count_bulk(caches, counts),
            Way::Tensor => self.count_tensor(counts),
            _ => return,
        }
        self.accesses.clear();
    }
}

/// Lanes' accesses to shared memory, in rounds: a lane that has more than one takes part in as many.
struct Rounds {
    taken: u32,
    addresses: Addresses,
    size: u64,
    pattern: Pattern,
    sum: u64,
}

impl Rounds {
    fn add(&mut self, access: &Access) {
        if self.taken & access.lanes != 0 || self.taken != 0 && self.size != access.size {
            self.end();
        }
        self.size = access.size;
        self.taken |= access.lanes;
        lanes(access.lanes).for_each(|lane| self.addresses[lane] = Some(access.address(lane)));
    }

    fn end(&mut self) {
        if self.taken != 0 {
            self.sum += count_wavefronts(&self.addresses, self.size, self.pattern);
        }
        (self.taken, self.addresses) = (0, [None; 32]);
    }
}
