//! Tensors: device memory with a shape and strides, as library functions take it. Kernels take memory without gaps, a
//! [`Tile`](crate::Tile).
#![allow(unsafe_code, reason = "the traits promise memory")]

use crate::buffer::{Bound, ReadSlice, WriteSlice, address_of};
use crate::buffer::{Buffer, Element, View, ViewMut};
use crate::error::{Error, ErrorKind, Result};
use crate::stream::StreamRef;
use crate::tile::Tile;
use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DeviceSlice};
use ptx_target::sort::SortSmall;
use std::fmt;

/// Memory, read as a tensor of `R` dimensions with any strides.
///
/// Functions take [`impl IntoTensor<'_, T, R>`](IntoTensor), so that a [`Tile`] of a buffer can be passed as it is.
///
/// ```
/// # use ptx_launch::prelude::*;
/// use ptx_launch::TensorRef;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let a = device.zeros::<f32>(2 * 8)?;
/// let whole = TensorRef::from(a.tile([2, 8])?);
/// assert_eq!(whole.strides(), [8, 1]);
/// let left = TensorRef::strided(a.view(), [2, 3], [8, 1])?;      // three of the eight columns
/// assert_eq!(left.transposed().shape(), [3, 2]);
/// assert!(!left.is_contiguous());
/// assert_eq!(left.cast::<u32>().map(|bits| bits.strides()), Some([8, 1]));
/// assert!(left.with_rank::<3>().is_none());
/// assert!(TensorRef::strided(a.view(), [3, 3], [8, 1]).is_err());
/// # Ok(())
/// # }
/// ```
pub struct TensorRef<'a, T, const R: usize> {
    memory: Source<'a, T>,
    layout: Layout<R>,
}

/// Memory, written as a tensor of `R` dimensions. No two of its elements share memory.
///
/// Functions take [`impl IntoTensorMut<'_, T, R>`](IntoTensorMut), so that a [`Tile`] of a buffer can be passed as it is.
pub struct TensorMut<'a, T, const R: usize> {
    memory: Target<'a, T>,
    layout: Layout<R>,
}

/// A type that becomes a [`TensorRef`] of `R` dimensions: a tensor, or a [`Tile`] of memory that can be read. It is [`Into`], with a
/// message that names the expected tensor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor of `{T}` with {R} dimensions",
    label = "expected memory of `{T}` with a shape of {R} dimensions",
    note = "give the memory a shape: `buffer.tile([m, n])?`, or `TensorRef::strided(buffer.view(), shape, strides)?`"
)]
pub trait IntoTensor<'a, T: 'a, const R: usize>: Into<TensorRef<'a, T, R>> {}

#[diagnostic::do_not_recommend]
impl<'a, T: 'a, const R: usize, M: Into<TensorRef<'a, T, R>>> IntoTensor<'a, T, R> for M {}

/// A type that becomes a [`TensorMut`] of `R` dimensions: a tensor, or a [`Tile`] of memory that can be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mutable tensor of `{T}` with {R} dimensions",
    label = "expected memory of `{T}` that can be written, with a shape of {R} dimensions",
    note = "give the memory a shape: `buffer.tile_mut([m, n])?`, or `TensorMut::strided(buffer.view_mut(), shape, strides)?`"
)]
pub trait IntoTensorMut<'a, T: 'a, const R: usize>: Into<TensorMut<'a, T, R>> {}

#[diagnostic::do_not_recommend]
impl<'a, T: 'a, const R: usize, M: Into<TensorMut<'a, T, R>>> IntoTensorMut<'a, T, R> for M {}

/// Extents and strides in elements, the innermost last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout<const R: usize> {
    shape: [usize; R],
    strides: [usize; R],
}

