//! Shapes and strides of a product's tensors, as kernels count them: extents of 32 bits, strides in bytes.

use super::element::{Element, Operand};
use super::params::{Epilogue, Matrix, Source};
use super::problem::{Product, size};
use ptx_launch::{Error, ErrorKind, Result, TensorRef};

/// An extent, and the bytes from one to the next; zero if there is no next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) extent: u32,
    stride: u64,
}

/// A tensor of two or three dimensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) batch: Extent,
    pub(super) rows: Extent,
    pub(super) columns: Extent,
}

/// A, B and C.
pub(super) struct Views {
    pub(super) a: View,
    pub(super) b: View,
    pub(super) c: View,
}

impl Views {
    /// The views of tensors; C has this shape and these strides.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for extents of 2³¹ and more.
    #[inline]
    pub(super) fn of<T: Operand, O: Element, const R: usize>(
        a: &TensorRef<'_, T, R>,
        b: &TensorRef<'_, T, R>,
        (shape, strides): ([usize; R], [usize; R]),
    ) -> Result<Views> {
        let operand = |tensor: &TensorRef<'_, T, R>| View::of(tensor.shape(), tensor.strides(), size(T::KIND));
        Ok(Views { a: operand(a)?, b: operand(b)?, c: View::of(shape, strides, size(O::KIND))? })
    }

    /// A product without options of the memory at these addresses.
    #[inline]
    pub(super) fn product(&self, [a, b, c]: [u64; 3], kind: u32, deterministic: bool) -> Product {
        let Views { a: view_a, b: view_b, c: view_c } = self;
        Product {
            kind,
            m: view_c.rows.extent,
            n: view_c.columns.extent,
            k: view_a.columns.extent,
            batches: view_c.batch.extent as usize,
            a: Source { at: a, line: view_a.rows.stride, k: view_a.columns.stride, batch: view_a.batch.stride },
            b: Source { at: b, line: view_b.columns.stride, k: view_b.rows.stride, batch: view_b.batch.stride },
            c: view_c.matrix(c),
            residual: Matrix::default(),
            epilogue: Epilogue::default(),
            has_options: false,
            deterministic,
        }
    }
}

impl Extent {
    #[inline]
    fn of(extent: usize, stride: usize, size: u64) -> Result<Extent> {
        let stride = if extent > 1 { (stride as u64).wrapping_mul(size) } else { 0 };
        match u32::try_from(extent) {
            Ok(extent) if extent < 1 << 31 => Ok(Extent { extent, stride }),
            _ => Err(too_large(extent)),
        }
    }
}

impl View {
    /// A tensor with elements of `size` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for extents of 2³¹ and more.
    #[inline]
    pub(super) fn of<const R: usize>(shape: [usize; R], strides: [usize; R], size: u64) -> Result<View> {
        const { assert!(R == 2 || R == 3, "a matrix product takes tensors of two dimensions, or of three with a batch") };
        let batch = if R == 3 { Extent::of(shape[0], strides[0], size)? } else { Extent { extent: 1, stride: 0 } };
        let rows = Extent::of(shape[R - 2], strides[R - 2], size)?;
        Ok(View { batch, rows, columns: Extent::of(shape[R - 1], strides[R - 1], size)? })
    }

    /// Batches, rows, columns.
    pub(super) fn extents(&self) -> [u32; 3] {
        [self.batch.extent, self.rows.extent, self.columns.extent]
    }

    /// The matrix at an address, as kernels have it.
    #[inline]
    pub(super) fn matrix(&self, at: u64) -> Matrix {
        Matrix { at, row: self.rows.stride, column: self.columns.stride, batch: self.batch.stride }
    }
}

#[cold]
fn too_large(extent: usize) -> Error {
    Error::new(ErrorKind::Unsupported, format!("a matrix has an extent of {extent}"))
        .possible("extents below 2147483648; offsets have 64 bits")
}
