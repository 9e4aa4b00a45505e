//! Tensor maps: the description of a tensor in global memory for `cp.async.bulk.tensor` (PTX ISA, section 5.5).
//!
//! The rules stand in `rules`, the driver's encoder in `encode`. Nothing here launches.
#![allow(unsafe_code, reason = "a map travels by its bytes")]

mod element;
mod encode;
#[cfg(feature = "cpu")]
mod on_cpu;
mod rules;

pub use element::TensorElement;
pub use ptx_target::tensor::{ElementType, Fill, Interleave, Promotion, Swizzle};

use crate::buffer::{Bound, ReadSlice};
use crate::device::cpu::CpuDevice;
use crate::error::Result;
use crate::param::KernelParam;
use crate::stream::{AsStream, StreamRef};
use cudarc::driver::CudaContext;
use std::sync::Arc;

/// A tensor map: 128 opaque bytes, passed by value as a grid constant.
///
/// It holds an address, not a borrow: the memory must stay alive while kernels move data through the map, and no events order
/// these uses between streams. So no author can vouch for a kernel that takes one, only for one that takes a `Tile` with `#[tma]`.
/// A map belongs to the kind of device that it was made for: the CPU device refuses the bytes of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(128))]
pub struct TensorMap(pub(crate) [u64; 16]);

// SAFETY: 128 bytes without padding, which hold no host pointer.
unsafe impl KernelParam for TensorMap {}

impl std::fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TensorMap(…)")
    }
}

/// A tensor map in the making. Dimensions, strides and tiles are in the order of Rust arrays, the innermost last; PTX
/// coordinates have it first.
///
/// Two rules are for the kernel, and no map can check them: the innermost coordinate times the element's size is a
/// multiple of 16 bytes, and a store does not start at a negative coordinate. The GPU stops at an "illegal instruction".
/// Rows that are shorter than the swizzle are as far apart in shared memory as the swizzle is long.
///
/// ```no_run
/// # use ptx_launch::prelude::*;
/// # use ptx_launch::{Swizzle, TensorMap};
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cuda(0)?;
/// let a = device.zeros::<bf16>(4096 * 1024)?;
/// let map = TensorMap::of(&device, &a, &[4096, 1024])?.tile(&[128, 64]).swizzle(Swizzle::B128).build()?;
/// # let _ = map;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TensorMapBuilder {
    element: ElementType,
    address: u64,
    /// Bytes from the address to the end of the buffer.
    capacity: usize,
    /// The device, if it is a CPU device.
    cpu: Option<CpuDevice>,
    /// The context that encodes it, otherwise.
    context: Option<Arc<CudaContext>>,
    shape: Vec<usize>,
    /// In elements; the innermost is 1.
    strides: Option<Vec<usize>>,
    mode: Mode,
    /// Every how many elements one is taken.
    step: Option<Vec<usize>>,
    interleave: Interleave,
    swizzle: Swizzle,
    promotion: Promotion,
    fill: Fill,
}

/// Data that one instruction moves.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mode {
    /// A box of elements.
    Tiled { tile: Vec<usize> },
    /// Pixels of a bounding box: corners relative to the tensor's own, outermost first without batch and channels.
    Im2col { lower: Vec<i32>, upper: Vec<i32>, channels: usize, pixels: usize },
    /// Pixels of one row, between two offsets along the width; 128 of them without a number.
    Im2colWide { lower: i32, upper: i32, channels: usize, pixels: Option<usize> },
}

impl TensorMap {
    /// Starts a map of the tensor with this shape in `memory`, which lies on the device of `stream`, packed unless
    /// [`strides`](TensorMapBuilder::strides) gives others.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`](crate::ErrorKind::WrongDevice) when memory and stream belong to different devices.
    pub fn of<T: TensorElement>(
        stream: impl AsStream,
        memory: impl ReadSlice<T>,
        shape: &[usize],
    ) -> Result<TensorMapBuilder> {
        let stream = stream.as_stream();
        let bound = memory.bind(stream)?;
        Ok(TensorMap::of_bound::<T>(&bound, stream, memory.len(), shape))
    }

    /// The same for memory of `len` elements that is bound to the stream already: what a launch does.
    pub fn of_bound<T: TensorElement>(
        memory: &Bound<'_>,
        stream: StreamRef<'_>,
        len: usize,
        shape: &[usize],
    ) -> TensorMapBuilder {
        let capacity = len * size_of::<T>();
        TensorMapBuilder { capacity, ..TensorMap::of_address(stream, T::TYPE, memory.address(), shape) }
    }

    /// The same for memory that only its address names, as libraries have it that have checked and bound it. Its end is unknown.
    pub fn of_address(stream: StreamRef<'_>, element: ElementType, address: u64, shape: &[usize]) -> TensorMapBuilder {
        TensorMapBuilder {
            element,
            address,
            capacity: usize::MAX,
            cpu: stream.as_cpu().cloned(),
            context: stream.context().cloned(),
            shape: shape.to_vec(),
            strides: None,
            mode: Mode::Tiled { tile: shape.to_vec() },
            step: None,
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            promotion: Promotion::None,
            fill: Fill::Zero,
        }
    }
}

impl TensorMap {
    /// A map that something else encoded.
    pub const fn from_raw(words: [u64; 16]) -> TensorMap {
        TensorMap(words)
    }

