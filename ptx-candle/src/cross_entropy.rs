//! Cross entropy of logits.

use crate::memory::{Memory, Typed};
use crate::run::{Custom, Input, Kernel, Op, check_rows, missing};
use candle_core::{DType, Layout, Result, Shape, Tensor};
use half::{bf16, f16};
use ptx_kernels::cross_entropy::{self, Float, Saved};
use ptx_launch::{Stream, TensorRef, ViewMut};

/// The cross entropy of each row of `logits` (…, classes) with its target, an `i64` or `u32`: a vector of `f32` for all rows. The logits are read once,
/// whatever their type is. Differentiable in the logits.
///
/// # Errors
/// If there is not one target for each row; those of the launch.
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let both = logits.apply_op2(&targets.flatten_all()?, Custom(Forward, Vec::new()))?;
    both.get(0)
}

/// The losses, and behind them the logarithms of the sums, which the gradient reads.
struct Forward;

/// The targets, of either type.
enum Targets<'a> {
    I64(TensorRef<'a, i64, 1>),
    U32(TensorRef<'a, u32, 1>),
}

fn targets<'a>(input: &Input<'a>) -> ptx_launch::Result<Targets<'a>> {
    match input.memory {
        Memory::I64(_) => Ok(Targets::I64(input.tensor()?)),
        _ => Ok(Targets::U32(input.tensor()?)),
    }
}

fn forward<T>(stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, f32>) -> ptx_launch::Result<()>
where
    T: Typed + Float<i64> + Float<u32>,
{
    let [logits, of_rows] = inputs else { return Err(missing(inputs)) };
    let logits = logits.rows::<T>()?;
    let [rows, _] = logits.shape();
    let (mut loss, mut lse) = out.split_at_mut(rows)?;
    let (loss, lse) = (loss.tile_mut([rows])?, lse.tile_mut([rows])?);
    let options = cross_entropy::CrossEntropy::new();
    match targets(of_rows)? {
        Targets::I64(targets) => options.forward(stream, logits, targets, loss, lse),
        Targets::U32(targets) => options.forward(stream, logits, targets, loss, lse),
    }
}

impl Kernel<f32> for Forward {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], out: ViewMut<'_, f32>) -> ptx_launch::Result<()> {
        match inputs.first().map(|logits| logits.memory) {
            Some(Memory::F16(_)) => forward::<f16>(stream, inputs, out),
            Some(Memory::BF16(_)) => forward::<bf16>(stream, inputs, out),
            _ => forward::<f32>(stream, inputs, out),
        }
    }
}

macro_rules! of_f32_alone {
    ($($ty:ty)*) => { $(
        impl Kernel<$ty> for Forward {
            fn launch(&self, _: &Stream, inputs: &[Input<'_>], _: ViewMut<'_, $ty>) -> ptx_launch::Result<()> {
                Err(missing(inputs))
            }
        }
    )* };
}
of_f32_alone! { f16 bf16 }

impl Op for Forward {
    const NAME: &'static str = "cross entropy";

    fn dtype(&self, _: DType) -> DType {
        DType::F32
    }

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        let [rows, _] = check_rows("logits", layouts[0])?;
        match layouts[1].dims() {
            [targets] if *targets == rows => Ok(Shape::from((2, rows))),
            [targets] => candle_core::bail!("cross entropy: {targets} targets for {rows} rows of logits"),
            dims => candle_core::bail!("cross entropy: targets have the shape {dims:?}"),
        }
    }

    fn gradients(&self, inputs: &[&Tensor], result: &Tensor, grad: &Tensor) -> Result<Vec<Tensor>> {
        let [logits, targets] = inputs else { return Ok(Vec::new()) };
        let others = vec![(*targets).clone(), result.get(1)?, grad.get(0)?];
        Ok(vec![logits.apply_op1_no_bwd(&Custom(Backward, others))?])
    }
}

/// The gradient of the logits: of the logits, the targets, the logarithms, and the losses' gradient.
struct Backward;

impl<T: Typed + Float<i64> + Float<u32>> Kernel<T> for Backward {
    fn launch(&self, stream: &Stream, inputs: &[Input<'_>], mut out: ViewMut<'_, T>) -> ptx_launch::Result<()> {
        let [logits, of_rows, lse, grad] = inputs else { return Err(missing(inputs)) };
        let logits = logits.rows::<T>()?;
        let (lse, dloss, out) = (lse.tensor::<f32, 1>()?, grad.tensor::<f32, 1>()?, out.tile_mut(logits.shape())?);
        let options = cross_entropy::CrossEntropy::new();
        match targets(of_rows)? {
            Targets::I64(targets) => options.backward(stream, logits, Saved { targets, lse, dloss }, out),
            Targets::U32(targets) => options.backward(stream, logits, Saved { targets, lse, dloss }, out),
        }
    }
}

impl Op for Backward {
    const NAME: &'static str = "cross entropy gradient";

    fn shape(&self, layouts: &[&Layout]) -> Result<Shape> {
        Ok(layouts[0].shape().clone())
    }
}
