//! A model of the caches: an L1 for each multiprocessor and one L2, in lines of 128 bytes with four sectors.
//!
//! Both are set-associative and replace the line that was used longest ago. L1 writes global memory through without a line of its own, and keeps
//! local memory; L2 writes back. Chips place and replace lines in ways that are not published, so rates near a capacity differ.

use super::counts::Counts;
use super::sectors::SECTOR;
use crate::chip::Chip;

/// Sectors of a line.
const SECTORS: u64 = 4;
/// Lines of a set.
const WAYS: usize = 16;
/// L1 has at least this many bytes, however much shared memory blocks take.
const LEAST_L1: u64 = 24 << 10;

/// Outcome of a look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    hit: bool,
    /// True for the first change since the sector came.
    dirtied: bool,
    /// Sectors that a read brings from the chip's memory.
    fetched: u64,
    /// Changed sectors of a line that made room.
    written_back: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The line's number plus 1; 0 is empty.
    tag: u64,
    valid: u8,
    dirty: u8,
    /// The sectors that are there, also those that came with others.
    present: u8,
    used: u64,
}

/// One cache. A set has no memory before it is used.
#[derive(Debug)]
struct Cache {
    sets: Vec<Option<Box<[Line; WAYS]>>>,
    clock: u64,
}

impl Cache {
    /// A cache of so many bytes, at least one set.
    fn new(bytes: u64) -> Cache {
        let sets = (bytes / (SECTOR * SECTORS) / WAYS as u64).max(1);
        Cache { sets: std::iter::repeat_with(|| None).take(sets as usize).collect(), clock: 0 }
    }

    /// Looks a sector up, by its number; it is there from then on.
    fn access(&mut self, sector: u64, writes: bool) -> Outcome {
        self.clock += 1;
        let (line, bit) = (sector / SECTORS, 1u8 << (sector % SECTORS));
        let set = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % self.sets.len() as u64;
        let Some(slot) = self.sets.get_mut(set as usize) else { return Outcome::default() };
        let set = slot.get_or_insert_with(|| Box::new([Line::default(); WAYS]));
        let mut outcome = Outcome::default();
        let at = set.iter().position(|candidate| candidate.tag == line + 1).unwrap_or_else(|| {
            let oldest = (0..WAYS).min_by_key(|at| set[*at].used).unwrap_or(0);
            outcome.written_back = u64::from(set[oldest].dirty.count_ones());
            set[oldest] = Line { tag: line + 1, ..Line::default() };
            oldest
        });
        let place = &mut set[at];
        outcome.hit = place.valid & bit != 0;
        outcome.dirtied = writes && place.dirty & bit == 0;
        // Memory gives 64 bytes at once.
        let wanted = if writes { bit } else { 0b11 << ((sector % SECTORS) & !1) };
        outcome.fetched = if writes { 0 } else { u64::from((wanted & !place.present).count_ones()) };
        place.present |= wanted;
        place.valid |= bit;
        place.dirty |= if writes { bit } else { 0 };
        place.used = self.clock;
        outcome
    }
}

/// The caches of a chip.
#[derive(Debug)]
pub(super) struct Caches {
    l1: Vec<Option<Cache>>,
    l1_bytes: u64,
    l2: Cache,
    /// The multiprocessor of the block that runs.
    at: usize,
}

impl Caches {
    /// The caches of a chip on which so many bytes of each multiprocessor are shared memory.
    pub(super) fn new(chip: &Chip, shared: u64) -> Caches {
        Caches {
            l1: std::iter::repeat_with(|| None).take(chip.multiprocessors as usize).collect(),
            l1_bytes: chip.l1.saturating_sub(shared).max(LEAST_L1),
            l2: Cache::new(chip.l2),
            at: 0,
        }
    }

    /// A block with this number runs from now on: blocks go to the multiprocessors in turn.
    pub(super) fn choose(&mut self, block: u64) {
        self.at = (block % self.l1.len().max(1) as u64) as usize;
    }

    fn l1(&mut self) -> Option<&mut Cache> {
        let bytes = self.l1_bytes;
        Some(self.l1.get_mut(self.at)?.get_or_insert_with(|| Cache::new(bytes)))
    }

    /// A sector is loaded, through L1 or past it.
    pub(super) fn load(&mut self, sector: u64, through_l1: bool, counts: &mut Counts) {
        if through_l1 && let Some(l1) = self.l1() {
            let outcome = l1.access(sector, false);
            counts.l2_write_sectors += outcome.written_back;
            if outcome.hit {
                counts.l1_hit_sectors += 1;
                return;
            }
        }
        counts.l1_miss_sectors += 1;
        self.read_l2(sector, counts);
    }

    /// A sector of global memory is stored.
    pub(super) fn store(&mut self, sector: u64, counts: &mut Counts) {
        counts.l2_write_sectors += 1;
        // What is changed now is written back once, in this launch or later.
        counts.dram_write_bytes += if self.l2.access(sector, true).dirtied { SECTOR } else { 0 };
    }

    /// A sector is updated in L2, which may return what it was.
    pub(super) fn update(&mut self, sector: u64, returns: bool, counts: &mut Counts) {
        match returns {
            true => self.read_l2(sector, counts),
            false => counts.dram_read_bytes += SECTOR * self.l2.access(sector, false).fetched,
        }
        self.store(sector, counts);
    }

    /// A sector of local memory is stored: it stays in L1 until its line makes room.
    pub(super) fn store_local(&mut self, sector: u64, counts: &mut Counts) {
        let written_back = self.l1().map_or(1, |l1| l1.access(sector, true).written_back);
        counts.l2_write_sectors += written_back;
    }

    fn read_l2(&mut self, sector: u64, counts: &mut Counts) {
        counts.l2_read_sectors += 1;
        let outcome = self.l2.access(sector, false);
        counts.l2_hit_sectors += u64::from(outcome.hit);
        counts.dram_read_bytes += SECTOR * outcome.fetched;
    }
}