/// Memory that a tensor reads: a [`View`], or a reference to a buffer or to one of cudarc's.
pub enum Source<'a, T> {
    #[doc(hidden)]
    View(View<'a, T>),
    #[doc(hidden)]
    CudaSlice(&'a CudaSlice<T>),
    #[doc(hidden)]
    CudaView(&'a CudaView<'a, T>),
}

/// Memory that a tensor writes: a [`ViewMut`], or a mutable reference to a buffer or to one of cudarc's.
pub enum Target<'a, T> {
    #[doc(hidden)]
    View(ViewMut<'a, T>),
    #[doc(hidden)]
    CudaView(CudaViewMut<'a, T>),
}

/// No memory has more elements.
const MOST_ELEMENTS: usize = 1 << 48;

impl<const R: usize> Layout<R> {
    /// Rows without gaps.
    fn contiguous(shape: [usize; R]) -> Self {
        let mut strides = [1usize; R];
        for at in (1..R).rev() {
            strides[at - 1] = strides[at].saturating_mul(shape[at].max(1));
        }
        Layout { shape, strides }
    }

    /// Rows without gaps. A tensor without elements may have any extents: no stride is longer than a memory, so that it can be multiplied by the size of
    /// an element.
    fn dense(shape: [usize; R]) -> Self {
        let Layout { shape, strides } = Layout::contiguous(shape);
        Layout { shape, strides: strides.map(|stride| stride.min(MOST_ELEMENTS)) }
    }

    /// Number of elements of memory from the first to the last one.
    fn reach(&self) -> Option<usize> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        let steps = self.shape.iter().zip(&self.strides).map(|(extent, stride)| (extent - 1).checked_mul(*stride));
        steps.into_iter().try_fold(1usize, |reach, step| reach.checked_add(step?))
    }

    /// The layout in memory of `len` elements: no stride leads out of it. That of a dimension with one element, or of a tensor without elements, means
    /// nothing, and may be any number; whoever multiplies it by the size of an element would overflow.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if an element lies behind the end of the memory.
    fn within(self, len: usize) -> Result<Self> {
        self.check_reach(len)?;
        let (dense, is_empty) = (Layout::dense(self.shape), self.shape.contains(&0));
        let strides = std::array::from_fn(|at| match self.shape[at] {
            _ if is_empty => dense.strides[at],
            1 => dense.strides[at].min(len),
            _ => self.strides[at],
        });
        Ok(Layout { strides, ..self })
    }

    fn check_reach(&self, len: usize) -> Result<()> {
        match self.reach() {
            Some(reach) if reach <= len => Ok(()),
            reach => Err(outside(&self.shape, &self.strides, reach, len)),
        }
    }

    /// Checks that each dimension steps over all elements of the dimensions with smaller strides.
    fn check_distinct(&self) -> Result<()> {
        if self.shape.contains(&0) {
            return Ok(());
        }
        let mut dims: [(usize, usize); R] = std::array::from_fn(|at| (self.strides[at], self.shape[at]));
        dims.sort_small();
        let mut reach = 1usize;
        for (stride, extent) in dims.into_iter().filter(|(_, extent)| *extent > 1) {
            if stride < reach {
                return Err(overlaps(&self.shape, &self.strides));
            }
            reach = reach.saturating_add((extent - 1).saturating_mul(stride));
        }
        Ok(())
    }

    /// Dimensions of one element may have any stride.
    fn is_contiguous(&self) -> bool {
        let dense = Layout::contiguous(self.shape);
        let same = |at: usize| self.shape[at] == 1 || self.strides[at] == dense.strides[at];
        self.shape.contains(&0) || (0..R).all(same)
    }

    fn with_rank<const Q: usize>(&self) -> Option<Layout<Q>> {
        let (shape, strides) = (self.shape.as_slice(), self.strides.as_slice());
        Some(Layout { shape: shape.try_into().ok()?, strides: strides.try_into().ok()? })
    }

    fn permuted(&self, order: [usize; R]) -> Option<Layout<R>> {
        let mut seen = [false; R];
        for at in order {
            *seen.get_mut(at)? = true;
        }
        let all = seen.iter().all(|seen| *seen);
        all.then(|| Layout { shape: order.map(|at| self.shape[at]), strides: order.map(|at| self.strides[at]) })
    }
}

impl<'a, T, const R: usize> TensorRef<'a, T, R> {
    /// A tensor with strides in elements. A stride of zero repeats the elements of a dimension.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if an element lies behind the end of the memory.
    pub fn strided(memory: impl Into<Source<'a, T>>, shape: [usize; R], strides: [usize; R]) -> Result<Self> {
        let memory = memory.into();
        let layout = Layout { shape, strides }.within(memory.len())?;
        Ok(TensorRef { memory, layout })
    }

    /// Its memory, made ready to be read by work on `stream`; the address is that of the first element. Later writers wait until the
    /// result is dropped. For libraries whose kernels take addresses.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when the memory and the stream belong to different devices.
    #[inline]
    pub fn bind_to<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let bound = match &self.memory {
            Source::View(view) => view.bind_read(stream),
            Source::CudaSlice(slice) => Bound::cuda_read(*slice, stream),
            Source::CudaView(view) => Bound::cuda_read(*view, stream),
        };
        Ok(bound?.of_elements(self.memory.len()))
    }
}