    /// The 128 bytes.
    pub const fn to_raw(&self) -> [u64; 16] {
        self.0
    }
}

impl TensorMapBuilder {
    /// The same map of other memory: [`build`](TensorMapBuilder::build) checks that the tensor lies in it.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`](crate::ErrorKind::WrongDevice) when memory and stream belong to different devices.
    pub fn moved_to<T: TensorElement>(self, stream: impl AsStream, memory: impl ReadSlice<T>) -> Result<Self> {
        let stream = stream.as_stream();
        let (address, capacity) = (memory.bind(stream)?.address(), memory.len() * size_of::<T>());
        let (cpu, context) = (stream.as_cpu().cloned(), stream.context().cloned());
        Ok(TensorMapBuilder { address, capacity, cpu, context, ..self })
    }

    /// Moves boxes of this size, in elements.
    pub fn tile(self, tile: &[usize]) -> Self {
        TensorMapBuilder { mode: Mode::Tiled { tile: tile.to_vec() }, ..self }
    }

    /// Moves `pixels` pixels of `channels` channels at a time, out of the bounding box between two corners: offsets from
    /// the first and the last pixel, for depth, height and width as far as the tensor (NDHWC, NHWC, NWC) has them.
    pub fn im2col(self, lower: &[i32], upper: &[i32], channels: usize, pixels: usize) -> Self {
        let (lower, upper) = (lower.to_vec(), upper.to_vec());
        TensorMapBuilder { mode: Mode::Im2col { lower, upper, channels, pixels }, ..self }
    }

    /// For `.im2col::w`, on devices of compute capability 10.0 and later: moves `pixels` pixels of `channels` channels at a
    /// time, out of one row between two offsets from its first and its last pixel. The swizzle is `B64`, `B128` or
    /// `B128Atom32`.
    pub fn im2col_wide(self, lower: i32, upper: i32, channels: usize, pixels: usize) -> Self {
        TensorMapBuilder { mode: Mode::Im2colWide { lower, upper, channels, pixels: Some(pixels) }, ..self }
    }

    /// The same for `.im2col::w::128`, which always moves 128 pixels.
    pub fn im2col_wide_128(self, lower: i32, upper: i32, channels: usize) -> Self {
        TensorMapBuilder { mode: Mode::Im2colWide { lower, upper, channels, pixels: None }, ..self }
    }

    /// Distances between neighbors of each dimension, in elements; the last one is 1.
    pub fn strides(self, strides: &[usize]) -> Self {
        TensorMapBuilder { strides: Some(strides.to_vec()), ..self }
    }

    /// Takes one of so many elements in each dimension.
    pub fn step(self, step: &[usize]) -> Self {
        TensorMapBuilder { step: Some(step.to_vec()), ..self }
    }

    /// Reads the elements as another type of the same size: `Tf32` for `f32`, packed types for `u8`.
    pub fn element(self, element: ElementType) -> Self {
        TensorMapBuilder { element, ..self }
    }

    /// The order in shared memory.
    pub fn swizzle(self, swizzle: Swizzle) -> Self {
        TensorMapBuilder { swizzle, ..self }
    }

    /// The order of channels in global memory.
    pub fn interleave(self, interleave: Interleave) -> Self {
        TensorMapBuilder { interleave, ..self }
    }

    /// Size of an L2 fetch.
    pub fn promotion(self, promotion: Promotion) -> Self {
        TensorMapBuilder { promotion, ..self }
    }

    /// Value of elements outside.
    pub fn fill(self, fill: Fill) -> Self {
        TensorMapBuilder { fill, ..self }
    }

    /// The map.
    ///
    /// # Errors
    /// [`ErrorKind::TensorMap`](crate::ErrorKind::TensorMap) with the rule that is broken,
    /// [`ErrorKind::DriverTooOld`](crate::ErrorKind::DriverTooOld), or an error of the driver.
    pub fn build(&self) -> Result<TensorMap> {
        self.check()?;
        match &self.cpu {
            None => self.encode(),
            #[cfg(feature = "cpu")]
            Some(_) => self.encode_on_cpu(),
            #[cfg(not(feature = "cpu"))]
            Some(device) => device.never(),
        }
    }

    /// Distances in elements, given or packed.
    fn element_strides(&self) -> Vec<usize> {
        let packed = || {
            let mut strides: Vec<usize> = self.shape.iter().rev().scan(self.per_step(), next_stride).collect();
            strides.reverse();
            if let Some(inner) = strides.last_mut() {
                *inner = 1;
            }
            strides
        };
        self.strides.clone().unwrap_or_else(packed)
    }

    /// Elements that the innermost coordinate counts as one: a slice of channels, or one element.
    fn per_step(&self) -> usize {
        let slice = match self.interleave {
            Interleave::None => return 1,
            Interleave::B16 => 16,
            Interleave::B32 => 32,
        };
        slice * 8 / self.element.bits() as usize
    }

    /// Every how many elements one is taken, given or all.
    fn steps(&self) -> Vec<usize> {
        self.step.clone().unwrap_or_else(|| vec![1; self.shape.len()])
    }

    /// Bytes of so many elements.
    fn bytes(&self, elements: usize) -> usize {
        elements.saturating_mul(self.element.bits() as usize) / 8
    }
}

fn next_stride(product: &mut usize, extent: &usize) -> Option<usize> {
    let stride = *product;
    *product = product.saturating_mul(*extent);
    Some(stride)
}
