//! Shapes: device memory with dimensions, as a kernel's `Tile<T, (M, K)>` and `TileMut<T, (M, N)>` take it. The names are
//! bound and compared at the launch ([`dim`]). What moves tiles is `tensor_map`'s work.
#![allow(unsafe_code, reason = "the traits promise memory")]

use crate::buffer::{Bound, ReadSlice, WriteSlice};
use crate::buffer::{Buffer, View, ViewMut};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Kernel;
use crate::stream::StreamRef;

/// Memory, read as a tensor of `R` dimensions, the innermost last, without gaps.
///
/// ```
/// # use ptx_launch::prelude::*;
/// # fn main() -> ptx_launch::Result<()> {
/// let device = Device::cpu();
/// let a = device.zeros::<f32>(6)?;
/// assert_eq!(a.tile([2, 3])?.shape(), [2, 3]);
/// assert!(a.tile([2, 4]).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tile<S, const R: usize> {
    memory: S,
    shape: [usize; R],
}

/// An argument for a kernel's `Tile<T, …>` of `R` dimensions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tile of `{T}` with {R} dimensions",
    label = "expected memory of `{T}` with a shape of {R} dimensions",
    note = "give the memory a shape: `buffer.tile([m, n])?`, or `Tile::of(&slice, [m, n])?`"
)]
///
/// # Safety
/// [`shape`](ReadTile::shape) returns the same extents each time, and the memory has at least as many elements as their product.
pub unsafe trait ReadTile<T, const R: usize>: ReadSlice<T> {
    /// Its extents, the innermost last.
    fn shape(&self) -> [usize; R];
}

/// An argument for a kernel's `TileMut<T, …>` of `R` dimensions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mutable tile of `{T}` with {R} dimensions",
    label = "expected memory of `{T}` that can be written, with a shape of {R} dimensions",
    note = "give the memory a shape: `buffer.tile_mut([m, n])?`, or `Tile::of_mut(&mut slice, [m, n])?`"
)]
///
/// # Safety
/// [`shape`](WriteTile::shape) returns the same extents each time, and the memory has at least as many elements as their product.
pub unsafe trait WriteTile<T, const R: usize>: WriteSlice<T> {
    /// Its extents, the innermost last.
    fn shape(&self) -> [usize; R];
}

impl<S, const R: usize> Tile<S, R> {
    /// Memory that a kernel reads: a buffer, a view, or one of cudarc's, by reference.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if it has fewer elements than the shape.
    pub fn of<T>(memory: S, shape: [usize; R]) -> Result<Self>
    where
        S: ReadSlice<T>,
    {
        enough(memory.len(), &shape)?;
        Ok(Tile { memory, shape })
    }

    /// Memory that a kernel writes: a buffer, a view, or one of cudarc's, by mutable reference.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] if it has fewer elements than the shape.
    pub fn of_mut<T>(memory: S, shape: [usize; R]) -> Result<Self>
    where
        S: WriteSlice<T>,
    {
        enough(memory.len(), &shape)?;
        Ok(Tile { memory, shape })
    }

    /// Its extents, the innermost last.
    pub fn shape(&self) -> [usize; R] {
        self.shape
    }

    pub(crate) fn into_parts(self) -> (S, [usize; R]) {
        (self.memory, self.shape)
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: all calls are passed on.
unsafe impl<T, S: ReadSlice<T>, const R: usize> ReadSlice<T> for Tile<S, R> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn bind<'s>(&'s self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.memory.bind(stream)
    }

    fn home(&self) -> Option<StreamRef<'_>> {
        self.memory.home()
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: all calls are passed on.
unsafe impl<T, S: WriteSlice<T>, const R: usize> WriteSlice<T> for Tile<S, R> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn bind<'s>(&'s mut self, stream: StreamRef<'s>) -> Result<Bound<'s>> {
        self.memory.bind(stream)
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: the shape was compared with the length when the tile was made, and both stay as they are.
unsafe impl<T, S: ReadSlice<T>, const R: usize> ReadTile<T, R> for Tile<S, R> {
    fn shape(&self) -> [usize; R] {
        self.shape
    }
}

#[diagnostic::do_not_recommend]
// SAFETY: the shape was compared with the length when the tile was made, and both stay as they are.
unsafe impl<T, S: WriteSlice<T>, const R: usize> WriteTile<T, R> for Tile<S, R> {
    fn shape(&self) -> [usize; R] {
        self.shape
    }
}

macro_rules! shaped {
    ($($ty:ty)*) => { $(
        impl<T> $ty {
            /// With a shape, to read.
            ///
            /// # Errors
            /// [`ErrorKind::Condition`] if it has fewer elements.
            pub fn tile<const R: usize>(&self, shape: [usize; R]) -> Result<Tile<&Self, R>> {
                Tile::of(self, shape)
            }
        }
    )* };
    (mut $($ty:ty)*) => { $(
        impl<T> $ty {
            /// With a shape, to write.
            ///
            /// # Errors
            /// [`ErrorKind::Condition`] if it has fewer elements.
            pub fn tile_mut<const R: usize>(&mut self, shape: [usize; R]) -> Result<Tile<&mut Self, R>> {
                Tile::of_mut(self, shape)
            }
        }
    )* };
}
shaped! { Buffer<T> View<'_, T> }
shaped! { mut Buffer<T> ViewMut<'_, T> }

/// The value of a dimension that several tiles name: (parameter, extent) for each place.
///
/// # Errors
/// [`ErrorKind::Condition`] if the extents differ, or do not fit 32 bits.
#[inline]
pub fn dim(kernel: &Kernel, name: &str, places: &[(&str, usize)]) -> Result<u32> {
    let mut extents = places.iter().map(|(_, extent)| *extent);
    let first = extents.next().unwrap_or(0);
    match u32::try_from(first) {
        Ok(value) if extents.all(|extent| extent == first) => Ok(value),
        _ => Err(disagree(kernel, name, places)),
    }
}

#[cold]
fn disagree(kernel: &Kernel, name: &str, places: &[(&str, usize)]) -> Error {
    let places: Vec<String> = places.iter().map(|(tile, extent)| format!("{extent} in `{tile}`")).collect();
    Error::new(ErrorKind::Condition, format!("`{}` is launched with {name} = {}", kernel.entry, places.join(", ")))
        .possible("one extent below 2^32 for each name")
        .help("check the shapes of the tiles")
}

fn enough(len: usize, shape: &[usize]) -> Result<()> {
    let needed = shape.iter().fold(1usize, |product, extent| product.saturating_mul(*extent));
    if needed <= len { Ok(()) } else { Err(too_few(len, shape, needed)) }
}

#[cold]
fn too_few(len: usize, shape: &[usize], needed: usize) -> Error {
    Error::new(ErrorKind::Condition, format!("the shape {shape:?} = {needed} elements is given to {len} elements"))
        .possible("a shape with at most as many elements as the memory")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::kernel::Module;

    #[test]
    fn names_must_agree() {
        static MODULE: Module = Module::new("m", &[]);
        let kernel = Kernel::new(&MODULE, "gemm", &[]);
        assert_eq!(dim(&kernel, "M", &[("a", 64), ("c", 64)]).unwrap(), 64);
        let error = dim(&kernel, "M", &[("a", 64), ("c", 65)]).unwrap_err();
        assert!(error.to_string().contains("`gemm` is launched with M = 64 in `a`, 65 in `c`"), "{error}");
        assert!(dim(&kernel, "M", &[("a", 1 << 32)]).is_err());
    }
}
