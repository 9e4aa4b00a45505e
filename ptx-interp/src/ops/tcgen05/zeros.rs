//! The zero-column mask of `tcgen05.mma.ws` (9.7.16.4.3): which columns of B count as zeros, and from which column on B is
//! read. Where the manual's table and its examples disagree (which span is which), the examples are followed.

use crate::fault::Fault;

/// A decoded mask.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Zeros {
    /// One entry a column: whether it is zeros. Empty: none is.
    pub columns: Vec<bool>,
    /// Column n of the product is column n + shift in memory.
    pub shift: usize,
}

impl Zeros {
    /// Decodes a descriptor for a product of M rows and N columns.
    pub(super) fn new(bits: u64, m: usize, n: usize) -> Result<Zeros, Fault> {
        let byte = |at: u32| (bits >> at & 0xff) as usize;
        let shift = (bits >> 56 & 0x3f) as usize;
        let most = if m == 32 { 16 } else { 32 };
        if bits >> 62 != 0 || bits >> 36 & 7 != 0 {
            return Err(Fault::undefined(format!(
                "a zero-column mask descriptor {bits:#x} whose reserved bits are not 0"
            )));
        }
        if shift > most {
            return Err(Fault::undefined(format!(
                "a zero-column mask that shifts by {shift} columns; {most} are possible"
            )));
        }
        if bits >> 39 & 1 == 0 {
            return Ok(Zeros { columns: Vec::new(), shift });
        }
        let (zeros, used) = (byte(40) + 1, byte(48) + 1);
        let parts = 128 / m;
        let columns = (0..parts).flat_map(|part| {
            let (start, first) = (byte(8 * part as u32), bits >> (32 + part) & 1 == 1);
            let (lead, period) = (if first { zeros } else { used }, zeros + used);
            (0..n / parts).map(move |i| ((start + i) % period < lead) == first)
        });
        Ok(Zeros { columns: columns.collect(), shift })
    }

    /// Returns true if a column is zeros.
    pub(super) fn hides(&self, column: usize) -> bool {
        self.columns.get(column).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A sub-mask as the manual prints it: the lowest column last.
    fn printed(mask: &Zeros, from: usize, count: usize) -> String {
        (from..from + count).rev().map(|n| if mask.hides(n) { '1' } else { '0' }).collect()
    }

    fn descriptor(start: [u64; 4], first: u64, skip: u64, used: u64, shift: u64) -> u64 {
        let start = start.iter().rev().fold(0, |word, count| word << 8 | count);
        start | first << 32 | 1 << 39 | skip << 40 | used << 48 | shift << 56
    }

    #[test]
    fn the_examples_of_the_manual() {
        let one = Zeros::new(descriptor([0; 4], 0, 4, 3, 0) & !(1 << 39), 128, 64).unwrap();
        assert_eq!(one, Zeros::default());
        let two = Zeros::new(descriptor([0; 4], 0, 2, 3, 0), 128, 64).unwrap();
        assert_eq!(printed(&two, 0, 14), "11100001110000");
        let three = Zeros::new(descriptor([0; 4], 1, 2, 3, 0), 64, 64).unwrap();
        assert_eq!(printed(&three, 0, 17), "11100001110000111");
        assert_eq!(printed(&three, 32, 21), "111000011100001110000");
        let four = Zeros::new(descriptor([0, 1, 2, 1], 3, 2, 3, 2), 32, 128).unwrap();
        assert_eq!(printed(&four, 0, 14), "00001110000111");
        assert_eq!(printed(&four, 32, 13), "0000111000011");
        assert_eq!(printed(&four, 64, 12), "111000011100");
        assert_eq!(printed(&four, 96, 13), "1110000111000");
        assert_eq!(four.shift, 2);
        assert!(Zeros::new(17 << 56, 32, 128).is_err() && Zeros::new(33 << 56, 64, 128).is_err());
        assert!(Zeros::new(1 << 36, 64, 128).is_err());
    }
}
