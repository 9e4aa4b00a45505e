//! Matrix products, of single matrices, batches, and groups.

use crate::attention::no_cast;
use ptx_ffi::prelude::*;
use ptx_kernels::float8::{E4m3, E5m2};
use ptx_kernels::gemm::{Activation, Gemm, Operand, Output};
use ptx_kernels::grouped_gemm::{self, GroupedGemm};
use std::sync::{Mutex, PoisonError};

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

/// The operands of a product.
#[derive(ptx_ffi::Args)]
struct Operands<'a, T> {
    a: TensorRef<'a, T, 2>,
    b: TensorRef<'a, T, 2>,
}

/// Operands of 8 bits, and the factors of rows of `a` and columns of `b`.
#[derive(ptx_ffi::Args)]
struct ScaledOperands<'a, T> {
    a: TensorRef<'a, T, 2>,
    b: TensorRef<'a, T, 2>,
    scale_a: Option<TensorRef<'a, f32, 1>>,
    scale_b: Option<TensorRef<'a, f32, 1>>,
}

/// Addends of a product.
#[derive(ptx_ffi::Args)]
struct Addends<'a, O> {
    bias: Option<TensorRef<'a, O, 1>>,
    residual: Option<TensorRef<'a, O, 2>>,
}

/// The gradients of the operands, those that are wanted.
#[derive(ptx_ffi::Args)]
struct Grads<'a, T, const A: usize, const B: usize> {
    grad_a: Option<TensorMut<'a, T, A>>,
    grad_b: Option<TensorMut<'a, T, B>>,
}

/// `a · b`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(a = [.., k], b = [k, n], out = [.., n]),
    parallel(n),
    defaults(tf32 = false),
    backward = matmul_backward
)]
fn matmul<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    out: TensorMut<'_, T, 2>,
    tf32: bool,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    Gemm::new().tf32(tf32).run(stream, a, b, out)
}

/// The gradients of `matmul`: `grad_out · bᵀ` and `aᵀ · grad_out`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(a = [.., k], b = [k, n], grad_out = [.., n], grad_a = [.., k], grad_b = [k, n]),
    parallel(n, k),
    defaults(tf32 = false)
)]
fn matmul_backward<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 2>,
    b: TensorRef<'_, T, 2>,
    grad_out: TensorRef<'_, T, 2>,
    Grads { grad_a, grad_b }: Grads<'_, T, 2, 2>,
    tf32: bool,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    if let Some(grad_a) = grad_a {
        Gemm::new().tf32(tf32).run(stream, grad_out, b.transposed(), grad_a)?;
    }
    grad_b.map_or(Ok(()), |grad_b| Gemm::new().tf32(tf32).run(stream, a.transposed(), grad_out, grad_b))
}

/// `activation(a · b + bias) + residual`, with a result of another type where wanted.
#[ptx_ffi::export(
    types = [(f32, f32), (f16, f16), (bf16, bf16), (f16, f32), (bf16, f32)],
    shapes(a = [.., k], b = [k, n], bias = [n], residual = [.., n], out = [.., n]),
    parallel(n),
    defaults(activation = "none", tf32 = false),
    label = "matmul"
)]
fn linear<T, O>(
    stream: &Stream,
    Operands { a, b }: Operands<'_, T>,
    Addends { bias, residual }: Addends<'_, O>,
    out: TensorMut<'_, O, 2>,
    activation: &str,
    tf32: bool,
) -> Result<()>
where
    T: Operand,
    O: Output<T>,
{
    let gemm = Gemm::new().activation(named(activation)?).tf32(tf32);
    let gemm = bias.into_iter().fold(gemm, Gemm::bias_columns);
    let mut gemm = residual.into_iter().fold(gemm, Gemm::residual);
    gemm.run(stream, a, b, out)
}

/// `activation(scale_a · scale_b · (a · b) + bias)` for operands of 8 bits. Frameworks pass floats of 8 bits as bytes; `format` names them.
#[ptx_ffi::export(
    types = [(u8, bf16), (u8, f16), (u8, f32), (i8, bf16), (i8, f16), (i8, f32)],
    shapes(a = [.., k], b = [k, n], scale_a = [..], scale_b = [n], bias = [n], out = [.., n]),
    parallel(n),
    defaults(activation = "none", format = "e4m3"),
    label = "matmul"
)]
fn scaled_matmul<T: KernelParam, O>(
    stream: &Stream,
    ScaledOperands { a, b, scale_a, scale_b }: ScaledOperands<'_, T>,
    bias: Option<TensorRef<'_, O, 1>>,
    out: TensorMut<'_, O, 2>,
    activation: &str,
    format: &str,
) -> Result<()>
where
    O: Output<i8> + Output<E4m3> + Output<E5m2>,
{
    let gemm = Gemm::new().activation(named(activation)?);
    let gemm = bias.into_iter().fold(gemm, Gemm::bias_columns);
    let gemm = scale_a.into_iter().fold(gemm, Gemm::scale_rows);
    let gemm = scale_b.into_iter().fold(gemm, Gemm::scale_columns);
    match format {
        "int8" => run_as::<T, i8, O>(gemm, stream, [a, b], out),
        "e4m3" => run_as::<T, E4m3, O>(gemm, stream, [a, b], out),
        "e5m2" => run_as::<T, E5m2, O>(gemm, stream, [a, b], out),
        other => Err(Error::new(ErrorKind::Condition, format!("format: expected int8, e4m3 or e5m2, found {other}"))),
    }
}

