//! Tensor memory (9.7.16.1): for each block 128 lanes of 512 columns of 32 bits, which columns are allocated, and what the
//! blocks of a pair have agreed on. Pure; the instructions are in `ops::tcgen05`, who waits is in `cluster`.

use super::fault::{Fault, FaultKind};
use ptx_core::diag::codes;

/// Lanes of a block's tensor memory.
pub(super) const LANES: u32 = 128;
/// Its columns.
pub(super) const COLUMNS: u32 = 512;
/// Bytes of a block's tensor memory.
pub(super) const BYTES: u64 = LANES as u64 * COLUMNS as u64 * 4;
/// Columns are allocated in units of so many.
pub(super) const UNIT: u32 = 32;
/// Content of fresh columns: NaN as a float, so that a sum that starts with it shows.
const FRESH: u32 = 0xffff_ffff;

/// A place: the lane in the upper half of an address, the column in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taddr {
    pub lane: u32,
    pub column: u32,
}

impl Taddr {
    /// The address in 32 bits of a register.
    pub(super) fn new(bits: u64) -> Taddr {
        Taddr { lane: (bits >> 16 & 0xffff) as u32, column: (bits & 0xffff) as u32 }
    }

    /// The same lane, other columns.
    pub(super) fn right(self, columns: u32) -> Taddr {
        Taddr { column: self.column.saturating_add(columns), ..self }
    }

    /// The same columns, another lane.
    pub(super) fn at_lane(self, lane: u32) -> Taddr {
        Taddr { lane, ..self }
    }
}

/// Columns that somebody allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub first: u32,
    pub count: u32,
}

/// A warp that waits for one of the other block, to allocate with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub warp: u32,
    pub count: u32,
    /// The first column, once both have it.
    pub granted: Option<u32>,
}

/// Lanes that observers take together, since shapes begin at multiples of that.
pub(super) const GROUP: u32 = 16;

/// Some columns of some lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    /// A bit for each 16 lanes.
    pub groups: u32,
    pub column: u32,
    pub count: u32,
}

impl Cells {
    /// Columns of lanes `lane .. lane + lanes`.
    pub(super) fn new(lane: u32, lanes: u32, column: u32, count: u32) -> Cells {
        let (first, last) = (lane / GROUP, (lane + lanes.max(1) - 1) / GROUP);
        let groups = (first..=last.min(LANES / GROUP - 1)).fold(0, |mask, group| mask | 1 << group);
        Cells { groups, column, count }
    }

    /// Columns of these lanes.
    pub(super) fn from_lanes(lanes: impl Iterator<Item = u32>, column: u32, count: u32) -> Cells {
        let groups = lanes.filter(|lane| *lane < LANES).fold(0, |mask, lane| mask | 1 << (lane / GROUP));
        Cells { groups, column, count }
    }
}

/// Use of tensor memory by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    /// It needs what is there.
    Depend,
    Write,
    /// It adds to what is there.
    Update,
    /// It takes the columns, or gives them back.
    Own,
}

/// One block's tensor memory.
#[derive(Debug, Default)]
pub(super) struct Tmem {
    /// Lane by lane; empty until the first allocation.
    words: Vec<u32>,
    allocations: Vec<Columns>,
    /// `tcgen05.relinquish_alloc_permit` has run.
    pub relinquished: bool,
    /// `cta_group::2` of its instructions: all of a kernel agree.
    pub pairs: Option<bool>,
    /// Warps in the middle of an allocation for a pair.
    pub offers: Vec<Offer>,
}

impl Tmem {
    /// Number of allocated columns.
    pub(super) fn taken_columns(&self) -> u32 {
        self.allocations.iter().map(|a| a.count).sum()
    }

    /// Number of free columns.
    pub(super) fn free_columns(&self) -> u32 {
        COLUMNS - self.taken_columns()
    }