impl<'a, T: Element, const R: usize> TensorRef<'a, T, R> {
    /// The same memory with elements of another type of the same size, by their bytes. `None` for another size, and for cudarc's slices and
    /// views, which have one type.
    pub fn cast<U: Element>(self) -> Option<TensorRef<'a, U, R>> {
        match self.memory {
            Source::View(view) => Some(TensorRef { memory: Source::View(view.cast()?), layout: self.layout }),
            Source::CudaSlice(_) | Source::CudaView(_) => None,
        }
    }
}

impl<'a, T, const R: usize> TensorMut<'a, T, R> {
    /// A tensor with strides in elements.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if an element lies behind the end of the memory, or unless each dimension steps over all
    /// elements of the dimensions with smaller strides, so that no two elements share memory.
    pub fn strided(memory: impl Into<Target<'a, T>>, shape: [usize; R], strides: [usize; R]) -> Result<Self> {
        let memory = memory.into();
        let layout = Layout { shape, strides }.within(memory.len())?;
        layout.check_distinct()?;
        Ok(TensorMut { memory, layout })
    }

    /// Its memory, made ready to be written by work on `stream`; the address is that of the first element. Later readers and writers
    /// wait until the result is dropped. For libraries whose kernels take addresses.
    ///
    /// # Errors
    /// [`ErrorKind::WrongDevice`] when the memory and the stream belong to different devices.
    #[inline]
    pub fn bind_to<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        let len = self.memory.len();
        let bound = match &mut self.memory {
            Target::View(view) => view.bind_write(stream),
            Target::CudaView(view) => Bound::cuda_write(view, stream),
        };
        Ok(bound?.of_elements(len))
    }
}

impl<'a, T: Element, const R: usize> TensorMut<'a, T, R> {
    /// As [`TensorRef::cast`].
    pub fn cast<U: Element>(self) -> Option<TensorMut<'a, U, R>> {
        match self.memory {
            Target::View(view) => Some(TensorMut { memory: Target::View(view.cast()?), layout: self.layout }),
            Target::CudaView(_) => None,
        }
    }
}

/// The methods that tensors have alike, of memory that is read and of memory that is written.
macro_rules! tensors {
    ($($tensor:ident)*) => { $(
        impl<'a, T, const R: usize> $tensor<'a, T, R> {
            /// Its extents, the innermost last.
            pub fn shape(&self) -> [usize; R] {
                self.layout.shape
            }

            /// Its strides in elements. That of a dimension with one element is what it would be without gaps.
            pub fn strides(&self) -> [usize; R] {
                self.layout.strides
            }

            /// Returns true if its elements lie in row-major order without gaps.
            pub fn is_contiguous(&self) -> bool {
                self.layout.is_contiguous()
            }

            /// Its address on the device, for alignment checks.
            pub fn address(&self) -> u64 {
                self.memory.address()
            }

            /// The same memory with its dimensions in another order.
            ///
            /// # Errors
            /// [`ErrorKind::Condition`] unless `order` names each dimension once.
            pub fn permuted(self, order: [usize; R]) -> Result<Self> {
                let layout = self.layout.permuted(order).ok_or_else(|| no_permutation(&order))?;
                Ok($tensor { layout, ..self })
            }

            /// The same tensor, if it has `Q` dimensions: for functions that are generic in them.
            pub fn with_rank<const Q: usize>(self) -> Option<$tensor<'a, T, Q>> {
                let layout = self.layout.with_rank()?;
                Some($tensor { memory: self.memory, layout })
            }
        }

        impl<T> $tensor<'_, T, 2> {
            /// The same matrix with rows and columns exchanged; nothing is copied.
            #[must_use]
            pub fn transposed(self) -> Self {
                let Layout { shape: [m, n], strides: [row, column] } = self.layout;
                $tensor { layout: Layout { shape: [n, m], strides: [column, row] }, ..self }
            }
        }

        impl<T, const R: usize> fmt::Debug for $tensor<'_, T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Layout { shape, strides } = self.layout;
                write!(f, concat!(stringify!($tensor), "({:?}, strides {:?})"), shape, strides)
            }
        }
    )* };
}
tensors! { TensorRef TensorMut }