/// A product of operands that are read as elements of type `U`.
fn run_as<T: KernelParam, U: Operand, O: Output<U>>(
    mut gemm: Gemm<'_, O, 2>,
    stream: &Stream,
    operands: [TensorRef<'_, T, 2>; 2],
    out: TensorMut<'_, O, 2>,
) -> Result<()> {
    let [Some(a), Some(b)] = operands.map(TensorRef::cast::<U>) else { return Err(no_cast()) };
    gemm.run(stream, a, b, out)
}

/// `a[i] · b[i]` for every `i`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(a = [batch, m, k], b = [batch, k, n], out = [batch, m, n]),
    parallel(batch, m, n),
    defaults(tf32 = false),
    backward = batched_matmul_backward,
    label = "matmul"
)]
fn batched_matmul<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 3>,
    b: TensorRef<'_, T, 3>,
    out: TensorMut<'_, T, 3>,
    tf32: bool,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    Gemm::new().tf32(tf32).run(stream, a, b, out)
}

/// The gradients of `batched_matmul`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(a = [batch, m, k], b = [batch, k, n], grad_out = [batch, m, n], grad_a = [batch, m, k], grad_b = [batch, k, n]),
    parallel(batch, m, n, k),
    defaults(tf32 = false),
    label = "matmul_backward"
)]
fn batched_matmul_backward<T>(
    stream: &Stream,
    a: TensorRef<'_, T, 3>,
    b: TensorRef<'_, T, 3>,
    grad_out: TensorRef<'_, T, 3>,
    Grads { grad_a, grad_b }: Grads<'_, T, 3, 3>,
    tf32: bool,
) -> Result<()>
where
    T: Operand + Output<T>,
{
    if let Some(grad_a) = grad_a {
        Gemm::new().tf32(tf32).run(stream, grad_out, b.permuted([0, 2, 1])?, grad_a)?;
    }
    let Some(grad_b) = grad_b else { return Ok(()) };
    Gemm::new().tf32(tf32).run(stream, a.permuted([0, 2, 1])?, grad_out, grad_b)
}

/// Row r of `a` times the matrix of its group in `b`: group g has rows `offsets[g]` to `offsets[g + 1]`.
#[ptx_ffi::export(
    types = [bf16, f32], shapes(a = [m, k], b = [_, k, n], offsets = [_], out = [m, n]), backward = grouped_matmul_backward
)]
fn grouped_matmul<O: grouped_gemm::Output>(
    stream: &Stream,
    a: TensorRef<'_, bf16, 2>,
    b: TensorRef<'_, bf16, 3>,
    offsets: TensorRef<'_, u32, 1>,
    out: TensorMut<'_, O, 2>,
) -> Result<()> {
    check_offsets(&offsets, b.shape())?;
    grouped(&stream.device())?.run(stream, a, b, &offsets, out)
}

/// The gradients of `grouped_matmul`, for a result in bf16: of `a` a grouped product with the transposed matrices, of `b` for each group the
/// product of its rows of `a`, transposed, and of `grad_out`. Rows of no group have the gradient zero.
#[ptx_ffi::export(shapes(
    a = [m, k], b = [groups, k, n], offsets = [_], grad_out = [m, n], grad_a = [m, k], grad_b = [groups, k, n]
))]
fn grouped_matmul_backward(
    stream: &Stream,
    a: TensorRef<'_, bf16, 2>,
    b: TensorRef<'_, bf16, 3>,
    offsets: TensorRef<'_, u32, 1>,
    grad_out: TensorRef<'_, bf16, 2>,
    Grads { grad_a, grad_b }: Grads<'_, bf16, 2, 3>,
) -> Result<()> {
    check_offsets(&offsets, b.shape())?;
    let grouped = grouped(&stream.device())?;
    if let Some(mut grad_a) = grad_a {
        stream.fill(&mut grad_a, bf16::ZERO)?;
        grouped.run(stream, grad_out, b.permuted([0, 2, 1])?, &offsets, grad_a)?;
    }
    grad_b.map_or(Ok(()), |grad_b| grouped.gradient_b(stream, a, grad_out, &offsets, grad_b))
}

/// One offset more than groups.
fn check_offsets(offsets: &TensorRef<'_, u32, 1>, [groups, ..]: [usize; 3]) -> Result<()> {
    let [count] = offsets.shape();
    if count == groups + 1 && offsets.is_contiguous() {
        return Ok(());
    }
    let message = format!("offsets: expected {} numbers without gaps for {groups} groups, found {count}", groups + 1);
    Err(Error::new(ErrorKind::Condition, message))
}

/// The grouped products of a device. The driver is asked once.
fn grouped(device: &Device) -> Result<GroupedGemm> {
    static KNOWN: Mutex<Vec<(Option<usize>, GroupedGemm)>> = Mutex::new(Vec::new());
    let ordinal = device.as_cuda().map(|context| context.ordinal());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match known.iter().find(|(other, _)| *other == ordinal) {
        Some((_, grouped)) => Ok(*grouped),
        None => {
            let grouped = GroupedGemm::new(device)?;
            known.push((ordinal, grouped));
            Ok(grouped)
        }
    }
}
