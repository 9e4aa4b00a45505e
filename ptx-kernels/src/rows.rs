//! Shapes of row-wise operations: matrices whose columns lie side by side and whose rows may have any stride.

use ptx_launch::{Error, ErrorKind, Result, StreamRef, TensorMut, TensorRef};

/// The most rows and columns of an operation, and the most of both for kernels that take a matrix as one row.
const MOST: usize = 1 << 31;

/// An argument of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    name: &'static str,
    shape: [usize; 2],
    stride: usize,
    column_stride: usize,
    address: u64,
    bytes: usize,
}

impl Matrix {
    pub(crate) fn read<T>(name: &'static str, tensor: &TensorRef<'_, T, 2>) -> Matrix {
        let [stride, column_stride] = tensor.strides();
        Matrix { name, shape: tensor.shape(), stride, column_stride, address: tensor.address(), bytes: size_of::<T>() }
    }

    pub(crate) fn written<T>(name: &'static str, tensor: &TensorMut<'_, T, 2>) -> Matrix {
        let [stride, column_stride] = tensor.strides();
        Matrix { name, shape: tensor.shape(), stride, column_stride, address: tensor.address(), bytes: size_of::<T>() }
    }

    /// Returns true if all rows start at multiples of 16 bytes.
    fn is_aligned(&self) -> bool {
        let stride = if self.shape[0] > 1 { self.stride.wrapping_mul(self.bytes) } else { 0 };
        self.address.is_multiple_of(16) && stride.is_multiple_of(16)
    }

    /// Returns true if rows follow each other without gaps.
    fn is_dense(&self) -> bool {
        let [rows, columns] = self.shape;
        rows == 1 || self.stride == columns
    }
}

/// The common shape of the matrices of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<const N: usize> {
    pub rows: u32,
    pub columns: u32,
    /// The row strides of the matrices, in elements.
    pub strides: [u64; N],
    /// All rows start at multiples of 16 bytes, and are whole multiples of 16 bytes.
    pub wide: bool,
}

impl<const N: usize> Rows<N> {
    /// Rows and columns that all matrices have; `None` if they have no elements.
    ///
    /// # Errors
    /// [`ErrorKind::Condition`] where shapes differ or columns do not lie side by side, [`ErrorKind::Unsupported`] for more than
    /// 2^31 rows or columns.
    pub(crate) fn of(matrices: [Matrix; N]) -> Result<Option<Rows<N>>> {
        let Some(first) = matrices.first() else { return Ok(None) };
        let [rows, columns] = first.shape;
        for matrix in &matrices {
            if matrix.shape != first.shape {
                return Err(shapes_differ(first, matrix));
            }
            if matrix.column_stride != 1 && columns > 1 {
                return Err(columns_apart(matrix));
            }
        }
        if rows >= MOST || columns >= MOST {
            return Err(too_large(first));
        }
        let whole = matrices.iter().all(|matrix| (columns * matrix.bytes).is_multiple_of(16));
        Ok((rows > 0 && columns > 0).then(|| Rows {
            rows: rows as u32,
            columns: columns as u32,
            // The stride of a single row has no meaning.
            strides: matrices.map(|matrix| if rows == 1 { columns as u64 } else { matrix.stride as u64 }),
            wide: whole && matrices.iter().all(Matrix::is_aligned),
        }))
    }

    /// The same for operations on single elements: matrices without gaps are one row.
    pub(crate) fn flat(matrices: [Matrix; N]) -> Result<Option<Rows<N>>> {
        let Some(rows) = Rows::of(matrices)? else { return Ok(None) };
        let total = u64::from(rows.rows) * u64::from(rows.columns);
        if total >= MOST as u64 || !matrices.iter().all(Matrix::is_dense) {
            return Ok(Some(rows));
        }
        let wide = matrices
            .iter()
            .all(|matrix| matrix.address.is_multiple_of(16) && (total * matrix.bytes as u64).is_multiple_of(16));
        Ok(Some(Rows { rows: 1, columns: total as u32, strides: [total; N], wide }))
    }
}

/// Returns true for devices with clusters, bulk copies and overlapping grids; the CPU device is one.
pub(crate) fn is_hopper(stream: StreamRef<'_>) -> Result<bool> {
    Ok(stream.properties()?.capability.is_none_or(|capability| capability >= 90))
}

