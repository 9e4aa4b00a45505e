//! Sectors: the 32-byte parts of global memory that one instruction of a warp touches. Only arithmetic.

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 32;

/// Extent of some ranges of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Distinct bytes.
    pub bytes: u64,
    /// Distinct sectors.
    pub sectors: u64,
}

impl Extent {
    /// The fewest sectors that hold the bytes.
    pub(super) fn ideal(self) -> u64 {
        self.bytes.div_ceil(SECTOR)
    }
}

/// The extent of ranges: from their first byte to the one behind the last. They are sorted on the way.
pub(super) fn measure(ranges: &mut [(u64, u64)]) -> Extent {
    ranges.sort_unstable();
    let mut extent = Extent::default();
    // The first byte and the first sector that are not counted yet.
    let (mut byte, mut sector) = (0, 0);
    for (from, to) in ranges.iter().filter(|(from, to)| from < to) {
        extent.bytes += to.saturating_sub(byte.max(*from));
        byte = byte.max(*to);
        let end = (to - 1) / SECTOR + 1;
        extent.sectors += end.saturating_sub(sector.max(from / SECTOR));
        sector = sector.max(end);
    }
    extent
}

/// Calls `visit` with each distinct sector of sorted ranges.
pub(super) fn each_sector(ranges: &[(u64, u64)], mut visit: impl FnMut(u64)) {
    let mut next = 0;
    for (from, to) in ranges.iter().filter(|(from, to)| from < to) {
        let end = (to - 1) / SECTOR + 1;
        (next.max(from / SECTOR)..end).for_each(&mut visit);
        next = next.max(end);
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, each_sector, measure};

    /// Name, bytes of a lane, addresses, bytes, sectors, and the fewest sectors. Worked out by hand.
    type Case = (&'static str, u64, fn(u64) -> Option<u64>, u64, u64, u64);

    const CASES: &[Case] = &[
        ("words side by side", 4, |l| Some(4 * l), 128, 4, 4),
        ("words side by side, 4 bytes further", 4, |l| Some(4 + 4 * l), 128, 5, 4),
        ("words in reverse", 4, |l| Some(256 - 4 * l), 128, 5, 4),
        ("every second word", 4, |l| Some(8 * l), 128, 8, 4),
        ("every eighth word", 4, |l| Some(32 * l), 128, 32, 4),
        ("words far apart", 4, |l| Some(4096 * l), 128, 32, 4),
        ("one word", 4, |_| Some(100), 4, 1, 1),
        ("half a warp", 4, |l| (l < 16).then_some(4 * l), 64, 2, 2),
        ("every second lane", 4, |l| (l % 2 == 0).then_some(4 * l), 64, 4, 2),
        ("no lane", 4, |_| None, 0, 0, 0),
        ("bytes side by side", 1, Some, 32, 1, 1),
        ("halves side by side", 2, |l| Some(2 * l), 64, 2, 2),
        ("doubles side by side", 8, |l| Some(8 * l), 256, 8, 8),
        ("16 bytes side by side", 16, |l| Some(16 * l), 512, 16, 16),
        ("16 bytes in a stride of 32", 16, |l| Some(32 * l), 512, 32, 16),
        ("32 bytes side by side", 32, |l| Some(32 * l), 1024, 32, 32),
        ("ranges that overlap", 16, |l| Some(8 * l), 264, 9, 9),
    ];

    #[test]
    fn accesses_touch_these_sectors() {
        for (name, size, by, bytes, sectors, ideal) in CASES {
            let mut ranges: Vec<(u64, u64)> = (0..32).filter_map(by).map(|at| (at, at + size)).collect();
            let extent = measure(&mut ranges);
            assert_eq!((extent, extent.ideal()), (Extent { bytes: *bytes, sectors: *sectors }, *ideal), "{name}");
            let mut visited = 0;
            each_sector(&ranges, |_| visited += 1);
            assert_eq!(visited, *sectors, "{name}");
        }
    }
}
