//! RMSNorm and LayerNorm.

use ptx_ffi::prelude::*;
use ptx_kernels::norm::{Float, Norm, NormBackward};

/// The factors and addends of LayerNorm.
#[derive(ptx_ffi::Args)]
struct Affine<'a, T> {
    weight: Option<TensorRef<'a, T, 1>>,
    bias: Option<TensorRef<'a, T, 1>>,
}

/// The gradients of RMSNorm.
#[derive(ptx_ffi::Args)]
struct RmsGrads<'a, T> {
    grad_x: TensorMut<'a, T, 2>,
    grad_weight: Option<TensorMut<'a, T, 1>>,
}

/// The gradients of LayerNorm.
#[derive(ptx_ffi::Args)]
struct LayerGrads<'a, T> {
    grad_x: TensorMut<'a, T, 2>,
    grad_weight: Option<TensorMut<'a, T, 1>>,
    grad_bias: Option<TensorMut<'a, T, 1>>,
}

/// RMSNorm over the last dimension: `x / sqrt(mean(x²) + eps) · weight`.
#[ptx_ffi::export(
    types = [f32, f16, bf16], shapes(x = [.., n], weight = [n], out = [.., n]), defaults(eps = 1e-6), backward = rms_norm_backward
)]
fn rms_norm<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    weight: Option<TensorRef<'_, T, 1>>,
    out: TensorMut<'_, T, 2>,
    eps: f32,
) -> Result<()> {
    with(weight, Norm::rms(eps), Norm::weight).forward(stream, x, out)
}

/// The gradients of `rms_norm`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(x = [.., n], weight = [n], grad_out = [.., n], grad_x = [.., n], grad_weight = [n]),
    defaults(eps = 1e-6)
)]
fn rms_norm_backward<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    weight: Option<TensorRef<'_, T, 1>>,
    grad_out: TensorRef<'_, T, 2>,
    RmsGrads { grad_x, grad_weight }: RmsGrads<'_, T>,
    eps: f32,
) -> Result<()> {
    let norm = with(weight, NormBackward::rms(eps), NormBackward::weight);
    with(grad_weight, norm, NormBackward::dw).backward(stream, x, grad_out, grad_x)
}

/// LayerNorm over the last dimension: `(x - mean(x)) / sqrt(var(x) + eps) · weight + bias`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(x = [.., n], weight = [n], bias = [n], out = [.., n]),
    defaults(eps = 1e-5),
    backward = layer_norm_backward
)]
fn layer_norm<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    Affine { weight, bias }: Affine<'_, T>,
    out: TensorMut<'_, T, 2>,
    eps: f32,
) -> Result<()> {
    let norm = with(weight, Norm::layer(eps), Norm::weight);
    with(bias, norm, Norm::bias).forward(stream, x, out)
}

/// The gradients of `layer_norm`.
#[ptx_ffi::export(
    types = [f32, f16, bf16],
    shapes(x = [.., n], weight = [n], grad_out = [.., n], grad_x = [.., n], grad_weight = [n], grad_bias = [n]),
    defaults(eps = 1e-5)
)]
fn layer_norm_backward<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    weight: Option<TensorRef<'_, T, 1>>,
    grad_out: TensorRef<'_, T, 2>,
    LayerGrads { grad_x, grad_weight, grad_bias }: LayerGrads<'_, T>,
    eps: f32,
) -> Result<()> {
    let norm = with(weight, NormBackward::layer(eps), NormBackward::weight);
    let norm = with(grad_bias, with(grad_weight, norm, NormBackward::dw), NormBackward::db);
    norm.backward(stream, x, grad_out, grad_x)
}

/// Adds `x` to `residual`, which keeps the sum, and writes the RMSNorm of the sum. The tensors are matrices of rows.
#[ptx_ffi::export(types = [f32, f16, bf16], shapes(x = [m, n], weight = [n], out = [m, n]), defaults(eps = 1e-6))]
fn add_rms_norm<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    weight: Option<TensorRef<'_, T, 1>>,
    out: TensorMut<'_, T, 2>,
    residual: TensorMut<'_, T, 2>,
    eps: f32,
) -> Result<()> {
    with(weight, Norm::rms(eps), Norm::weight).residual(residual).forward(stream, x, out)
}

/// The same with LayerNorm.
#[ptx_ffi::export(
    types = [f32, f16, bf16], shapes(x = [m, n], weight = [n], bias = [n], out = [m, n]), defaults(eps = 1e-5)
)]
fn add_layer_norm<T: Float>(
    stream: &Stream,
    x: TensorRef<'_, T, 2>,
    Affine { weight, bias }: Affine<'_, T>,
    out: TensorMut<'_, T, 2>,
    residual: TensorMut<'_, T, 2>,
    eps: f32,
) -> Result<()> {
    let norm = with(weight, Norm::layer(eps), Norm::weight);
    with(bias, norm, Norm::bias).residual(residual).forward(stream, x, out)
}

/// A builder with an option, if there is a value for it.
fn with<B, V>(value: Option<V>, builder: B, set: impl FnOnce(B, V) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}