/// Checks that a vector has `count` elements side by side, and returns true if it starts at a multiple of 16 bytes. No vector is
/// right, too.
///
/// # Errors
/// [`ErrorKind::Condition`] if it does not.
pub(crate) fn check_vector<T>(name: &str, vector: Option<&TensorRef<'_, T, 1>>, count: usize) -> Result<bool> {
    vector.map_or(Ok(true), |v| check_line(name, v.shape(), v.strides(), v.address(), count))
}

/// The same for a vector that is written.
///
/// # Errors
/// [`ErrorKind::Condition`] if it does not.
pub(crate) fn check_vector_mut<T>(name: &str, vector: Option<&TensorMut<'_, T, 1>>, count: usize) -> Result<bool> {
    vector.map_or(Ok(true), |v| check_line(name, v.shape(), v.strides(), v.address(), count))
}

fn check_line(name: &str, [len]: [usize; 1], [stride]: [usize; 1], address: u64, count: usize) -> Result<bool> {
    if len != count || stride != 1 && len > 1 {
        return Err(no_vector(name, len, stride, count));
    }
    Ok(address.is_multiple_of(16))
}

#[cold]
fn shapes_differ(first: &Matrix, other: &Matrix) -> Error {
    let asked = format!("`{}` has the shape {:?}, and `{}` {:?}", first.name, first.shape, other.name, other.shape);
    Error::new(ErrorKind::Condition, asked).possible("matrices of one shape")
}

#[cold]
fn columns_apart(matrix: &Matrix) -> Error {
    let asked = format!("the columns of `{}` are {} elements apart", matrix.name, matrix.column_stride);
    Error::new(ErrorKind::Condition, asked)
        .possible("columns side by side; rows may have any stride")
        .help("transpose the matrix into a buffer of its own first")
}

#[cold]
fn too_large(matrix: &Matrix) -> Error {
    Error::new(ErrorKind::Unsupported, format!("`{}` has the shape {:?}", matrix.name, matrix.shape))
        .possible("fewer than 2^31 rows and 2^31 columns")
}

#[cold]
fn no_vector(name: &str, len: usize, stride: usize, count: usize) -> Error {
    let asked = format!("`{name}` has {len} elements with a stride of {stride}");
    Error::new(ErrorKind::Condition, asked).possible(format!("{count} elements side by side"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn matrix(shape: [usize; 2], stride: usize, address: u64) -> Matrix {
        Matrix { name: "x", shape, stride, column_stride: 1, address, bytes: 2 }
    }

    #[test]
    fn rows_are_wide_where_every_row_is_aligned() {
        let wide = |shape, stride, address| Rows::of([matrix(shape, stride, address)]).unwrap().unwrap().wide;
        assert!(wide([3, 16], 24, 256));
        assert!(!wide([3, 16], 20, 256));
        assert!(wide([1, 16], usize::MAX, 256), "a single row has no next one");
        assert!(!wide([3, 16], 24, 258));
        assert!(!wide([3, 15], 24, 256));
        assert_eq!(Rows::of([matrix([0, 16], 24, 0)]).unwrap(), None);
    }

    #[test]
    fn dense_matrices_are_one_row() {
        let flat = |shape, stride| Rows::flat([matrix(shape, stride, 256)]).unwrap().unwrap();
        assert_eq!(flat([4, 6], 6), Rows { rows: 1, columns: 24, strides: [24], wide: true });
        assert_eq!(flat([4, 6], 8).rows, 4);
        assert_eq!(flat([1 << 20, 1 << 12], 1 << 12).rows, 1 << 20);
    }

    #[test]
    fn wrong_shapes_are_errors() {
        let kind = |other: Matrix| Rows::of([matrix([4, 6], 6, 0), other]).unwrap_err().kind();
        assert_eq!(kind(matrix([4, 5], 6, 0)), ErrorKind::Condition);
        assert_eq!(kind(Matrix { column_stride: 2, ..matrix([4, 6], 12, 0) }), ErrorKind::Condition);
        assert_eq!(Rows::of([matrix([1, MOST], MOST, 0)]).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
