//! Matrix products.

use crate::memory::Typed;
use crate::run::{Custom, Input, Kernel, Op, check_rank, missing};
use candle_core::{Layout, Result, Shape, Tensor};
use ptx_kernels::gemm::{Operand, Output, gemm};
use ptx_launch::{Stream, ViewMut};

/// `a · b` of two matrices, or of two batches of matrices, with any strides: a transposed tensor costs nothing. Sums are `f32`.
///
/// # Errors
/// If shapes do not fit; those of the launch.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match a.rank() {
        2 => a.apply_op2(b, Custom(Product::<2>, Vec::new())),
        _ => a.apply_op2(b, Custom(Product::<3>, Vec::new())),
    }
}

/// The product of tensors of `R` dimensions.
struct Product<const R: usize>;

impl<T: Operand + Output<T> + Typed, const R: usize> Kernel<T> for Product<R> {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [a, b] = inputs else { return Err(missing(inputs)) };
        let mut shape: [usize; R] = std::array::from_fn(|at| a.dims().get(at).copied().unwrap_or(1));
        if let (Some(columns), Some(last)) = (b.dims().last(), shape.last_mut()) {
            *last = *columns;
        }
        gemm(stream, a.tensor::<T, R>()?, b.tensor::<T, R>()?, out.tile_mut(shape)?)
    }
}

impl<const R: usize> Op for Product<R> {
    const NAME: &'static str = "matmul";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        let (a, b): ([usize; R], [usize; R]) = (check_rank("a", layouts[0])?, check_rank("b", layouts[1])?);
        let batches = R - 2;
        if a[..batches] != b[..batches] || a[R - 1] != b[R - 2] {
            candle_core::bail!("matmul: shapes {a:?} and {b:?} do not fit");
        }
        let mut shape = a;
        shape[R - 1] = b[R - 1];
        Ok(Shape::from(shape.to_vec()))
    }

    fn gradients(&self, inputs: &[&Tensor], _: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let [a, b] = inputs else { return Ok(Vec::new()) };
        let (rows, columns) = (R - 2, R - 1);
        Ok(vec![matmul(grad, &b.transpose(rows, columns)?)?, matmul(&a.transpose(rows, columns)?, grad)?])
    }
}