impl<T> Source<'_, T> {
    fn len(&self) -> usize {
        match self {
            Source::View(view) => view.len(),
            Source::CudaSlice(slice) => slice.len(),
            Source::CudaView(view) => view.len(),
        }
    }

    fn address(&self) -> u64 {
        match self {
            Source::View(view) => view.address(),
            Source::CudaSlice(slice) => address_of(*slice),
            Source::CudaView(view) => address_of(*view),
        }
    }
}

impl<T> Target<'_, T> {
    fn len(&self) -> usize {
        match self {
            Target::View(view) => view.len(),
            Target::CudaView(view) => view.len(),
        }
    }

    fn address(&self) -> u64 {
        match self {
            Target::View(view) => view.address(),
            Target::CudaView(view) => address_of(view),
        }
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: all calls are passed on.
unsafe impl<T, const R: usize> ReadSlice<T> for &TensorRef<'_, T, R> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    #[inline]
    fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.bind_to(stream)
    }

    fn home(&self) -> Option<StreamRef<'_>> {
        Some(match &self.memory {
            Source::View(view) => view.home(),
            Source::CudaSlice(slice) => StreamRef::cuda(slice.stream()),
            Source::CudaView(view) => StreamRef::cuda(view.stream()),
        })
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: all calls are passed on.
unsafe impl<T, const R: usize> WriteSlice<T> for &mut TensorMut<'_, T, R> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    #[inline]
    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.bind_to(stream)
    }
}

impl<T> Clone for Source<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Source<'_, T> {}

impl<T, const R: usize> Clone for TensorRef<'_, T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const R: usize> Copy for TensorRef<'_, T, R> {}

macro_rules! sources {
    ($($ty:ty: $memory:ident => $source:expr;)*) => { $(
        impl<'a, T> From<$ty> for Source<'a, T> {
            fn from($memory: $ty) -> Self {
                $source
            }
        }

        impl<'a, T, const R: usize> From<Tile<$ty, R>> for TensorRef<'a, T, R> {
            fn from(tile: Tile<$ty, R>) -> Self {
                let (memory, shape) = tile.into_parts();
                TensorRef { memory: memory.into(), layout: Layout::dense(shape) }
            }
        }
    )* };
}
sources! {
    &'a Buffer<T>: buffer => Source::View(buffer.view());
    &'a View<'a, T>: view => Source::View(*view);
    &'a CudaSlice<T>: slice => Source::CudaSlice(slice);
    &'a CudaView<'a, T>: view => Source::CudaView(view);
}

impl<'a, T> From<View<'a, T>> for Source<'a, T> {
    fn from(view: View<'a, T>) -> Self {
        Source::View(view)
    }
}

macro_rules! targets {
    ($($ty:ty: $memory:ident => $target:expr;)*) => { $(
        impl<'a, T> From<$ty> for Target<'a, T> {
            fn from($memory: $ty) -> Self {
                $target
            }
        }

        impl<'a, T, const R: usize> From<Tile<$ty, R>> for TensorMut<'a, T, R> {
            fn from(tile: Tile<$ty, R>) -> Self {
                let (memory, shape) = tile.into_parts();
                TensorMut { memory: memory.into(), layout: Layout::dense(shape) }
            }
        }
    )* };
}
targets! {
    &'a mut Buffer<T>: buffer => Target::View(buffer.view_mut());
    &'a mut ViewMut<'_, T>: view => Target::View(view.reborrow());
    &'a mut CudaSlice<T>: slice => Target::CudaView(slice.as_view_mut());
    &'a mut CudaViewMut<'_, T>: view => Target::CudaView(view.slice_mut(..));
}

