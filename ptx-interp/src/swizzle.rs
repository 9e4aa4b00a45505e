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

/// A matrix in shared memory, as a 64-bit descriptor describes it.
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
    /// A descriptor of `wgmma`, unless bits are set that must not be.
    pub(super) fn wgmma(bits: u64) -> Result<Descriptor, String> {
        const MODES: [Swizzle; 4] = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32];
        check_reserved(bits, WGMMA_RESERVED)?;
        Ok(Descriptor::new(bits, MODES[(bits >> 62) as usize]))
    }

    /// A descriptor of `tcgen05.mma` and `tcgen05.cp`, unless its swizzle does not exist, or some bits do not have the value that they must have.
    pub(super) fn tcgen05(bits: u64) -> Result<Descriptor, String> {
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
