//! Softmax and cross entropy.

use ptx_ffi::prelude::*;
use ptx_kernels::cross_entropy::{self, CrossEntropy};
use ptx_kernels::softmax::{Float, Softmax};

/// Softmax of `scale · x` over the last dimension.
#[ptx_ffi::export(
    types = [f32, f16, bf16], shapes(x = [.., n], out = [.., n]), defaults(scale = 1.0), backward = softmax_backward
)]
fn softmax<T: Float>(stream: &Stream, x: TensorRef<'_, T, 2>, out: TensorMut<'_, T, 2>, scale: f32) -> Result<()> {
    Softmax::new().scale(scale).forward(stream, x, out)
}

/// The gradient of `softmax`, from its result.
#[ptx_ffi::export(
    types = [f32, f16, bf16], shapes(out = [.., n], grad_out = [.., n], grad_x = [.., n]), defaults(scale = 1.0)
)]
fn softmax_backward<T: Float>(
    stream: &Stream,
    out: TensorRef<'_, T, 2>,
    grad_out: TensorRef<'_, T, 2>,
    grad_x: TensorMut<'_, T, 2>,
    scale: f32,
) -> Result<()> {
    Softmax::new().scale(scale).backward(stream, out, grad_out, grad_x)
}

/// The options of cross entropy.
#[derive(ptx_ffi::Args)]
struct Options {
    ignore_index: i64,
    label_smoothing: f32,
}

/// The vectors of a backward pass: those of the forward pass, and the gradient of the loss.
#[derive(ptx_ffi::Args)]
struct Saved<'a, I> {
    targets: TensorRef<'a, I, 1>,
    lse: TensorRef<'a, f32, 1>,
    grad_loss: TensorRef<'a, f32, 1>,
}

/// The loss of each row of logits for its target, and the logarithm of the sum of its exponentials.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(logits = [.., n], targets = [..], loss = [..], lse = [..]),
    defaults(ignore_index = -100, label_smoothing = 0.0),
    backward = cross_entropy_backward
)]
fn cross_entropy<T: cross_entropy::Float<I>, I: KernelParam>(
    stream: &Stream,
    logits: TensorRef<'_, T, 2>,
    targets: TensorRef<'_, I, 1>,
    loss: TensorMut<'_, f32, 1>,
    lse: TensorMut<'_, f32, 1>,
    options: Options,
) -> Result<()> {
    options.of::<I>()?.forward(stream, logits, targets, loss, lse)
}

/// The gradient of `cross_entropy`.
#[ptx_ffi::export(
    types = [(f32, i64), (f16, i64), (bf16, i64), (f32, u32), (f16, u32), (bf16, u32)],
    shapes(logits = [.., n], targets = [..], lse = [..], grad_loss = [..], grad_logits = [.., n]),
    defaults(ignore_index = -100, label_smoothing = 0.0)
)]
fn cross_entropy_backward<T: cross_entropy::Float<I>, I: KernelParam>(
    stream: &Stream,
    logits: TensorRef<'_, T, 2>,
    Saved { targets, lse, grad_loss }: Saved<'_, I>,
    grad_logits: TensorMut<'_, T, 2>,
    options: Options,
) -> Result<()> {
    let saved = cross_entropy::Saved { targets, lse, dloss: grad_loss };
    options.of::<I>()?.backward(stream, logits, saved, grad_logits)
}

impl Options {
    /// Those for targets of type `I`: targets of 32 bits are compared without a sign.
    fn of<I>(self) -> Result<CrossEntropy> {
        let Options { ignore_index, label_smoothing } = self;
        let ignored = match size_of::<I>() {
            4 if (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&ignore_index) => i64::from(ignore_index as u32),
            4 => {
                let message = format!("ignore_index: {ignore_index} is outside of the targets' 32 bits");
                return Err(Error::new(ErrorKind::Condition, message));
            }
            _ => ignore_index,
        };
        Ok(CrossEntropy::new().ignored_index(ignored).label_smoothing(label_smoothing))
    }
}