impl<'a, T> From<ViewMut<'a, T>> for Target<'a, T> {
    fn from(view: ViewMut<'a, T>) -> Self {
        Target::View(view)
    }
}

impl<'a, T, const R: usize> From<&'a mut TensorMut<'_, T, R>> for TensorMut<'a, T, R> {
    fn from(tensor: &'a mut TensorMut<'_, T, R>) -> Self {
        let memory = match &mut tensor.memory {
            Target::View(view) => Target::View(view.reborrow()),
            Target::CudaView(view) => Target::CudaView(view.slice_mut(..)),
        };
        TensorMut { memory, layout: tensor.layout }
    }
}

#[cold]
fn outside(shape: &[usize], strides: &[usize], reach: Option<usize>, len: usize) -> Error {
    let reach = reach.map_or("more than 2^64".to_owned(), |reach| reach.to_string());
    Error::new(
        ErrorKind::Condition,
        format!("the shape {shape:?} with strides {strides:?} reaches over {reach} elements of memory that has {len}"),
    )
    .possible("a shape and strides that stay inside the memory")
    .help("strides count elements, not bytes")
}

#[cold]
fn overlaps(shape: &[usize], strides: &[usize]) -> Error {
    Error::new(
        ErrorKind::Condition,
        format!("the shape {shape:?} with strides {strides:?} is written, and several of its elements share memory"),
    )
    .possible("strides that step over all elements of the dimensions with smaller strides")
}

#[cold]
fn no_permutation(order: &[usize]) -> Error {
    Error::new(ErrorKind::Condition, format!("the dimensions are put in the order {order:?}"))
        .possible(format!("each of 0..{} once", order.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn layout<const R: usize>(shape: [usize; R], strides: [usize; R]) -> Layout<R> {
        Layout { shape, strides }
    }

    #[test]
    fn reach_is_one_more_than_the_last_element() {
        assert_eq!(layout([2, 3], [8, 1]).reach(), Some(11));
        assert_eq!(layout([2, 0], [usize::MAX, 1]).reach(), Some(0));
        assert_eq!(layout([2, 3], [usize::MAX, 1]).reach(), None);
        assert_eq!(layout([1, 3], [usize::MAX, 1]).reach(), Some(3));
    }

    #[test]
    fn written_elements_share_no_memory() {
        assert!(layout([4, 4], [4, 1]).check_distinct().is_ok());
        assert!(layout([4, 4], [1, 4]).check_distinct().is_ok());
        assert!(layout([4, 1], [1, 0]).check_distinct().is_ok());
        assert!(layout([4, 0], [0, 1]).check_distinct().is_ok());
        for strides in [[3, 1], [0, 1], [1, 1], [1, 3]] {
            assert!(layout([4, 4], strides).check_distinct().is_err(), "{strides:?}");
        }
    }

    #[test]
    fn strides_that_mean_nothing_stay_in_the_memory() {
        let most = usize::MAX;
        assert_eq!(layout([1, 3, 1], [most, 2, most]).within(8).unwrap().strides, [3, 2, 1]);
        assert_eq!(layout([1, most, 3], [most, 0, 1]).within(8).unwrap().strides, [8, 0, 1]);
        assert_eq!(
            layout([2, 0, most], [most, most, most]).within(0).unwrap().strides,
            [MOST_ELEMENTS, MOST_ELEMENTS, 1]
        );
        assert_eq!(layout([2, 0, 64], [0, 0, 1]).within(0).unwrap().strides, [64, 64, 1]);
        assert_eq!(Layout::dense([0, most, most]).strides, [MOST_ELEMENTS, MOST_ELEMENTS, 1]);
        assert!(layout([2, 3], [most, 1]).within(8).is_err());
    }

    #[test]
    fn contiguous_tensors_are_recognized() {
        assert!(layout([2, 3, 4], [12, 4, 1]).is_contiguous());
        assert!(layout([1, 3], [99, 1]).is_contiguous());
        assert!(!layout([2, 3], [4, 1]).is_contiguous());
        assert!(layout([0, 3], [7, 7]).is_contiguous());
        assert_eq!(Layout::contiguous([2, 0, 4]).strides, [4, 4, 1]);
    }
}
