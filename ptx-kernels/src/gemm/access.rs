//! How a kernel reads an operand: as it lies, or after a copy in the layout that the fast kernels read.

use super::params::Source;
use super::problem::{Product, has_mn_major, size};

/// The way to read an operand in aligned runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Elements along K are dense; otherwise those along the lines.
    pub(crate) along_k: bool,
    /// Runs of 16 bytes are aligned; otherwise runs of 4 are.
    pub(crate) wide: bool,
    /// The operand is copied first, as [`Packed`].
    pub(crate) is_copied: bool,
}

/// An operand's copy: dense rows, along K or along the operand's lines, each at the start of a cache line: TMA
/// reads a row of a box from one line then, and not from two.
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

/// Bytes of a cache line.
const LINE: u64 = 128;

/// The ways to read A and B, by copies of runs of 16 or 4 bytes and by TMA, and to write C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    pub(crate) by_runs: [Access; 2],
    pub(crate) by_tma: [Access; 2],
    /// TMA writes the result.
    pub(crate) stores_by_tma: bool,
}

impl Ways {
    #[inline]
    pub(crate) fn new(product: &Product) -> Ways {
        let (a, b) = (Access::of(&product.a, product.m, product), Access::of(&product.b, product.n, product));
        Ways { by_runs: [a[0], b[0]], by_tma: [a[1], b[1]], stores_by_tma: product.has_tma_result() }
    }

    /// Aligned runs of A and B are copied to shared memory as they lie.
    pub(crate) fn loads_by_runs(&self) -> bool {
        self.by_runs.iter().all(|access| !access.is_copied)
    }

    /// TMA reads A and B as they lie.
    pub(crate) fn loads_by_tma(&self) -> bool {
        self.by_tma.iter().all(|access| !access.is_copied)
    }
}

impl Access {
    /// The ways to read an operand: wide runs rather than narrow ones, then those along K. TMA reads runs along the lines if elements have
    /// 16 bits.
    #[inline(always)]
    fn of(source: &Source, lines: u32, product: &Product) -> [Access; 2] {
        let size = size(product.kind);
        let runs = |along_k: bool| source.runs(along_k, lines, product.k, size, product.batches);
        let (k, mn) = (runs(true), runs(false));
        let (bytes, along_k) = (k.bytes.max(mn.bytes), k.bytes >= mn.bytes);
        let has_runs = bytes > 0 && (along_k || has_mn_major(product.kind));
        let has_maps = k.has_map || mn.has_map && size == 2;
        let is_across = source.line == size && source.k != size && size == 2;
        let copy = Access { along_k: !(is_across && lines >= TRANSPOSED), wide: true, is_copied: true };
        [
            if has_runs { Access { along_k, wide: bytes == 16, is_copied: false } } else { copy },
            if has_maps { Access { along_k: k.has_map, wide: true, is_copied: false } } else { copy },
        ]
    }
}

impl Packed {
    /// The copy of an operand, dense along K or along its lines.
    #[inline]
    pub(crate) fn new(source: &Source, lines: u32, product: &Product, along_k: bool) -> Packed {
        let (rows, extent) = if along_k { (lines, product.k) } else { (product.k, lines) };
        let pitch = (u64::from(extent) * size(product.kind)).next_multiple_of(LINE);
        let batches = if source.batch == 0 { 1 } else { product.batches };
        // A row of more than 4 GiB does not fit the workspace, and so is not copied.
        let pitch = u32::try_from(pitch).unwrap_or(u32::MAX);
        Packed { along_k, rows, extent, pitch, batches }
    }

    /// The copies of A and B, of those that are copied.
    #[inline]
    pub(crate) fn of(product: &Product, access: &[Access; 2]) -> [Option<Packed>; 2] {
        let packed = |source: &Source, lines: u32, access: Access| {
            access.is_copied.then(|| Packed::new(source, lines, product, access.along_k))
        };
        [packed(&product.a, product.m, access[0]), packed(&product.b, product.n, access[1])]
    }

    /// The bytes from row to row of the operand's matrix, and along a row.
    pub(crate) fn strides(&self, source: &Source) -> (u64, u64) {
        if self.along_k { (source.line, source.k) } else { (source.k, source.line) }
    }

    /// True if the elements of a row are neighbors in memory.
    pub(crate) fn is_dense(&self, source: &Source, size: u64) -> bool {
        self.extent == 1 || self.strides(source).1 == size
    }

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
