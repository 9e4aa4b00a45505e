//! The matrix descriptors of `wgmma` and `tcgen05.mma` (9.7.15.5.1.2, 9.7.16.4.1): the CPU device reads matrices by them, and the prover finds
//! their bytes.
//!
//! Only arithmetic of addresses: nothing here reads memory.

use crate::tensor::Swizzle;

/// The dimension of a matrix that is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    /// The one that is summed over.
    K,
    /// The rows of A, the columns of B.
    Mn,
}

/// A matrix in shared memory, as a 64-bit descriptor describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Its first byte.
    pub start: u64,
    /// "Leading dimension byte offset".
    pub leading: u64,
    /// "Stride dimension byte offset".
    pub stride: u64,
    /// The line in which the pattern of the swizzle begins.
    pub base: u64,
    /// The pattern of its rows.
    pub swizzle: Swizzle,
}

/// The bits of a descriptor that hold its first byte, in units of 16 bytes.
pub const START: u32 = 14;
/// The bytes of a piece: the least part of a row that lies together.
pub const PIECE: u64 = 16;

/// Bits that hold no field: beside the start, the leading and the stride offset, and before the swizzle. They must be 0.
const BESIDE: u64 = 0b11 << 14 | 0b11 << 30;
const WGMMA_RESERVED: u64 = BESIDE | 0b111 << 46 | 0x3ff << 52;
const TCGEN05_RESERVED: u64 = BESIDE | 0xff << 53;
/// Bits 46 to 48 of a descriptor of `tcgen05`, and the value that they must have.
const VERSION: (u64, u64) = (0b111 << 46, 0b001 << 46);

/// Objects to bits that must be 0.
fn check_reserved(bits: u64, reserved: u64) -> Result<(), String> {
    match bits & reserved {
        0 => Ok(()),
        set => {
            let first = set.trailing_zeros();
            Err(format!(
                "a matrix descriptor ({bits:#018x}) with bit {first} set, which must be 0: keep 14 bits of each address and offset, in units of 16 bytes"
            ))
        }
    }
}

/// The addresses that a descriptor can say.
const WINDOW: u64 = 0x3_ffff;

impl Descriptor {
    /// A descriptor of `wgmma`.
    ///
    /// # Errors
    /// Bits that are set and must not be.
    pub fn wgmma(bits: u64) -> Result<Descriptor, String> {
        const MODES: [Swizzle; 4] = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32];
        check_reserved(bits, WGMMA_RESERVED)?;
        Ok(Descriptor::new(bits, MODES[(bits >> 62) as usize]))
    }

    /// A descriptor of `tcgen05.mma` and `tcgen05.cp`.
    ///
    /// # Errors
    /// A swizzle that does not exist, and bits that do not have the value that they must have.
    pub fn tcgen05(bits: u64) -> Result<Descriptor, String> {
        let swizzle = match bits >> 61 {
            0 => Swizzle::None,
            1 => Swizzle::B128Atom32,
            2 => Swizzle::B128,
            4 => Swizzle::B64,
            6 => Swizzle::B32,
            mode => return Err(format!("a matrix descriptor with swizzle mode {mode}; 0, 1, 2, 4 and 6 exist")),
        };
        if bits & VERSION.0 != VERSION.1 {
            let has = bits >> 46 & 0b111;
            return Err(format!(
                "a matrix descriptor ({bits:#018x}) whose bits 46 to 48 are {has:#05b}; `tcgen05` needs 0b001 there"
            ));
        }
        check_reserved(bits, TCGEN05_RESERVED)?;
        Ok(Descriptor::new(bits, swizzle))
    }

    fn new(bits: u64, swizzle: Swizzle) -> Descriptor {
        let field = |at: u32| (bits >> at & 0x3fff) << 4;
        Descriptor { start: field(0), leading: field(16), stride: field(32), base: bits >> 49 & 7, swizzle }
    }

    /// The address of the 16 bytes that hold the elements from `piece · 16` bytes on along the contiguous dimension, at
    /// position `line` of the other one.
    #[must_use]
    pub fn piece(&self, major: Major, line: u64, piece: u64) -> u64 {
        self.swizzle.apply_from(self.start + self.offset(major, line, piece), self.base) & WINDOW
    }

    /// The bytes from the start to a piece, before the swizzle.
    fn offset(&self, major: Major, line: u64, piece: u64) -> u64 {
        let Descriptor { leading, stride, swizzle, .. } = *self;
        let span = swizzle.span();
        let lines = if (major, swizzle) == (Major::Mn, Swizzle::B128Atom32) { 4 } else { 8 };
        let (near, far) = (line % lines, line / lines);
        let (inside, beyond) = (piece % (span / PIECE) * PIECE, piece / (span / PIECE));
        match (major, swizzle) {
            (Major::Mn, Swizzle::None) => near * PIECE + far * leading + piece * stride,
            // Along k only the sparse products with 32-byte swizzles reach beyond a row of the pattern.
            _ => near * span + far * stride + inside + beyond * leading,
        }
    }

    /// The first byte and the end of all that a matrix of so many lines and pieces may take, from its start on: a swizzle moves a piece inside of its
    /// row. `rest` is the start modulo [`Swizzle::span`], if it is known.
    #[must_use]
    pub fn extent(&self, major: Major, [lines, pieces]: [u64; 2], rest: Option<u64>) -> (i128, i128) {
        let row = if self.swizzle == Swizzle::None { PIECE } else { self.swizzle.span() };
        let places = (0..lines).flat_map(|line| (0..pieces).map(move |piece| (line, piece)));
        let ends = places.map(|(line, piece)| {
            let at = i128::from(self.offset(major, line, piece));
            let row = i128::from(row);
            match rest.map(i128::from) {
                Some(rest) => {
                    ((at + rest).div_euclid(row) * row - rest, (at + rest).div_euclid(row) * row - rest + row)
                }
                None => (at - row + 1, at + row),
            }
        });
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0))
    }

    /// Bytes from the start to the end of the swizzle's row.
    #[must_use]
    pub fn room(self) -> u64 {
        self.swizzle.span() - self.start % self.swizzle.span()
    }
}

/// The extents of a product in the instruction descriptor of `tcgen05.mma` (9.7.16.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Rows of A, in all blocks together.
    pub m: u64,
    /// Columns of B.
    pub n: u64,
    /// The dimension of A and of B that is contiguous.
    pub majors: [Major; 2],
}

impl Extents {
    /// Those of a descriptor.
    #[must_use]
    pub fn of(word: u32) -> Extents {
        let field = |at: u32, bits: u32| u64::from(word >> at & ((1 << bits) - 1));
        let major = |at: u32| if field(at, 1) == 1 { Major::Mn } else { Major::K };
        Extents { m: field(24, 5) * 16, n: field(17, 6) * 8, majors: [major(15), major(16)] }
    }
}
