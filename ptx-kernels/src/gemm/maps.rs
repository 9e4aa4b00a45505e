//! Tensor maps of operands and of C, for kernels of TMA.

use super::instance::Instance;
use super::params::{self, Source};
use super::problem::{Product, size};
use crate::maps::Recent;
use ptx_launch::{ElementType, Promotion, Result, StreamRef, Swizzle, TensorMap};
use std::cell::RefCell;

/// Rows of an MN-major operand in a box.
pub(super) const BOX: u32 = 64;

/// Bytes along K of a stage.
const STAGE: u64 = 128;

/// Maps that a thread keeps.
const KEPT: usize = 64;

/// An operand, or C, as a map describes it: `lines` lines by `k` elements, in boxes of `rows` lines and 128 bytes along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) source: Source,
    /// Element type.
    pub(super) kind: u32,
    pub(super) lines: u32,
    pub(super) k: u32,
    /// Matrices: 1 if all batches have the same one.
    pub(super) batches: usize,
    pub(super) rows: u32,
    pub(super) k_major: bool,
    /// The map has a dimension of matrices.
    pub(super) has_batches: bool,
}

thread_local! {
    /// Maps of recent operands.
    static RECENT: RefCell<Recent<Mapped, KEPT>> = const { RefCell::new(Recent::new()) };
}

impl Mapped {
    /// A (0) or B (1) of a product, as an instance loads it: each block of a cluster its share of the lines of a tile, or boxes of [`BOX`] where
    /// lines are neighbors.
    pub(super) fn operand(product: &Product, instance: &Instance, at: usize) -> Mapped {
        let (source, lines) = [(product.a, product.m), (product.b, product.n)][at];
        let k_major = instance.majors[at].unwrap_or(true);
        let rows = if k_major { instance.tile[at] / instance.cluster[1 - at] } else { BOX };
        let batches = if source.batch > 0 { product.batches } else { 1 };
        let has_batches = !instance.family.is_unbatched();
        Mapped { source, kind: product.kind, lines, k: product.k, batches, rows, k_major, has_batches }
    }

    /// C, in boxes of `rows` rows.
    pub(super) fn result(product: &Product, instance: &Instance, rows: u32) -> Mapped {
        Mapped {
            source: product.c.rows(),
            kind: product.epilogue.kind,
            lines: product.m,
            k: product.n,
            batches: product.batches,
            rows,
            k_major: true,
            has_batches: !instance.family.is_unbatched(),
        }
    }

    /// The map.
    ///
    /// # Errors
    /// Those of [`TensorMapBuilder::build`](ptx_launch::TensorMapBuilder::build).
    pub(super) fn map(&self, stream: StreamRef<'_>) -> Result<TensorMap> {
        let words = [self.source.at >> 4, u64::from(self.lines), u64::from(self.k), u64::from(self.rows)];
        RECENT.with_borrow_mut(|recent| recent.map(stream, self, words, || self.encode(stream)))
    }

    fn encode(&self, stream: StreamRef<'_>) -> Result<TensorMap> {
        let size = size(self.kind);
        let depth = (STAGE / size) as usize;
        let (lines, k, rows) = (self.lines as usize, self.k as usize, self.rows as usize);
        let (outer, shape, tile) = if self.k_major {
            (self.source.line, [self.batches, lines, k], [1, rows, depth])
        } else {
            (self.source.k, [self.batches, k, lines], [1, depth, rows])
        };
        // Dimensions of one element may have any stride, but maps require multiples of 16 bytes.
        let stride = |bytes: u64, extent: usize| if extent == 1 { 16 / size } else { bytes / size };
        let strides = [stride(self.source.batch, self.batches) as usize, stride(outer, shape[1]) as usize, 1];
        let first = usize::from(!self.has_batches);
        let map = TensorMap::of_address(stream, element(self.kind), self.source.at, &shape[first..]);
        let map = map.strides(&strides[first..]).tile(&tile[first..]);
        map.swizzle(Swizzle::B128).promotion(Promotion::B128).build()
    }
}

/// The elements of an operand, as a map has them.
fn element(kind: u32) -> ElementType {
    match kind {
        params::F16 => ElementType::F16,
        params::BF16 => ElementType::Bf16,
        params::E4M3 | params::E5M2 | params::I8 => ElementType::U8,
        _ => ElementType::F32,
    }
}
