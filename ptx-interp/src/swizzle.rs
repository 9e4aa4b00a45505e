//! Where tiles and matrices stand in shared memory: how swizzles mix the bits of an address (5.5.7), and what the matrix
//! descriptors of `wgmma` and `tcgen05.mma` say (9.7.15.5.1.2, 9.7.16.4.1).
//!
//! Only arithmetic of addresses: nothing here reads memory.

/// The order of pieces of 16 bytes in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// As in global memory.
    #[default]
    None,
    /// Within rows of 32 bytes.
    B32,
    /// Within rows of 64 bytes.
    B64,
    /// Within rows of 128 bytes.
    B128,
    /// Within rows of 128 bytes, in pieces of 32 bytes.
    B128Atom32,
    /// The same, and the two 8-byte halves of 16 bytes exchanged in every other line.
    B128Atom32Flip8,
    /// Within rows of 128 bytes, in pieces of 64 bytes.
    B128Atom64,
    /// Within rows of 96 bytes.
    B96,
}

/// How a swizzle changes an address: `bits` bits from `low` on are exclusively or-ed with those of the line (the address
/// in units of 128 bytes); with `flip`, bit 3 too with the lowest of the line.
struct Mix {
    /// Bytes of a row.
    span: u64,
    low: u32,
    bits: u32,
    flip: bool,
}

/// In the order of [`Swizzle`].
#[rustfmt::skip]
const MIXES: [Mix; 8] = [
    Mix { span: 16, low: 4, bits: 0, flip: false },
    Mix { span: 32, low: 4, bits: 1, flip: false },
    Mix { span: 64, low: 4, bits: 2, flip: false },
    Mix { span: 128, low: 4, bits: 3, flip: false },
    Mix { span: 128, low: 5, bits: 2, flip: false },
    Mix { span: 128, low: 5, bits: 2, flip: true },
    Mix { span: 128, low: 6, bits: 1, flip: false },
    Mix { span: 96, low: 4, bits: 1, flip: false },
];

/// Bytes of a line: what all patterns count in.
const LINE: u32 = 7;

impl Swizzle {
    /// Every swizzle, in the order of its number.
    pub const ALL: [Swizzle; 8] = [
        Swizzle::None,
        Swizzle::B32,
        Swizzle::B64,
        Swizzle::B128,
        Swizzle::B128Atom32,
        Swizzle::B128Atom32Flip8,
        Swizzle::B128Atom64,
        Swizzle::B96,
    ];

    fn mix(self) -> &'static Mix {
        &MIXES[self as usize]
    }

    /// Bytes of a row of the pattern; 16 without one.
    pub fn span(self) -> u64 {
        self.mix().span
    }

    /// Bytes after which the pattern repeats: what a tile in shared memory is aligned to.
    pub fn repeat(self) -> u64 {
        128 << self.mix().bits
    }

    /// How a message calls it.
    pub(super) fn words(self) -> &'static str {
        const WORDS: [&str; 8] = [
            "no swizzle",
            "32-byte swizzle",
            "64-byte swizzle",
            "128-byte swizzle",
            "128-byte swizzle in pieces of 32 bytes",
            "128-byte swizzle in pieces of 32 bytes with a flip",
            "128-byte swizzle in pieces of 64 bytes",
            "96-byte swizzle",
        ];
        WORDS.get(self as usize).copied().unwrap_or("another swizzle")
    }

    /// Where the byte of an address really stands. The pattern begins at multiples of [`repeat`](Swizzle::repeat).
    pub fn apply(self, address: u64) -> u64 {
        self.apply_from(address, 0)
    }

    /// The same for a pattern that begins `base` lines of 128 bytes later.
    pub(super) fn apply_from(self, address: u64, base: u64) -> u64 {
        let Mix { low, bits, flip, .. } = *self.mix();
        let line = (address >> LINE).wrapping_sub(base);
        let mixed = address ^ (line & ((1 << bits) - 1)) << low;
        if flip { mixed ^ (line & 1) << 3 } else { mixed }
    }
}

/// Which dimension of a matrix is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Major {
    /// The one that is summed over.
    K,
    /// The rows of A, the columns of B.
    Mn,
}

/// A matrix in shared memory, as a 64-bit descriptor says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Its first byte.
    pub start: u64,
    /// "Leading dimension byte offset".
    pub leading: u64,
    /// "Stride dimension byte offset".
    pub stride: u64,
    /// The line in which the pattern of the swizzle begins.
    pub base: u64,
    pub swizzle: Swizzle,
}

/// The addresses that a descriptor can say.
const WINDOW: u64 = 0x3_ffff;

impl Descriptor {
    /// A descriptor of `wgmma`.
    pub(super) fn wgmma(bits: u64) -> Descriptor {
        const MODES: [Swizzle; 4] = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32];
        Descriptor::new(bits, MODES[(bits >> 62) as usize])
    }

    /// A descriptor of `tcgen05.mma` and `tcgen05.cp`, unless its swizzle does not exist.
    pub(super) fn tcgen05(bits: u64) -> Result<Descriptor, String> {
        let swizzle = match bits >> 61 {
            0 => Swizzle::None,
            1 => Swizzle::B128Atom32,
            2 => Swizzle::B128,
            4 => Swizzle::B64,
            6 => Swizzle::B32,
            mode => return Err(format!("a matrix descriptor with swizzle mode {mode}; 0, 1, 2, 4 and 6 exist")),
        };
        Ok(Descriptor::new(bits, swizzle))
    }

    fn new(bits: u64, swizzle: Swizzle) -> Descriptor {
        let field = |at: u32| (bits >> at & 0x3fff) << 4;
        Descriptor { start: field(0), leading: field(16), stride: field(32), base: bits >> 49 & 7, swizzle }
    }

    /// The address of the 16 bytes that hold the elements from `piece · 16` bytes on along the contiguous dimension, at
    /// position `line` of the other one.
    pub(super) fn piece(&self, major: Major, line: u64, piece: u64) -> u64 {
        let Descriptor { leading, stride, swizzle, .. } = *self;
        let span = swizzle.span();
        let lines = if (major, swizzle) == (Major::Mn, Swizzle::B128Atom32) { 4 } else { 8 };
        let (near, far) = (line % lines, line / lines);
        let (inside, beyond) = (piece % (span / 16) * 16, piece / (span / 16));
        let offset = match (major, swizzle) {
            (Major::Mn, Swizzle::None) => near * 16 + far * leading + piece * stride,
            // Along k only the sparse products with 32-byte swizzles reach beyond a row of the pattern.
            _ => near * span + far * stride + inside + beyond * leading,
        };
        swizzle.apply_from(self.start + offset, self.base) & WINDOW
    }
}

#[cfg(test)]
mod tests;
