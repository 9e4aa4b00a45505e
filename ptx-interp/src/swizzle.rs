//! The matrix descriptors of `wgmma` and `tcgen05.mma` (9.7.15.5.1.2, 9.7.16.4.1).
//!
//! Only arithmetic of addresses: nothing here reads memory.

use ptx_target::tensor::Swizzle;

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
#[path = "swizzle/tests.rs"] // also where `tests/units` includes this file
mod tests;
