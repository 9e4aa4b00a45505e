//! Tensor maps of the operands of attention.

use crate::maps::Recent;
use ptx_launch::{ElementType, Promotion, Result, StreamRef, Swizzle, TensorMap};
use std::cell::RefCell;

/// Maps that a thread keeps: those of all layers of a model.
const KEPT: usize = 512;

/// The most dimensions of a map.
const RANK: usize = 5;

thread_local! {
    /// Maps of recent boxes.
    static RECENT: RefCell<Recent<Boxes, KEPT>> = const { RefCell::new(Recent::new()) };
}

/// A tensor as a map describes it: everything that the map depends on. The innermost dimension comes last; those behind `rank` are zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boxes {
    element: ElementType,
    address: u64,
    rank: usize,
    shape: [usize; RANK],
    strides: [usize; RANK],
    tile: [usize; RANK],
    swizzle: Swizzle,
    promotion: Promotion,
}

impl Boxes {
    /// Boxes of the extents `tile` of a tensor with elements of this type from `address` on. The strides, in elements, of dimensions of one element do not count: maps
    /// want multiples of 16 bytes there, too.
    pub(crate) fn new<const N: usize>(
        element: ElementType,
        address: u64,
        shape: [usize; N],
        strides: [usize; N],
        tile: [usize; N],
    ) -> Boxes {
        const { assert!(N <= RANK) };
        let mut boxes = Boxes {
            element,
            address,
            rank: N,
            shape: [0; RANK],
            strides: [0; RANK],
            tile: [0; RANK],
            swizzle: Swizzle::None,
            promotion: Promotion::None,
        };
        let mut dense = 1;
        for at in (0..N).rev() {
            boxes.shape[at] = shape[at];
            boxes.strides[at] = if shape[at] == 1 { dense } else { strides[at] };
            boxes.tile[at] = tile[at];
            dense *= shape[at];
        }
        boxes
    }

    /// With rows of a box swizzled in shared memory.
    pub(crate) fn swizzle(self, swizzle: Swizzle) -> Boxes {
        Boxes { swizzle, ..self }
    }

    #[cfg(feature = "attention_decode")]
    /// With fetches of so many bytes to the second-level cache.
    pub(crate) fn promotion(self, promotion: Promotion) -> Boxes {
        Boxes { promotion, ..self }
    }

    /// The map, which this thread keeps.
    ///
    /// # Errors
    /// Those of [`TensorMapBuilder::build`](ptx_launch::TensorMapBuilder::build).
    pub(crate) fn map(&self, stream: StreamRef<'_>) -> Result<TensorMap> {
        let pair = |[low, high]: [usize; 2]| low as u64 | (high as u64) << 32;
        let Boxes { shape, strides, tile, .. } = self;
        let words =
            [self.address >> 4, pair([shape[0], shape[1]]), pair([shape[2], shape[3]]), pair([strides[1], tile[1]])];
        RECENT.with_borrow_mut(|recent| recent.map(stream, self, words, || self.encode(stream)))
    }

    fn encode(&self, stream: StreamRef<'_>) -> Result<TensorMap> {
        let map = TensorMap::of_address(stream, self.element, self.address, &self.shape[..self.rank]);
        let map = map.strides(&self.strides[..self.rank]).tile(&self.tile[..self.rank]);
        map.swizzle(self.swizzle).promotion(self.promotion).build()
    }
}
