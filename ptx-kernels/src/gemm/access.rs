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

/// An operand's copy: dense rows, along K or along the operand's lines, each at a multiple of 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    pub(crate) along_k: bool,
    pub(crate) rows: u32,
    /// Elements of a row.
    pub(crate) extent: u32,
    /// Bytes from row to row.
    pub(crate) pitch: u32,
    pub(crate) batches: usize,
}

/// Lines from which an operand of 16 bits stays dense along its lines. Kernels for fewer of them read it along K.
const TRANSPOSED: u32 = 256;

/// Bytes that start at a multiple of this.
const ALIGNED: usize = 256;

impl Access {
    #[inline]
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
        let is_across = source.line == size && source.k != size && size == 2;
        let along_k = !(is_across && lines >= TRANSPOSED);
        let (rows, extent) = if along_k { (lines, product.k) } else { (product.k, lines) };
        let pitch = (u64::from(extent) * size).next_multiple_of(16);
        let batches = if source.batch == 0 { 1 } else { product.batches };
        // A row of more than 4 GiB does not fit the workspace, and so is not copied.
        let pitch = u32::try_from(pitch).unwrap_or(u32::MAX);
        let packed = Packed { along_k, rows, extent, pitch, batches };
        Access { layout: Layout { along_k, wide: true }, packed: Some(packed) }
    }

    /// All that a choice depends on, as four bits.
    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        let is_packed = self.packed.is_some();
        let has_matrices = self.packed.is_some_and(|packed| packed.batches > 1);
        let Layout { along_k, wide } = self.layout;
        u32::from(along_k) << 3 | u32::from(wide) << 2 | u32::from(is_packed) << 1 | u32::from(has_matrices)
    }

    /// The ways to read A and B: by copies of runs of 16 or 4 bytes, or by TMA.
    #[inline]
    pub(crate) fn both(product: &Product, tma: bool) -> [Access; 2] {
        [Access::of(&product.a, product.m, product, tma), Access::of(&product.b, product.n, product, tma)]
    }
}

impl Packed {
    /// Bytes of the copy, a multiple of 256; `usize::MAX` if there are more than that.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let rows = (self.rows as usize).checked_mul(self.batches);
        let bytes = rows.and_then(|rows| rows.checked_mul(self.pitch as usize));
        bytes.and_then(|bytes| bytes.checked_next_multiple_of(ALIGNED)).unwrap_or(usize::MAX)
    }

    /// The copy as an operand.
    pub(crate) fn source(&self, at: u64, size: u64) -> Source {
        let pitch = u64::from(self.pitch);
        let batch = if self.batches > 1 { pitch * u64::from(self.rows) } else { 0 };
        let (line, k) = if self.along_k { (pitch, size) } else { (size, pitch) };
        Source { at, line, k, batch }
    }
}