    /// The first place where `count` columns are free in all of these.
    pub(super) fn find<'a>(count: u32, all: impl Iterator<Item = &'a Tmem> + Clone) -> Option<u32> {
        let free = |first: u32| {
            let taken = |a: &Columns| first < a.first + a.count && a.first < first + count;
            !all.clone().any(|tmem| tmem.allocations.iter().any(taken))
        };
        (0..=COLUMNS.checked_sub(count)?).step_by(UNIT as usize).find(|first| free(*first))
    }

    /// Allocates columns that are free.
    pub(super) fn take(&mut self, columns: Columns) {
        self.words.resize((LANES * COLUMNS) as usize, FRESH);
        self.allocations.push(columns);
        for lane in 0..LANES {
            let first = (lane * COLUMNS + columns.first) as usize;
            self.words[first..first + columns.count as usize].fill(FRESH);
        }
    }

    /// Gives an allocation back.
    pub(super) fn free(&mut self, columns: Columns) -> Result<(), Fault> {
        let found = self.allocations.iter().position(|a| *a == columns);
        match found {
            Some(at) => {
                self.allocations.remove(at);
                Ok(())
            }
            None => Err(Fault::new(FaultKind::OutOfBounds, self.not_mine(columns)).code(&codes::W0503)),
        }
    }

    /// The wait of a warp for its columns, for a message.
    pub(super) fn waiting(&self, warp: u32) -> String {
        match self.offers.iter().find(|offer| offer.warp == warp) {
            Some(offer) => format!(
                "for {} columns of tensor memory in both blocks of its pair; {} of {COLUMNS} are free here",
                offer.count,
                self.free_columns()
            ),
            None => {
                format!("for columns of tensor memory; {} of {COLUMNS} are free", self.free_columns())
            }
        }
    }

    fn not_mine(&self, Columns { first, count }: Columns) -> String {
        let have: Vec<String> =
            self.allocations.iter().map(|a| format!("{} columns from column {} on", a.count, a.first)).collect();
        let have = if have.is_empty() { "nothing".to_string() } else { have.join(", ") };
        format!("{count} columns of tensor memory from column {first} on are given back; allocated are {have}")
    }

    /// `count` words of a lane.
    pub(super) fn row(&self, at: Taddr, count: u32) -> Result<&[u32], Fault> {
        let first = self.check(at, count)?;
        self.words.get(first..first + count as usize).ok_or_else(|| nobody(at, count, at.column))
    }

    /// The same, to write to.
    pub(super) fn row_mut(&mut self, at: Taddr, count: u32) -> Result<&mut [u32], Fault> {
        let first = self.check(at, count)?;
        self.words.get_mut(first..first + count as usize).ok_or_else(|| nobody(at, count, at.column))
    }

    /// The index of a lane's columns, if somebody allocated them all.
    fn check(&self, at: Taddr, count: u32) -> Result<usize, Fault> {
        if at.lane >= LANES {
            let message = format!("lane {} of tensor memory, which has the lanes 0 to {}", at.lane, LANES - 1);
            return Err(Fault::new(FaultKind::OutOfBounds, message).code(&codes::W0503));
        }
        let mut next = at.column;
        let end = at.column.saturating_add(count);
        while next < end {
            let inside = |a: &&Columns| (a.first..a.first + a.count).contains(&next);
            match self.allocations.iter().find(inside) {
                Some(found) => next = found.first + found.count,
                None => return Err(nobody(at, count, next)),
            }
        }
        Ok((at.lane * COLUMNS + at.column) as usize)
    }
}

fn nobody(at: Taddr, count: u32, missing: u32) -> Fault {
    let last = at.column.saturating_add(count).saturating_sub(1);
    let what = if missing < COLUMNS { "which nobody allocated" } else { "of which there are 512" };
    let message = format!("the columns {} to {last} of tensor memory: it is column {missing}, {what}", at.column);
    Fault::new(FaultKind::OutOfBounds, message).code(&codes::W0503)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn columns_are_taken_first_fit_and_given_back_whole() {
        let mut tmem = Tmem::default();
        let find = |tmem: &Tmem, count| Tmem::find(count, [tmem].into_iter());
        assert_eq!(find(&tmem, 512), Some(0));
        tmem.take(Columns { first: 0, count: 64 });
        tmem.take(Columns { first: 64, count: 32 });
        assert_eq!((find(&tmem, 512), find(&tmem, 256), tmem.free_columns()), (None, Some(96), 416));
        assert!(tmem.free(Columns { first: 0, count: 32 }).is_err());
        assert!(tmem.free(Columns { first: 0, count: 64 }).is_ok());
        assert_eq!((find(&tmem, 64), find(&tmem, 128)), (Some(0), Some(96)));
        let other = Tmem { allocations: vec![Columns { first: 0, count: 64 }], ..Tmem::default() };
        assert_eq!(Tmem::find(64, [&tmem, &other].into_iter()), Some(96));
    }

    #[test]
    fn only_allocated_cells_exist() {
        let mut tmem = Tmem::default();
        let at = |lane, column| Taddr { lane, column };
        assert!(tmem.row(at(0, 0), 1).is_err());
        tmem.take(Columns { first: 0, count: 32 });
        tmem.take(Columns { first: 32, count: 32 });
        tmem.row_mut(at(127, 30), 4).unwrap().copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!(tmem.row(at(127, 31), 2).unwrap(), [2, 3]);
        assert_eq!(tmem.row(at(126, 31), 1).unwrap(), [FRESH]);
        assert!(tmem.row(at(128, 0), 1).is_err() && tmem.row(at(0, 63), 2).is_err());
        assert!(tmem.row(at(0, u32::MAX), u32::MAX).is_err() && tmem.row(at(0, 0), u32::MAX).is_err());
    }
}
