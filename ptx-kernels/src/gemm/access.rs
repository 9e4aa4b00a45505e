//! How a kernel reads an operand: as it lies, or after a copy in the layout that the fast kernels read.

use super::params::Source;
use super::problem::{Layout, Product, has_mn_major, size};

/// The way to read an operand in aligned runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) layout: Layout,
    /// The operand is copied first.
    pub(crate) packed: Option<Packed>,
}

/// An operand's copy: lines that are dense along K, each at a multiple of 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    pub(crate) lines: u32,
    /// Bytes from line to line.
    pub(crate) pitch: u32,
    pub(crate) batches: usize,
}

/// Bytes that start at a multiple of this.
const ALIGNED: usize = 256;

impl Access {
    fn of(source: &Source, lines: u32, product: &Product, tma: bool) -> Access {
        let size = size(product.kind);
        let found = if tma {
            source.tma_layout(lines, product.k, size, product.batches)
        } else {
            source
                .layout(lines, product.k, size, product.batches)
                .filter(|layout| layout.along_k || has_mn_major(product.kind))
        };
        if let Some(layout) = found {
            return Access { layout, packed: None };
        }
        let pitch = (u64::from(product.k) * size).next_multiple_of(16);
        let batches = if source.batch == 0 { 1 } else { product.batches };
        // A line of more than 4 GiB does not fit the workspace, and so is not copied.
        let packed = Packed { lines, pitch: u32::try_from(pitch).unwrap_or(u32::MAX), batches };
        Access { layout: Layout { along_k: true, wide: true }, packed: Some(packed) }
    }

    /// All that a choice depends on, as four bits.
    pub(crate) fn bits(&self) -> u32 {
        let is_packed = self.packed.is_some();
        let has_matrices = self.packed.is_some_and(|packed| packed.batches > 1);
        let bits = [self.layout.along_k, self.layout.wide, is_packed, has_matrices];
        bits.iter().fold(0, |bits, bit| bits << 1 | u32::from(*bit))
    }

    /// The ways to read A and B: by copies of runs of 16 or 4 bytes, or by TMA.
    pub(crate) fn both(product: &Product, tma: bool) -> [Access; 2] {
        [Access::of(&product.a, product.m, product, tma), Access::of(&product.b, product.n, product, tma)]
    }
}

impl Packed {
    /// Bytes of the copy, a multiple of 256; `usize::MAX` if there are more than that.
    pub(crate) fn bytes(&self) -> usize {
        let lines = (self.lines as usize).checked_mul(self.batches);
        let bytes = lines.and_then(|lines| lines.checked_mul(self.pitch as usize));
        bytes.and_then(|bytes| bytes.checked_next_multiple_of(ALIGNED)).unwrap_or(usize::MAX)
    }

    /// The copy as an operand.
    pub(crate) fn source(&self, at: u64, size: u64) -> Source {
        let pitch = u64::from(self.pitch);
        let batch = if self.batches > 1 { pitch * u64::from(self.lines) } else { 0 };
        Source { at, line: pitch, k: size, batch }
    }
}
