//! Matrix products.

use ptx_ffi::prelude::*;
use ptx_kernels::gemm::{Activation, Gemm, Operand, Output, gemm};

/// The activation of this name, `none` for none.
fn named(name: &str) -> Result<Activation> {
    match name {
        "none" => Ok(Activation::None),
        "relu" => Ok(Activation::Relu),
        "gelu" => Ok(Activation::Gelu),
        "gelu_tanh" => Ok(Activation::GeluTanh),
        "silu" => Ok(Activation::Silu),
        other => {
            let message = format!("activation: expected none, relu, gelu, gelu_tanh or silu, found {other}");
            Err(Error::new(ErrorKind::Condition, message))
        }
    }
}

/// `a · b`.
#[ptx_ffi::export(types = [f32, f16, bf16], shapes(a = [.., k], b = [k, n], out = [.., n]), backward = matmul_backward)]
fn matmul<T>(stream: &Stream, a: TensorRef<'_, T, 2>, b: TensorRef<'_, T, 2>, out: TensorMut<'_, T, 2>) -> Result<()>
where
    T: Operand + Output<T>,
{
    gemm(stream, a, b, out)
}

/// The gradients of `matmul`: `grad_out · bᵀ` and `aᵀ · grad_out`.
#[ptx_ffi::export(
    types = [f32, f16, bf16], shapes(a = [.., k], b = [k, n], grad_out = [.., n], grad_a = [.., k], grad_b = [k, n])
)]
fn matmul_backward<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    grad_out: TensorRef<'_, T, 2>,
    grad_a: Option<TensorMut<'_, T, 2>>,
    grad_b: Option<TensorMut<'_, T, 2>>,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    if let Some(grad_a) = grad_a {
        gemm(stream, grad_out, b.transposed(), grad_a)?;
    }
    grad_b.map_or(Ok(()), |grad_b| gemm(stream, a.transposed(), grad_out, grad_b))
}

/// `activation(a · b + bias)`, with a result of another type where wanted.
#[ptx_ffi::export(
    types = [(f32, f32), (f16, f16), (bf16, bf16), (f16, f32), (bf16, f32)],
    shapes(a = [.., k], b = [k, n], bias = [n], out = [.., n]),
    defaults(activation = "none")
)]
fn linear<T, O>(
    stream: &Stream,
    a: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    bias: Option<TensorRef<'_, O, 1>>,
    out: TensorMut<'_, O, 2>,
    activation: &str,
) -> Result<()>
where
    T: Operand,
    O: Output<T>,
{
    let gemm = Gemm::new().activation(named(activation)?);
    let mut gemm = bias.into_iter().fold(gemm, |gemm, bias| gemm.bias_columns(bias));
    gemm.run(stream, a, b, out)
}

/// `a[i] · b[i]` for every `i`.
#[ptx_ffi::export(
    types = [f32, f16, bf16], shapes(a = [batch, m, k], b = [batch, k, n], out = [batch, m, n]), backward = batched_matmul_backward
)]
fn batched_matmul<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 3>,
    b: TensorRef<'_, T, 3>,
    out: TensorMut<'_, T, 3>,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    gemm(stream, a, b, out)
}

/// The gradients of `batched_matmul`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(a = [batch, m, k], b = [batch, k, n], grad_out = [batch, m, n], grad_a = [batch, m, k], grad_b = [batch, k, n])
)]
fn batched_matmul_backward<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 3>,
    b: TensorRef<'_, T, 3>,
    grad_out: TensorRef<'_, T, 3>,
    grad_a: Option<TensorMut<'_, T, 3>>,
    grad_b: Option<TensorMut<'_, T, 3>>,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    if let Some(grad_a) = grad_a {
        gemm(stream, grad_out, b.permuted([0, 2, 1])?, grad_a)?;
    }
    let Some(grad_b) = grad_b else { return Ok(()) };
    gemm(stream, a.permuted([0, 2, 1])?, grad_out, grad_b)
}
